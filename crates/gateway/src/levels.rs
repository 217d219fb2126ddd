//! Which log messages the clients of one conversation want. An older server is told one level for all of
//! them: the most talkative that anyone wanted lately. Each client is then given what it asked for.

use crate::greet::{LOG_LEVELS, log_rank};

/// A client of the newer era says its level with each request; who has not asked for so long is gone.
const WISH_US_MAX: u64 = 10 * 60 * 1_000_000;

/// Levels by their rank: the lower it is, the more is said.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// When each was last wanted.
    wanted_us: [Option<u64>; LOG_LEVELS.len()],
    told: Option<usize>,
}

impl Levels {
    /// One of several clients wants a level. The one to tell the server, where that is another than it
    /// was told before.
    pub(crate) fn want(&mut self, level: &str, now_us: u64) -> Option<&'static str> {
        let wish = self.wanted_us.get_mut(log_rank(level)?)?;
        *wish = Some(now_us);
        let is_new =
            |at: &Option<u64>| at.is_some_and(|at| now_us.saturating_sub(at) <= WISH_US_MAX);
        let most = self.wanted_us.iter().position(is_new)?;
        self.tell(most)
    }

    /// The only client wants a level, and nothing else any more.
    pub(crate) fn want_only(&mut self, level: &str) -> Option<&'static str> {
        self.tell(log_rank(level)?)
    }

    fn tell(&mut self, rank: usize) -> Option<&'static str> {
        let changes = self.told.replace(rank) != Some(rank);
        LOG_LEVELS.get(rank).copied().filter(|_| changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_talkative_level_is_told_as_long_as_anybody_wants_it() {
        let mut levels = Levels::default();
        for (level, now_us, told) in [
            ("error", 0, Some("error")),
            ("error", 1, None),
            ("debug", 2, Some("debug")),
            ("error", 3, None),
            ("nonsense", 4, None),
            ("info", WISH_US_MAX + 2, None),
            ("info", WISH_US_MAX + 3, Some("info")),
            ("emergency", 3 * WISH_US_MAX, Some("emergency")),
        ] {
            assert_eq!(levels.want(level, now_us), told, "{level} at {now_us}");
        }
    }

    #[test]
    fn an_only_client_may_want_less_again() {
        let mut levels = Levels::default();
        for (level, told) in [("debug", Some("debug")), ("error", Some("error")), ("error", None)] {
            assert_eq!(levels.want_only(level), told);
        }
    }
}
