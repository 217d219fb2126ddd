//! The waits of one exchange as one timer: it moves when something arrives, and never past the total.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::error::{Stage, UpstreamError};
use super::options::Waits;

/// The timer of one exchange.
pub(super) struct Deadline {
    sleep: Pin<Box<Sleep>>,
    stage: Stage,
    after: Duration,
    idle_max: Duration,
    total_max: Duration,
    ends: Instant,
    stays_open: bool,
    /// Moving a timer costs more than reading the clock, so it moves later only when it fires.
    last_seen: Option<Instant>,
}

impl Deadline {
    /// Starts with the wait for the first byte.
    pub(super) fn start(waits: &Waits, stays_open: bool) -> Deadline {
        let now = Instant::now();
        let first = waits.first_byte_max.min(waits.total_max);
        Deadline {
            sleep: Box::pin(sleep_until(now + first)),
            stage: if waits.first_byte_max <= waits.total_max {
                Stage::FirstByte
            } else {
                Stage::Total
            },
            after: first,
            idle_max: waits.idle_max,
            total_max: waits.total_max,
            ends: now + waits.total_max,
            stays_open,
            last_seen: None,
        }
    }

    /// Something arrived.
    pub(super) fn touch(&mut self) {
        self.last_seen = Some(Instant::now());
    }

    /// Ready when a wait is over. Registers for a wake-up otherwise.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<UpstreamError> {
        let Some(end) = self.next_end() else {
            return Poll::Pending;
        };
        if end < self.sleep.deadline() {
            self.sleep.as_mut().reset(end);
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            if end <= Instant::now() {
                return Poll::Ready(UpstreamError::TimedOut {
                    stage: self.stage,
                    after: self.after,
                });
            }
            self.sleep.as_mut().reset(end);
        }
        Poll::Pending
    }

    /// When the wait that holds now ends, or never.
    fn next_end(&mut self) -> Option<Instant> {
        let Some(seen) = self.last_seen else {
            return Some(self.sleep.deadline());
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
