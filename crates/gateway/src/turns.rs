//! Long work of one server lets others go first: it shares its thread with conversations, and with the
//! rest of the machine a core.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Who asked less than this ago will probably ask again.
const RECENT: Duration = Duration::from_millis(20);

thread_local! {
    /// When a client last asked for something on this thread.
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Takes note that a client asks for something.
pub(crate) fn asked() {
    ASKED.set(Some(Instant::now()));
}

/// Ends a turn of work that began at `since`. Others that have asked meanwhile get a pause, in which
/// they need not share the thread; where nobody does, the work goes on at once.
pub(crate) async fn let_others(since: Instant, pause: Duration) {
    if others_ask(ASKED.get(), since, Instant::now()) {
        // Boxed, because most answers never come here.
        Box::pin(tokio::time::sleep(pause)).await;
    } else {
        tokio::task::yield_now().await;
    }
}

fn others_ask(asked: Option<Instant>, since: Instant, now: Instant) -> bool {
    asked.is_some_and(|asked| asked > since && now.saturating_duration_since(asked) < RECENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(2);

    #[test]
    fn only_who_asked_lately_and_after_the_work_began_is_waited_for() {
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
            assert_eq!(others_ask(asked.map(at), since, at(now)), waits, "{asked:?} {now}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_ends_with_a_pause_only_beside_others() {
        let (begin, since) = (tokio::time::Instant::now(), Instant::now());
        let_others(since, PAUSE).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        asked();
        let_others(since, PAUSE).await;
        assert_eq!(begin.elapsed(), PAUSE);
    }
}
