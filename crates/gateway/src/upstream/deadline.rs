//! The waits of one exchange as one timer: it moves when something arrives, and never past the total.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::error::{Stage, UpstreamError};
use super::message::Patience;
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
            last_seen: None,
            touched: false,
        }
    }

    /// Starts for the next exchange, with the wait for its first byte.
    pub(super) fn start(&mut self, waits: &Waits, stays_open: bool, patience: Option<&Patience>) {
        let now = Instant::now();
        (self.stage, self.after) = first_wait(waits);
        self.due = now + self.after;
        self.ends = now + waits.total_max;
        self.stays_open = stays_open;
        self.patience = patience.cloned();
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
        let Some(seen) = self.last_seen else {
            if self.patience.as_ref().is_some_and(Patience::is_renewed) {
                self.due = Instant::now() + self.after;
            }
            return Some(self.due);
        };
        if self.stays_open {
            return None;
        }
        let idle_ends = seen + self.idle_max;
        if idle_ends <= self.ends {
            (self.stage, self.after) = (Stage::Idle, self.idle_max);
            return Some(idle_ends);
        }
        (self.stage, self.after) = (Stage::Total, self.total_max);
        Some(self.ends)
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
        deadline.start(&waits, false, Some(&patience));
        // Its client is asked, and thinks for longer than the server has.
        advance(waits.first_byte_max * 2).await;
        patience.renew();
        assert!(!is_over(&mut deadline).await);
        advance(waits.first_byte_max / 2).await;
        assert!(!is_over(&mut deadline).await);
        advance(waits.first_byte_max).await;
        assert!(is_over(&mut deadline).await);
    }
}
