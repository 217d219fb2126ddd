//! The budget of rows for requests without a grant. It is stored in a separate file, so that a
//! restart does not refill it. Not part of the chain.

use std::io;

use platform::files::AtOffset as _;

use super::chain;
use super::paths;
use super::postgres_table::PostgresTable;
use super::shared::SharedLedger;
use super::source::LogSource;

/// Rows that may be written after a quiet time, about 1.5 MiB.
pub const UNAUTHENTICATED_ROWS_MAX: u64 = 4_096;
/// Rows that are added to the budget each day, about 1.3 MiB a year.
pub const UNAUTHENTICATED_ROWS_PER_DAY: u64 = 10;
/// Rows that a process takes from the budget at once. A crash loses what it took and did not use.
const RESERVED_AT_ONCE: u64 = 64;
const DAY_US: u64 = 86_400_000_000;

/// Where the budget is on Postgres.
const FACT: &str = "unauthenticated";
const TRIES_MAX: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Budget {
    rows_left: u64,
    /// Ledger time up to which the daily rows were added.
    refilled_us: u64,
}

impl Budget {
    const FULL: Budget = Budget { rows_left: UNAUTHENTICATED_ROWS_MAX, refilled_us: 0 };

    fn refilled(self, now_us: u64) -> Budget {
        let per_row_us = DAY_US / UNAUTHENTICATED_ROWS_PER_DAY;
        let rows = now_us.saturating_sub(self.refilled_us) / per_row_us;
        Budget {
            rows_left: self.rows_left.saturating_add(rows).min(UNAUTHENTICATED_ROWS_MAX),
            refilled_us: self.refilled_us.saturating_add(rows.saturating_mul(per_row_us)),
        }
    }

    /// Of fixed length, so that it can be overwritten; with a checksum, so that a torn one is ignored.
    fn text(self) -> String {
        let text = format!("{:020} {:020}", self.rows_left, self.refilled_us);
        let check = chain::link(&chain::GENESIS, text.as_bytes());
        format!("{text} {}\n", chain::as_text(&check).get(..16).unwrap_or_default())
    }

    fn parse(found: &str) -> Option<Budget> {
        let mut parts = found.split(' ');
        let budget = Budget {
            rows_left: parts.next()?.parse().ok()?,
            refilled_us: parts.next()?.parse().ok()?,
        };
        (budget.text() == found).then_some(budget)
    }
}

impl SharedLedger {
    /// Takes rows from the budget. None are left when the budget is used up or cannot be stored.
    pub(super) fn reserve_unauthenticated_rows(&self, now_us: u64) -> u64 {
        let mut reserved = 0;
        let stored = self.change_budget(|budget| {
            let budget = budget.refilled(now_us);
            reserved = budget.rows_left.min(RESERVED_AT_ONCE);
            Budget { rows_left: budget.rows_left - reserved, ..budget }
        });
        if stored.is_ok() { reserved } else { 0 }
    }

    /// Gives rows back that were not used.
    pub(super) fn return_unauthenticated_rows(&self, rows: u64) -> io::Result<()> {
        self.change_budget(|budget| Budget {
            rows_left: budget.rows_left.saturating_add(rows).min(UNAUTHENTICATED_ROWS_MAX),
            ..budget
        })
    }

    fn change_budget(&self, mut change: impl FnMut(Budget) -> Budget) -> io::Result<()> {
        let paths = match &self.source {
            LogSource::Files(paths) => paths,
            LogSource::Postgres(table) => return change_fact(table, &mut change),
        };
        let file = paths::open_or_create(&paths.row_budget())?;
        let mut found = vec![0; Budget::FULL.text().len()];
        let read = file.read_at(&mut found, 0)?;
        let stored = std::str::from_utf8(found.get(..read).unwrap_or_default());
        let before = stored.ok().and_then(Budget::parse).unwrap_or(Budget::FULL);
        let after = change(before);
        if after == before && read > 0 {
            return Ok(());
        }
        file.write_all_at(after.text().as_bytes(), 0)
    }
}

/// All replicas share the budget; one that was overtaken tries again.
fn change_fact(table: &PostgresTable, change: &mut dyn FnMut(Budget) -> Budget) -> io::Result<()> {
    for _ in 0..TRIES_MAX {
        let old = table.fact(FACT).map_err(io::Error::other)?;
        let stored = old.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let before = stored.and_then(Budget::parse).unwrap_or(Budget::FULL);
        let after = change(before);
        let is_same = after == before && old.is_some();
        let new = after.text().into_bytes();
        if is_same || table.change_fact(FACT, old, new).map_err(io::Error::other)? {
            return Ok(());
        }
    }
    Err(io::Error::other("other replicas change it all the time"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::clock::{Clock, Now};
    use crate::ledger::{Ledger, Options};

    fn open(folder: &std::path::Path) -> Ledger {
        let now = Now { wall_us: 1_794_571_200_000_000, steady_us: 5_000_000 };
        Ledger::open(folder, Clock::set(now), Options::default()).unwrap()
    }

    #[test]
    fn the_budget_survives_a_restart_and_grows_by_the_day() {
        let folder = tempfile::tempdir().unwrap();
        let now_us = 1_794_571_200_000_000;
        let mut taken = 0;
        loop {
            // Every reservation comes from another process.
            let rows = open(folder.path()).reserve_unauthenticated_rows(now_us);
            if rows == 0 {
                break;
            }
            taken += rows;
        }
        assert_eq!(taken, UNAUTHENTICATED_ROWS_MAX);
        let ledger = open(folder.path());
        assert_eq!(ledger.reserve_unauthenticated_rows(now_us + DAY_US - 1), 9);
        assert_eq!(ledger.reserve_unauthenticated_rows(now_us + DAY_US), 1);
        ledger.return_unauthenticated_rows(3);
        assert_eq!(open(folder.path()).reserve_unauthenticated_rows(now_us), 3);
    }

    #[test]
    fn a_budget_that_cannot_be_stored_gives_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open(folder.path());
        std::fs::create_dir(folder.path().join("unauthenticated")).unwrap();
        assert_eq!(ledger.reserve_unauthenticated_rows(0), 0);
    }
}
