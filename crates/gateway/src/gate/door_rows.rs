//! Rows for requests without a grant. Repeats of one address and reason share one row a second, and all
//! such rows together are bounded, so that nobody can fill the disk without a grant.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::ledger::{Facts, Ledger, LedgerError, Refusal, RefusalKind};

/// Repeats within this time share a row.
const WINDOW_US: u64 = 1_000_000;
/// Addresses and reasons that are counted apart at the same time; others are counted together.
const APART_MAX: usize = 256;
/// Rows that may be written at once after a quiet time, about 1.5 MiB.
const ROWS_AT_ONCE_MAX: u64 = 4_096;
/// Rows that come to that again, about 1 MiB a day.
const ROWS_PER_HOUR_MAX: u64 = 100;
const HOUR_US: u64 = 3_600_000_000;
/// What finds no room for a row of its own shares one row in this time.
const REST_US: u64 = 600_000_000;

const REST_WORDS: &str =
    "requests without a grant from many addresses, or beyond the bound on their rows";

/// What makes two requests the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reason {
    /// Without the port, which is another one for each connection.
    pub(crate) address: String,
    /// The label of the grant that the token was once for; empty when there was none.
    pub(crate) grant: String,
    pub(crate) method: &'static str,
    pub(crate) server: &'static str,
    pub(crate) status: u16,
    pub(crate) words: String,
}

#[derive(Debug)]
struct Window {
    began_us: u64,
    repeats: u64,
    /// The last row about this.
    row: Option<u64>,
}

#[derive(Debug)]
struct State {
    windows: HashMap<Reason, Window>,
    /// Rows that may be written now.
    rows_left: u64,
    refilled_us: u64,
    rest: u64,
    rest_told_us: u64,
}

/// What to do with one request.
enum Seen {
    Write,
    Counted(Option<u64>),
}

#[derive(Debug)]
pub(crate) struct DoorRows(Mutex<State>);

impl Default for DoorRows {
    fn default() -> DoorRows {
        DoorRows(Mutex::new(State {
            windows: HashMap::new(),
            rows_left: ROWS_AT_ONCE_MAX,
            refilled_us: 0,
            rest: 0,
            rest_told_us: 0,
        }))
    }
}

impl DoorRows {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request, or counts it. Gives the row that tells of it, or of the one like it before.
    pub(crate) fn record(
        &self,
        reason: &Reason,
        remote: &str,
        now_us: u64,
        ledger: &Ledger,
    ) -> Option<u64> {
        // Held while the row is written, so that the next one like it knows the row.
        let mut state = self.state();
        match state.see(reason, now_us) {
            Seen::Counted(row) => return row,
            Seen::Write => {}
        }
        let row = write(reason, remote, None, ledger).ok();
        if !reason.grant.is_empty() {
            tracing::warn!(grant = %reason.grant, "refused: {}", reason.words);
        }
        if let Some(window) = state.windows.get_mut(reason) {
            window.row = row;
        }
        row
    }

    /// Writes what was counted and is due; at the end of the gate, everything.
    pub(crate) fn tell(&self, now_us: u64, all: bool, ledger: &Ledger) {
        let due = self.state().due(now_us, all);
        for (reason, repeats) in due {
            match write(&reason, &reason.address, Some(repeats), ledger) {
                Ok(row) => {
                    if let Some(window) = self.state().windows.get_mut(&reason) {
                        window.row = Some(row);
                    }
                }
                Err(_) => self.state().rest += repeats,
            }
        }
        let rest = self.state().due_rest(now_us, all);
        if rest > 0 && write_rest(rest, ledger).is_err() {
            self.state().rest += rest;
        }
    }
}

impl State {
    fn see(&mut self, reason: &Reason, now_us: u64) -> Seen {
        if let Some(window) = self.windows.get_mut(reason) {
            window.repeats += 1;
            return Seen::Counted(window.row);
        }
        if self.windows.len() >= APART_MAX || !self.take_row(now_us) {
            self.rest += 1;
            return Seen::Counted(None);
        }
        self.windows.insert(reason.clone(), Window { began_us: now_us, repeats: 0, row: None });
        Seen::Write
    }

    /// Windows that are over and have repeats. While they come, one row a second tells of them.
    fn due(&mut self, now_us: u64, all: bool) -> Vec<(Reason, u64)> {
        let is_over = |window: &Window| all || now_us.saturating_sub(window.began_us) >= WINDOW_US;
        self.windows.retain(|_, window| window.repeats > 0 || !is_over(window));
        let over: Vec<Reason> =
            self.windows.iter().filter(|(_, w)| is_over(w)).map(|(r, _)| r.clone()).collect();
        let mut due = Vec::new();
        for reason in over {
            let has_room = self.take_row(now_us);
            let Some(window) = self.windows.get_mut(&reason) else { continue };
            let repeats = std::mem::take(&mut window.repeats);
            window.began_us = now_us;
            if has_room {
                due.push((reason, repeats));
            } else {
                self.rest += repeats;
            }
        }
        due
    }

