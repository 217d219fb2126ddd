//! Cooperative pacing: long reads yield while other clients on this thread are active.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A client with a request within this time will probably send another.
const RECENT: Duration = Duration::from_millis(20);

thread_local! {
    /// Time of the last client request on this thread.
    static LAST_REQUEST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Notes a client request.
pub(crate) fn note_request() {
    LAST_REQUEST.set(Some(Instant::now()));
}

/// Yields after a step of long work that began at `since`. If other clients sent requests in
/// between, the work pauses; otherwise it continues at once.
pub(crate) async fn yield_to_others(since: Instant, pause: Duration) {
    if others_active(LAST_REQUEST.get(), since, Instant::now()) {
        // Boxed, because most responses never get here.
        Box::pin(tokio::time::sleep(pause)).await;
    } else {
        tokio::task::yield_now().await;
    }
}

fn others_active(asked: Option<Instant>, since: Instant, now: Instant) -> bool {
    asked.is_some_and(|asked| asked > since && now.saturating_duration_since(asked) < RECENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(2);

    #[test]
    fn only_a_recent_request_after_the_start_causes_a_pause() {
        let since = Instant::now();
        let at = |ms| since + Duration::from_millis(ms);
        for (asked, now, waits) in [
            (None, 10, false),
            (Some(0), 10, false),
            (Some(5), 10, true),
            (Some(5), 24, true),
            (Some(5), 25, false),
            (Some(500), 505, true),
        ] {
            assert_eq!(others_active(asked.map(at), since, at(now)), waits, "{asked:?} {now}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_pauses_only_while_others_are_active() {
        let (begin, since) = (tokio::time::Instant::now(), Instant::now());
        yield_to_others(since, PAUSE).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        note_request();
        yield_to_others(since, PAUSE).await;
        assert_eq!(begin.elapsed(), PAUSE);
    }
}
