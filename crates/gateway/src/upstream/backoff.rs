//! Back-off before a child is restarted.

use std::time::Duration;

use super::options::ChildBounds;

/// The back-off of one child: doubles until the child has been healthy for a while.
pub(crate) struct Backoff {
    next: Duration,
    min: Duration,
    max: Duration,
    healthy_after: Duration,
}

impl Backoff {
    pub(crate) fn new(bounds: &ChildBounds) -> Backoff {
        let (min, max) = (bounds.backoff_min, bounds.backoff_max);
        Backoff { next: min, min, max, healthy_after: bounds.healthy_after }
    }

    /// The back-off after a run of this length.
    pub(crate) fn pause_after(&mut self, ran: Duration) -> Duration {
        let pause = if ran >= self.healthy_after { self.min } else { self.next };
        self.next = (pause * 2).min(self.max);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_it_fails_and_begin_again_once_it_was_healthy() {
        let mut backoff = Backoff::new(&ChildBounds::default());
        let table_ms = [
            (0, 200),
            (10, 400),
            (59_999, 800),
            (0, 1_600),
            (0, 3_200),
            (0, 6_400),
            (0, 12_800),
            (0, 25_600),
            (0, 30_000),
            (0, 30_000),
            (60_000, 200),
            (0, 400),
        ];
        for (ran_ms, pause_ms) in table_ms {
            let pause = backoff.pause_after(Duration::from_millis(ran_ms));
            assert_eq!(pause, Duration::from_millis(pause_ms), "after {ran_ms} ms");
        }
    }
}
