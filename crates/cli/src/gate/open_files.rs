//! The limit on open files. Every connection takes one, authenticated or not, and the store needs some for
//! every call, so connections must never use all of them.

use std::sync::OnceLock;

use platform::limits::{open_files, set_open_files};

/// One in this many files, and at least the minimum, is reserved for the store, servers and their pipes.
const RESERVED_ONE_IN: u64 = 4;
const RESERVED_MIN: u64 = 96;

/// The limit before it was raised.
static ORIGINAL: OnceLock<u64> = OnceLock::new();

/// How many of the wanted connections are possible, after raising the limit on open files if allowed.
pub(crate) fn connections_max(wanted: u64) -> u64 {
    let allowed = open_files();
    if let Some(current) = raised(wanted, allowed.current, allowed.maximum) {
        if let Some(before) = allowed.current {
            ORIGINAL.get_or_init(|| before);
        }
        // If this fails, the old limit stays.
        set_open_files(current);
    }
    within(wanted, open_files().current)
}

/// The same without raising the limit.
pub(crate) fn connections_possible(wanted: u64) -> u64 {
    within(wanted, open_files().maximum)
}

/// The limit for commands behind the gate, if the gate raised its own: as if they were started without
/// the gate.
pub(crate) fn original_limit() -> Option<u64> {
    ORIGINAL.get().copied()
}

/// The number of open files that this many connections need.
pub(crate) fn files_for(connections: u64) -> u64 {
    (connections + connections / (RESERVED_ONE_IN - 1) + 1).max(connections + RESERVED_MIN)
}

/// What to do if fewer connections are possible than wanted. Only root can raise the hard limit.
pub(crate) fn fix(possible: u64, wanted: u64) -> String {
    let files = files_for(wanted);
    format!(
        "`connections_max = {possible}` in `[limits]` of tollgate.toml, or allow more files: `LimitNOFILE={files}` in the unit, or as root `ulimit -n {files}` before `tollgate up`"
    )
}

fn within(wanted: u64, files: Option<u64>) -> u64 {
    let Some(files) = files else { return wanted };
    let reserved = (files / RESERVED_ONE_IN).max(RESERVED_MIN);
    wanted.min(files.saturating_sub(reserved)).max(1)
}

/// The new soft limit, if the current one is too low and may be raised.
fn raised(wanted: u64, current: Option<u64>, maximum: Option<u64>) -> Option<u64> {
    let needed = files_for(wanted).min(maximum.unwrap_or(u64::MAX));
    current.filter(|current| *current < needed).map(|_| needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_store() {
        for (wanted, files, possible) in [
            (4096, None, 4096),
            (4096, Some(20_000), 4096),
            (4096, Some(1024), 768),
            (100, Some(1024), 100),
            (4096, Some(100), 4),
            (4096, Some(10), 1),
        ] {
            assert_eq!(within(wanted, files), possible, "{wanted} of {files:?}");
        }
        for wanted in [1, 63, 64, 1000, 4096, 100_000] {
            assert_eq!(within(wanted, Some(files_for(wanted))), wanted);
        }
    }

    #[test]
    fn the_limit_is_raised_up_to_the_hard_limit() {
        assert_eq!(raised(4096, Some(1024), Some(1 << 20)), Some(files_for(4096)));
        assert_eq!(raised(4096, Some(1024), None), Some(files_for(4096)));
        assert_eq!(raised(4096, Some(1024), Some(2000)), Some(2000));
        assert_eq!(raised(4096, Some(1024), Some(1024)), None);
        assert_eq!(raised(100, Some(1024), Some(4096)), None);
        assert_eq!(raised(4096, None, None), None);
    }
}
