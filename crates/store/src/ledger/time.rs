//! Ledger time: microseconds that never go back and never jump with the wall clock. Within one boot
//! it advances with the steady clock; across boots it is the wall clock or what it was, if later.

use crate::clock::Now;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerTime {
    /// The boot in which `offset_us` holds.
    boot: String,
    /// Ledger time minus steady time.
    offset_us: i64,
    last: u64,
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

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The time of a row, which is the time of the next one at least.
    pub(crate) fn saw(&mut self, tick: u64) {
        self.last = self.last.max(tick);
    }

    /// The time now, in the boot that is anchored.
    pub(crate) fn at(&self, now: Now) -> u64 {
        at(self.last, self.offset_us, now)
    }

    /// Where ledger time stands when a boot is met for the first time.
    pub(crate) fn first_of_boot(&self, now: Now) -> u64 {
        self.last.max(u64::try_from(now.wall_us).unwrap_or(0))
    }

    /// From here on `tick` and `steady_us` go together.
    pub(crate) fn anchor(&mut self, boot: &str, steady_us: u64, tick: u64) {
        boot.clone_into(&mut self.boot);
        self.offset_us = i64::try_from(i128::from(tick) - i128::from(steady_us)).unwrap_or(0);
        self.saw(tick);
    }

    pub(crate) fn restore(boot: &str, offset_us: i64, last: u64) -> LedgerTime {
        LedgerTime { boot: boot.to_owned(), offset_us, last }
    }
}

pub(crate) fn at(last: u64, offset_us: i64, now: Now) -> u64 {
    last.max(now.steady_us.saturating_add_signed(offset_us))
}

#[cfg(test)]
mod tests {
    use super::LedgerTime;
    use crate::clock::Now;

    #[test]
    fn within_a_boot_only_the_steady_clock_counts() {
        let mut time = LedgerTime::default();
        time.anchor("a", 50, time.first_of_boot(Now { wall_us: 1_000, steady_us: 50 }));
        for (wall_us, steady_us, expected) in
            [(1_000, 50, 1_000), (999_999, 60, 1_010), (0, 70, 1_020), (-5, 40, 1_000)]
        {
            assert_eq!(time.at(Now { wall_us, steady_us }), expected);
        }
        time.saw(5_000);
        assert_eq!(time.at(Now { wall_us: 0, steady_us: 80 }), 5_000, "it never goes back");
    }

    #[test]
    fn a_new_boot_starts_at_the_wall_clock_or_where_the_last_one_ended() {
        let time = LedgerTime::restore("a", 0, 10_000);
        assert_eq!(time.first_of_boot(Now { wall_us: 20_000, steady_us: 3 }), 20_000);
        assert_eq!(time.first_of_boot(Now { wall_us: 9_000, steady_us: 3 }), 10_000);
        assert_eq!(time.first_of_boot(Now { wall_us: -1, steady_us: 3 }), 10_000);
    }
}
