//! Open files: every connection takes one, whoever made it, and the store needs some for every call. So
//! connections alone must never take all that the system allows.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// This part of them, and at least so many, is kept for the store, for servers and for their pipes.
const KEPT_ONE_IN: u64 = 4;
const KEPT_MIN: u64 = 96;

/// What was allowed before more were asked for.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// How many of the connections that are wanted there may be, after asking the system for more files where
/// it lets us.
pub(crate) fn connections_max(wanted: u64) -> u64 {
    let allowed = getrlimit(Resource::Nofile);
    if let Some(current) = raised(wanted, allowed.current, allowed.maximum) {
        if let Some(before) = allowed.current {
            BEFORE.get_or_init(|| before);
        }
        // What was allowed before still is if this fails.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..allowed });
    }
    within(wanted, getrlimit(Resource::Nofile).current)
}

/// The same without asking, as far as can be told.
pub(crate) fn connections_possible(wanted: u64) -> u64 {
    within(wanted, getrlimit(Resource::Nofile).maximum)
}

/// What commands behind the gate may have, if it is less than what the gate has: as if they had been
/// started without it.
pub(crate) fn before_we_asked() -> Option<u64> {
    BEFORE.get().copied()
}

/// So many files are enough for so many connections.
pub(crate) fn files_for(connections: u64) -> u64 {
    (connections + connections / (KEPT_ONE_IN - 1) + 1).max(connections + KEPT_MIN)
}

/// What to do about fewer places than are wanted. What is allowed at most only root can raise.
pub(crate) fn mend(places: u64, wanted: u64) -> String {
    let files = files_for(wanted);
    format!(
        "`connections_max = {places}` in `[limits]` of tollgate.toml, or allow more files: `LimitNOFILE={files}` in the unit, or as root `ulimit -n {files}` before `tollgate up`"
    )
}

fn within(wanted: u64, files: Option<u64>) -> u64 {
    let Some(files) = files else { return wanted };
    let kept = (files / KEPT_ONE_IN).max(KEPT_MIN);
    wanted.min(files.saturating_sub(kept)).max(1)
}

/// The limit to ask for, where the present one is too low and may be higher.
fn raised(wanted: u64, current: Option<u64>, maximum: Option<u64>) -> Option<u64> {
    let needed = files_for(wanted).min(maximum.unwrap_or(u64::MAX));
    current.filter(|current| *current < needed).map(|_| needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_store() {
        for (wanted, files, places) in [
            (4096, None, 4096),
            (4096, Some(20_000), 4096),
            (4096, Some(1024), 768),
            (100, Some(1024), 100),
            (4096, Some(100), 4),
            (4096, Some(10), 1),
        ] {
            assert_eq!(within(wanted, files), places, "{wanted} of {files:?}");
        }
        for wanted in [1, 63, 64, 1000, 4096, 100_000] {
            assert_eq!(within(wanted, Some(files_for(wanted))), wanted);
        }
    }

    #[test]
    fn more_files_are_asked_for_where_there_may_be_more() {
        assert_eq!(raised(4096, Some(1024), Some(1 << 20)), Some(files_for(4096)));
        assert_eq!(raised(4096, Some(1024), None), Some(files_for(4096)));
        assert_eq!(raised(4096, Some(1024), Some(2000)), Some(2000));
        assert_eq!(raised(4096, Some(1024), Some(1024)), None);
        assert_eq!(raised(100, Some(1024), Some(4096)), None);
        assert_eq!(raised(4096, None, None), None);
    }
}
