//! The log level of a legacy server: the most verbose one that any of its clients wanted recently. Messages are
//! filtered per client afterwards.

/// The log levels of the protocol.
pub(crate) const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The severity of a level. None for an unknown level.
pub(crate) fn log_rank(level: &str) -> Option<usize> {
    LOG_LEVELS.iter().position(|known| *known == level)
}

/// Modern clients name their level with each request. One that was not named for this long is dropped.
const WANTED_US_MAX: u64 = 10 * 60 * 1_000_000;

/// Levels by rank: a lower rank is more verbose.
#[derive(Debug, Default)]
pub(crate) struct LogLevels {
    /// When each level was last wanted.
    wanted_us: [Option<u64>; LOG_LEVELS.len()],
    sent: Option<usize>,
}

impl LogLevels {
    /// A client wants a level. Returns the level to send to the server, if it changes.
    pub(crate) fn want(&mut self, level: &str, now_us: u64) -> Option<&'static str> {
        let wanted = self.wanted_us.get_mut(log_rank(level)?)?;
        *wanted = Some(now_us);
        let is_new =
            |at: &Option<u64>| at.is_some_and(|at| now_us.saturating_sub(at) <= WANTED_US_MAX);
        let most = self.wanted_us.iter().position(is_new)?;
        self.change_to(most)
    }

    /// The only client wants a level.
    pub(crate) fn want_only(&mut self, level: &str) -> Option<&'static str> {
        self.change_to(log_rank(level)?)
    }

    fn change_to(&mut self, rank: usize) -> Option<&'static str> {
        let changes = self.sent.replace(rank) != Some(rank);
        LOG_LEVELS.get(rank).copied().filter(|_| changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gets_the_most_verbose_level_in_use() {
        let mut levels = LogLevels::default();
        for (level, now_us, sent) in [
            ("error", 0, Some("error")),
            ("error", 1, None),
            ("debug", 2, Some("debug")),
            ("error", 3, None),
            ("nonsense", 4, None),
            ("info", WANTED_US_MAX + 2, None),
            ("info", WANTED_US_MAX + 3, Some("info")),
            ("emergency", 3 * WANTED_US_MAX, Some("emergency")),
        ] {
            assert_eq!(levels.want(level, now_us), sent, "{level} at {now_us}");
        }
    }

    #[test]
    fn an_only_client_may_want_less_again() {
        let mut levels = LogLevels::default();
        for (level, sent) in [("debug", Some("debug")), ("error", Some("error")), ("error", None)] {
            assert_eq!(levels.want_only(level), sent);
        }
    }
}
