//! The waits of one exchange as one timer: it moves when something arrives, and never past the total.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::error::{Stage, UpstreamError};
use super::message::{Patience, Pause};
use super::options::Waits;

/// The timer of a connection, for one exchange after the other. Setting a timer costs more than an
/// exchange takes that is answered at once, so it is set when there is something to wait for, and moves
/// later only when it fires.
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
    patience: Option<Patience>,
    /// What of the client's time the patience knew of when the wait for the first byte began.
    renewed_at: Duration,
    /// While the client is asked something on the stream of the answer.
    pause: Pause,
    last_seen: Option<Instant>,
    /// Something arrived since the clock was last read.
    touched: bool,
}

impl Deadline {
    /// As if the wait for the first byte of something had just begun.
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
            patience: None,
            renewed_at: Duration::ZERO,
            pause: Pause::default(),
            last_seen: None,
            touched: false,
        }
    }

    /// Starts for the next exchange, with the wait for its first byte. What went before, such as the wait
    /// for a connection, is a part of the total.
    pub(super) fn start(
        &mut self,
        waits: &Waits,
        began: Instant,
        stays_open: bool,
        patience: Option<&Patience>,
    ) {
        let now = Instant::now();
        (self.stage, self.after) = first_wait(waits);
        self.due = now + self.after;
        self.ends = began + waits.total_max;
        self.stays_open = stays_open;
        self.patience = patience.cloned();
        self.renewed_at = patience.map_or(Duration::ZERO, Patience::waited);
        self.pause = Pause::default();
        self.last_seen = None;
        self.touched = false;
    }

    /// Lets go of the task that waited.
    pub(super) fn rest(&mut self) {
        if let Some(sleep) = &mut self.sleep {
            // Whether it has fired shows when it is next waited for.
            let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Something arrived.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// Says whether the client is being asked something. No wait ends while it is.
    pub(super) fn set_asking(&mut self, asking: bool) {
        self.pause.set(asking);
        self.touch();
    }

    /// The total, where it is over; for a server that never makes us wait.
    pub(super) fn overdue(&self) -> Option<UpstreamError> {
        let is_over = !self.stays_open && !self.is_asking() && self.total_ends() <= Instant::now();
        is_over.then_some(UpstreamError::TimedOut { stage: Stage::Total, after: self.total_max })
    }

    fn is_asking(&self) -> bool {
        self.pause.is_on() || self.patience.as_ref().is_some_and(Patience::is_asking)
    }

    fn total_ends(&self) -> Instant {
        let asked = self.patience.as_ref().map_or(Duration::ZERO, Patience::waited);
        self.ends + self.pause.waited + asked
    }

    /// Ready when a wait is over. Registers for a wake-up otherwise.
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

    /// When the wait that holds now ends, or never.
    fn next_end(&mut self) -> Option<Instant> {
        if std::mem::take(&mut self.touched) {
            self.last_seen = Some(Instant::now());
        }
        if self.is_asking() {
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

    /// A server that waited for its client has all of this wait again.
    fn first_byte_due(&mut self) -> Instant {
        let asked = self.patience.as_ref().map_or(Duration::ZERO, Patience::waited);
        if asked > self.renewed_at {
            self.renewed_at = asked;
            self.due = Instant::now() + self.after;
        }
        self.due
    }
}

/// The wait for the first byte, or for all where that is shorter.
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
        let (waits, patience) = (Waits::default(), Patience::default());
        let mut deadline = Deadline::new(&waits);
        deadline.start(&waits, Instant::now(), false, Some(&patience));
        // Its client is asked, and thinks for longer than the server has.
        patience.set_asking(true);
        advance(waits.first_byte_max * 2).await;
        assert!(!is_over(&mut deadline).await);
        patience.set_asking(false);
        assert!(!is_over(&mut deadline).await);
        advance(waits.first_byte_max / 2).await;
        assert!(!is_over(&mut deadline).await);
        advance(waits.first_byte_max).await;
        assert!(is_over(&mut deadline).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_drips_ends_with_the_total_and_the_clients_time_is_not_counted() {
        let second = Duration::from_secs(1);
        let waits = Waits { total_max: 20 * second, ..Waits::default() };
        let mut deadline = Deadline::new(&waits);
        // Three seconds went by before there was a connection.
        let began = Instant::now();
        advance(3 * second).await;
        deadline.start(&waits, began, false, None);
        for _ in 0..16 {
            advance(second).await;
            deadline.touch();
            assert!(!is_over(&mut deadline).await && deadline.overdue().is_none());
        }
        deadline.set_asking(true);
        advance(100 * second).await;
        assert!(!is_over(&mut deadline).await && deadline.overdue().is_none());
        deadline.set_asking(false);
        deadline.touch();
        assert!(!is_over(&mut deadline).await && deadline.overdue().is_none());
        advance(second).await;
        deadline.touch();
        assert!(deadline.overdue().is_some(), "also if it is never waited for");
        assert!(is_over(&mut deadline).await);
    }
}
