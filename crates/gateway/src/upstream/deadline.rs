//! The timeouts of one exchange as one timer. It is extended when data arrives, but never beyond the total.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::error::{Stage, UpstreamError};
use super::message::{Pause, SharedPause};
use super::options::Waits;

/// The timer of a connection, reused for every exchange. Setting a timer costs more than a fast exchange, so it
/// is set only when the task waits, and extended only when it fires.
pub(super) struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    stage: Stage,
    after: Duration,
    idle_max: Duration,
    total_max: Duration,
    /// When the first byte is due.
    due: Instant,
    ends: Instant,
    stays_open: bool,
    client_pause: Option<SharedPause>,
    /// The client's share of the time when the wait for the first byte started.
    renewed_at: Duration,
    /// Active while the client answers a server request.
    pause: Pause,
    last_seen: Option<Instant>,
    /// Data arrived since the clock was last read.
    touched: bool,
}

impl Deadline {
    /// As if the wait for a first byte had just started.
    pub(super) fn new(waits: &Waits) -> Deadline {
        let now = Instant::now();
        let (stage, after) = first_wait(waits);
        Deadline {
            sleep: None,
            stage,
            after,
            idle_max: waits.idle_max,
            total_max: waits.total_max,
            due: now + after,
            ends: now + waits.total_max,
            stays_open: false,
            client_pause: None,
            renewed_at: Duration::ZERO,
            pause: Pause::default(),
            last_seen: None,
            touched: false,
        }
    }

    /// Starts the next exchange with the wait for its first byte. Earlier waits count towards the total.
    pub(super) fn start(
        &mut self,
        waits: &Waits,
        began: Instant,
        stays_open: bool,
        client_pause: Option<&SharedPause>,
    ) {
        let now = Instant::now();
        (self.stage, self.after) = first_wait(waits);
        self.due = now + self.after;
        self.ends = began + waits.total_max;
        self.stays_open = stays_open;
        self.client_pause = client_pause.cloned();
        self.renewed_at = client_pause.map_or(Duration::ZERO, SharedPause::waited);
        self.pause = Pause::default();
        self.last_seen = None;
        self.touched = false;
    }

    /// Releases the waiting task.
    pub(super) fn rest(&mut self) {
        if let Some(sleep) = &mut self.sleep {
            // The next poll shows whether it has fired.
            let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Data arrived.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// Pauses all timeouts while the client answers a server request.
    pub(super) fn set_waiting_for_client(&mut self, paused: bool) {
        self.pause.set(paused);
        self.touch();
    }

    /// The total timeout, for a server that never makes the task wait.
    pub(super) fn check_total_timeout(&self) -> Option<UpstreamError> {
        let is_over = !self.stays_open && !self.is_paused() && self.total_ends() <= Instant::now();
        is_over.then_some(UpstreamError::TimedOut { stage: Stage::Total, after: self.total_max })
    }

    fn is_paused(&self) -> bool {
        self.pause.is_on() || self.client_pause.as_ref().is_some_and(SharedPause::is_paused)
    }

    fn total_ends(&self) -> Instant {
        let paused_for = self.client_pause.as_ref().map_or(Duration::ZERO, SharedPause::waited);
        self.ends + self.pause.waited + paused_for
    }

    /// Ready when a timeout is over. Otherwise registers for a wake-up.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<UpstreamError> {
        let Some(end) = self.next_end() else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if end < sleep.deadline() {
            sleep.as_mut().reset(end);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if end <= Instant::now() {
                return Poll::Ready(UpstreamError::TimedOut {
                    stage: self.stage,
                    after: self.after,
                });
            }
            sleep.as_mut().reset(end);
        }
        Poll::Pending
    }

    /// When the current timeout ends, if there is one.
    fn next_end(&mut self) -> Option<Instant> {
        if std::mem::take(&mut self.touched) {
            self.last_seen = Some(Instant::now());
        }
        if self.is_paused() {
            return None;
        }
        let next = match self.last_seen {
            None => self.first_byte_due(),
            Some(_) if self.stays_open => return None,
            Some(seen) => {
                (self.stage, self.after) = (Stage::Idle, self.idle_max);
                seen + self.idle_max
            }
        };
        let ends = self.total_ends();
        if next <= ends {
            return Some(next);
        }
        (self.stage, self.after) = (Stage::Total, self.total_max);
        Some(ends)
    }

    /// After a pause for its client, a server has the full time again.
    fn first_byte_due(&mut self) -> Instant {
        let paused_for = self.client_pause.as_ref().map_or(Duration::ZERO, SharedPause::waited);
        if paused_for > self.renewed_at {
            self.renewed_at = paused_for;
            self.due = Instant::now() + self.after;
        }
        self.due
    }
}

/// The timeout for the first byte, or the total if that is shorter.
fn first_wait(waits: &Waits) -> (Stage, Duration) {
    if waits.first_byte_max <= waits.total_max {
        (Stage::FirstByte, waits.first_byte_max)
    } else {
        (Stage::Total, waits.total_max)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    async fn is_over(deadline: &mut Deadline) -> bool {
        poll_fn(|cx| Poll::Ready(deadline.poll(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_waited_for_its_client_has_all_of_its_time_again() {
        let (waits, client_pause) = (Waits::default(), SharedPause::default());
        let mut deadline = Deadline::new(&waits);
        deadline.start(&waits, Instant::now(), false, Some(&client_pause));
        // The client takes longer than the server's timeout.
        client_pause.set_waiting_for_client(true);
        advance(waits.first_byte_max * 2).await;
        assert!(!is_over(&mut deadline).await);
        client_pause.set_waiting_for_client(false);
        assert!(!is_over(&mut deadline).await);
        advance(waits.first_byte_max / 2).await;
        assert!(!is_over(&mut deadline).await);
        advance(waits.first_byte_max).await;
        assert!(is_over(&mut deadline).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dripping_body_ends_at_the_total_and_client_time_is_not_counted() {
        let second = Duration::from_secs(1);
        let waits = Waits { total_max: 20 * second, ..Waits::default() };
        let mut deadline = Deadline::new(&waits);
        // Three seconds passed before there was a connection.
        let began = Instant::now();
        advance(3 * second).await;
        deadline.start(&waits, began, false, None);
        for _ in 0..16 {
            advance(second).await;
            deadline.touch();
            assert!(!is_over(&mut deadline).await && deadline.check_total_timeout().is_none());
        }
        deadline.set_waiting_for_client(true);
        advance(100 * second).await;
        assert!(!is_over(&mut deadline).await && deadline.check_total_timeout().is_none());
        deadline.set_waiting_for_client(false);
        deadline.touch();
        assert!(!is_over(&mut deadline).await && deadline.check_total_timeout().is_none());
        advance(second).await;
        deadline.touch();
        assert!(deadline.check_total_timeout().is_some(), "also if it is never waited for");
        assert!(is_over(&mut deadline).await);
    }
}