    fn due_rest(&mut self, now_us: u64, all: bool) -> u64 {
        if self.rest == 0 || (!all && now_us.saturating_sub(self.rest_told_us) < REST_US) {
            return 0;
        }
        self.rest_told_us = now_us;
        std::mem::take(&mut self.rest)
    }

    fn take_row(&mut self, now_us: u64) -> bool {
        let rows = now_us.saturating_sub(self.refilled_us) * ROWS_PER_HOUR_MAX / HOUR_US;
        if rows > 0 {
            self.rows_left = self.rows_left.saturating_add(rows).min(ROWS_AT_ONCE_MAX);
            self.refilled_us = now_us;
        }
        let has_room = self.rows_left > 0;
        self.rows_left = self.rows_left.saturating_sub(1);
        has_room
    }
}

fn write(
    reason: &Reason,
    remote: &str,
    repeats: Option<u64>,
    ledger: &Ledger,
) -> Result<u64, LedgerError> {
    let kind =
        if reason.status == 401 { RefusalKind::Unauthenticated } else { RefusalKind::Malformed };
    let code = reason.status.to_string();
    let facts = Facts {
        grant: &reason.grant,
        method: reason.method,
        server: reason.server,
        remote: Some(remote),
        ..Facts::default()
    };
    ledger.record_repeats(&Refusal { kind, code: &code, reason: &reason.words }, &facts, repeats)
}

fn write_rest(rest: u64, ledger: &Ledger) -> Result<u64, LedgerError> {
    let facts = Facts { method: "(http)", ..Facts::default() };
    let kind = RefusalKind::Unauthenticated;
    ledger.record_repeats(&Refusal { kind, code: "", reason: REST_WORDS }, &facts, Some(rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use store::clock::{Clock, Now};
    use store::ledger::{Filter, Options, Reader};

    fn reason(address: &str) -> Reason {
        let (method, server, words) = ("(http)", "", "no grant".to_owned());
        Reason {
            address: address.to_owned(),
            grant: String::new(),
            method,
            server,
            status: 401,
            words,
        }
    }

    fn ledger(folder: &std::path::Path) -> Ledger {
        let now = Now { wall_us: 1_794_571_200_000_000, steady_us: 5_000_000 };
        Ledger::open(folder, Clock::set(now), Options::default()).unwrap()
    }

    /// How many rows there are and how many requests they tell of.
    fn told(folder: &std::path::Path) -> (usize, u64) {
        let entries = Reader::open(folder).unwrap().oldest_first(&Filter::default()).unwrap();
        let counts: Vec<u64> = entries
            .map(Result::unwrap)
            .filter(|entry| entry.decision == "unauthenticated")
            .map(|entry| entry.count.unwrap_or(1))
            .collect();
        (counts.len(), counts.iter().sum())
    }

    #[test]
    fn repeats_of_a_second_share_a_row_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, rows) = (ledger(folder.path()), DoorRows::default());
        let first = rows.record(&reason("a"), "a:1", 0, &ledger).unwrap();
        for _ in 0..99 {
            assert_eq!(rows.record(&reason("a"), "a:2", 10, &ledger), Some(first));
        }
        rows.tell(500_000, false, &ledger);
        assert_eq!(told(folder.path()), (1, 1), "the second is not over");
        rows.tell(1_000_000, false, &ledger);
        assert_eq!(told(folder.path()), (2, 100));
        // While they come, there is no first one again.
        rows.record(&reason("a"), "a:3", 1_500_000, &ledger);
        rows.record(&reason("b"), "b:3", 1_500_000, &ledger);
        assert_eq!(told(folder.path()), (3, 101));
        rows.tell(2_000_000, true, &ledger);
        assert_eq!(told(folder.path()), (4, 102));
        rows.tell(4_000_000, false, &ledger);
        rows.record(&reason("a"), "a:4", 4_100_000, &ledger);
        assert_eq!(told(folder.path()), (5, 103), "after a pause the first one is written at once");
    }

    #[test]
    fn a_flood_for_a_day_from_any_number_of_addresses_takes_a_bounded_number_of_rows() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, rows) = (ledger(folder.path()), DoorRows::default());
        let (mut sent, hours) = (0, 24);
        for second in 0..hours * 3_600_u64 {
            // Many seconds are skipped: what matters is more than there is room for.
            if second.is_multiple_of(60) {
                for number in 0..400 {
                    let from = format!("2001:db8::{second:x}:{number:x}");
                    rows.record(&reason(&from), &from, second * 1_000_000, &ledger);
                    sent += 1;
                }
            }
            rows.tell(second * 1_000_000, false, &ledger);
        }
        rows.tell(hours * HOUR_US, true, &ledger);
        let (written, counted) = told(folder.path());
        assert_eq!(counted, sent);
        let bound = ROWS_AT_ONCE_MAX + hours * (ROWS_PER_HOUR_MAX + HOUR_US / REST_US) + 2;
        assert!(u64::try_from(written).unwrap() <= bound, "{written} rows, {bound} at most");
    }
}
