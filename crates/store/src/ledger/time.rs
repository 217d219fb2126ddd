//! Ledger time: microseconds that never go back and ignore changes of the wall clock. Within one
//! boot it advances with the steady clock; while the machine was off, by the wall clock.

use std::cmp::Ordering;
use std::fs::File;

use platform::files::AtOffset as _;

use super::chain;
use super::error::LedgerError;
use super::paths::{self, LogPaths};
use crate::clock::Now;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerTime {
    /// The boot for which `offset_us` is valid.
    boot: String,
    /// Ledger time minus steady time.
    offset_us: i64,
    /// The latest known time, and the wall clock then.
    last: u64,
    last_wall_us: i64,
    /// How far expiries are ahead of ledger time: at every boot they catch up with the wall clock.
    ahead_us: u64,
}

/// Ledger time at the start of a new boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) tick: u64,
    pub(crate) steady_us: u64,
    pub(crate) ahead_us: u64,
}

impl LedgerTime {
    pub(crate) fn is_of_boot(&self, boot: &str) -> bool {
        self.boot == boot
    }

    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    pub(crate) fn offset_us(&self) -> i64 {
        self.offset_us
    }

    pub(crate) fn ahead_us(&self) -> u64 {
        self.ahead_us
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The time of a row, which is a lower bound for the next one.
    pub(crate) fn observe(&mut self, tick: u64, wall_us: i64) {
        self.last = self.last.max(tick);
        self.last_wall_us = wall_us;
    }

    /// The time that was stored outside the rows. Of two wall clocks at one time the later is used:
    /// less time passes until the next boot.
    pub(crate) fn restore_stored(&mut self, tick: u64, wall_us: i64) {
        match tick.cmp(&self.last) {
            Ordering::Less => {}
            Ordering::Equal => self.last_wall_us = self.last_wall_us.max(wall_us),
            Ordering::Greater => self.observe(tick, wall_us),
        }
    }

    /// The current time, in the anchored boot.
    pub(crate) fn at(&self, now: Now) -> u64 {
        at(self.last, self.offset_us, now)
    }

    /// Only the difference of the wall clock counts, so that one that was always wrong does no
    /// harm; one that went back counts as no time at all.
    pub(crate) fn first_of_boot(&self, now: Now) -> Anchor {
        let wall = u64::try_from(now.wall_us).unwrap_or(0);
        let off_us = u64::try_from(now.wall_us.saturating_sub(self.last_wall_us)).unwrap_or(0);
        let tick = if self.boot.is_empty() { wall } else { self.last.saturating_add(off_us) };
        let tick = tick.max(self.last);
        let trusted = wall.max(self.last.saturating_add(self.ahead_us));
        Anchor { tick, steady_us: now.steady_us, ahead_us: trusted.saturating_sub(tick) }
    }

    /// From here on ledger time and the steady clock advance together.
    pub(crate) fn anchor(&mut self, boot: &str, anchor: Anchor) {
        let Anchor { tick, steady_us, ahead_us } = anchor;
        boot.clone_into(&mut self.boot);
        self.offset_us = i64::try_from(i128::from(tick) - i128::from(steady_us)).unwrap_or(0);
        self.ahead_us = ahead_us;
        self.last = self.last.max(tick);
    }

    pub(crate) fn restore(boot: &str, offset_us: i64, ahead_us: u64) -> LedgerTime {
        LedgerTime { boot: boot.to_owned(), offset_us, ahead_us, ..LedgerTime::default() }
    }
}

pub(crate) fn at(last: u64, offset_us: i64, now: Now) -> u64 {
    last.max(now.steady_us.saturating_add_signed(offset_us))
}

/// Stores ledger time while no rows are written, so that a machine that wakes up with its clock set
/// back still knows the time. Not part of the chain.
pub(crate) fn store(paths: &LogPaths, tick: u64, wall_us: i64) -> Result<(), LedgerError> {
    let path = paths.clock();
    let written = paths::open_or_create(&path)
        .and_then(|file: File| file.write_all_at(stored_text(tick, wall_us).as_bytes(), 0));
    written.map_err(LedgerError::io("write", &path))
}

pub(crate) fn stored(paths: &LogPaths) -> Option<(u64, i64)> {
    let found = std::fs::read_to_string(paths.clock()).ok()?;
    let mut parts = found.split(' ');
    let (tick, wall_us) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (stored_text(tick, wall_us) == found).then_some((tick, wall_us))
}

/// Of fixed length, so that it can be overwritten; with a checksum, so that a torn one is ignored.
fn stored_text(tick: u64, wall_us: i64) -> String {
    let text = format!("{tick:020} {wall_us:+020}");
    let check = chain::link(&chain::GENESIS, text.as_bytes());
    format!("{text} {}\n", chain::as_text(&check).get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Anchor, LedgerTime, stored_text};
    use crate::clock::Now;

    fn begun(wall_us: i64, steady_us: u64) -> LedgerTime {
        let mut time = LedgerTime::default();
        let now = Now { wall_us, steady_us };
        time.anchor("a", time.first_of_boot(now));
        time.observe(time.at(now), wall_us);
        time
    }

    #[test]
    fn within_a_boot_only_the_steady_clock_counts() {
        let mut time = begun(1_000, 50);
        for (wall_us, steady_us, expected) in
            [(1_000, 50, 1_000), (999_999, 60, 1_010), (0, 70, 1_020), (-5, 40, 1_000)]
        {
            assert_eq!(time.at(Now { wall_us, steady_us }), expected);
        }
        time.observe(5_000, 0);
        assert_eq!(time.at(Now { wall_us: 0, steady_us: 80 }), 5_000, "it never goes back");
    }

    #[test]
    fn a_new_boot_adds_what_the_wall_clock_says_has_passed() {
        // (wall clock at the last row, wall clock now, ledger time now) after 1000 at the last row
        for (last_wall_us, wall_us, tick) in
            [(1_000, 1_500, 1_500), (9_000, 9_500, 1_500), (9_000, 1_000, 1_000), (200, 250, 1_050)]
        {
            let mut time = begun(1_000, 50);
            time.observe(1_000, last_wall_us);
            let anchor = time.first_of_boot(Now { wall_us, steady_us: 3 });
            assert_eq!((anchor.tick, anchor.steady_us), (tick, 3));
        }
    }

    #[test]
    fn a_clock_that_was_set_after_the_last_row_is_not_taken_for_time_that_passed() {
        let mut time = begun(1_000, 50);
        time.restore_stored(1_000, 41_000);
        assert_eq!(time.first_of_boot(Now { wall_us: 41_007, steady_us: 1 }).tick, 1_007);
        time.restore_stored(900, 5);
        assert_eq!(time.first_of_boot(Now { wall_us: 41_007, steady_us: 1 }).tick, 1_007);
        time.restore_stored(2_000, 42_000);
        assert_eq!(time.first_of_boot(Now { wall_us: 42_001, steady_us: 1 }).tick, 2_001);
    }

    #[test]
    fn expiries_catch_up_with_the_wall_clock_at_a_boot_and_never_go_back() {
        let mut time = begun(1_000, 50);
        time.observe(1_100, 90_000);
        let anchor = time.first_of_boot(Now { wall_us: 90_050, steady_us: 3 });
        assert_eq!(anchor, Anchor { tick: 1_150, steady_us: 3, ahead_us: 88_900 });
        time.anchor("b", anchor);
        time.observe(1_150, 90_050);
        let back = time.first_of_boot(Now { wall_us: 500, steady_us: 1 });
        assert_eq!(back.tick + back.ahead_us, 90_050);
    }

    #[test]
    fn the_kept_time_has_one_length() {
        let lengths = [(0, 0), (u64::MAX, i64::MAX), (5, -5)].map(|(t, w)| stored_text(t, w).len());
        assert!(lengths.iter().all(|length| *length == lengths[0]));
    }
}
