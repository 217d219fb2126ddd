//! Audit rows for unauthenticated requests. Repeats from one address with one reason share one row
//! per second. All such rows come from one budget that survives restarts, so that the disk cannot
//! be filled without a grant.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::ledger::{Facts, Ledger, LedgerError, Refusal, RefusalKind};

/// Repeats within this time share a row.
const WINDOW_US: u64 = 1_000_000;
/// Pairs of address and reason that are counted separately; others are counted together.
const SEPARATE_MAX: usize = 256;
/// Requests beyond the budget share summary rows: the first after this time, then at twice the
/// previous interval each, up to a day.
const REST_US_MIN: u64 = 600_000_000;
const REST_US_MAX: u64 = 86_400_000_000;
/// An exhausted budget is read again after this time.
const BUDGET_RETRY_US: u64 = 60_000_000;
/// Bytes of a reason's text, which may quote the request.
const REASON_BYTES_MAX: usize = 256;

const REST_MESSAGE: &str =
    "requests without a grant from many addresses, or beyond the bound on their rows";

/// Requests with the same values are repeats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reason {
    /// Without the port, which differs per connection.
    pub(crate) address: String,
    pub(crate) method: &'static str,
    pub(crate) server: &'static str,
    pub(crate) status: u16,
    pub(crate) message: String,
}

#[derive(Debug)]
struct Window {
    began_us: u64,
    repeats: u64,
    /// The last audit row for this reason.
    row: Option<u64>,
}

#[derive(Debug)]
struct RowsState {
    windows: HashMap<Reason, Window>,
    /// Rows reserved from the budget and not used yet.
    reserved: u64,
    /// The budget is exhausted and is not read again before this time.
    empty_until_us: u64,
    rest: u64,
    rest_written_us: u64,
    rest_wait_us: u64,
}

/// Whether to write a row for a request now.
enum Recording {
    Write,
    Counted(Option<u64>),
}

#[derive(Debug)]
pub(crate) struct AnonymousRows(Mutex<RowsState>);

impl Default for AnonymousRows {
    fn default() -> AnonymousRows {
        AnonymousRows(Mutex::new(RowsState {
            windows: HashMap::new(),
            reserved: 0,
            empty_until_us: 0,
            rest: 0,
            rest_written_us: 0,
            rest_wait_us: REST_US_MIN,
        }))
    }
}

impl Reason {
    pub(crate) fn new(
        address: &str,
        (method, server): (&'static str, &'static str),
        status: u16,
        message: &str,
    ) -> Reason {
        let message =
            message.get(..message.floor_char_boundary(REASON_BYTES_MAX)).unwrap_or_default();
        let (address, message) = (address.to_owned(), message.to_owned());
        Reason { address, method, server, status, message }
    }
}

impl AnonymousRows {
    fn state(&self) -> MutexGuard<'_, RowsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a row for a request, or counts it. Returns its row, or that of the last repeat.
    pub(crate) fn record(
        &self,
        reason: &Reason,
        remote: &str,
        now_us: u64,
        ledger: &Ledger,
    ) -> Option<u64> {
        // Held during the write, so that the next repeat sees the row.
        let mut state = self.state();
        match state.count(reason, now_us, ledger) {
            Recording::Counted(row) => return row,
            Recording::Write => {}
        }
        let row = write(reason, remote, None, ledger).ok().flatten();
        if let Some(window) = state.windows.get_mut(reason) {
            window.row = row;
        }
        row
    }

    /// Writes the counted requests that are due; with `all`, everything.
    pub(crate) fn flush(&self, now_us: u64, all: bool, ledger: &Ledger) {
        self.reserve_ahead(now_us, ledger);
        let due = self.state().due(now_us, all, ledger);
        for (reason, repeats) in due {
            match write(&reason, &reason.address, Some(repeats), ledger) {
                Ok(row) => {
                    if let Some(window) = self.state().windows.get_mut(&reason) {
                        window.row = row;
                    }
                }
                Err(_) => self.state().rest += repeats,
            }
        }
        let rest = self.state().due_rest(now_us, all);
        if rest > 0 && write_rest(rest, ledger).is_err() {
            self.state().rest += rest;
        }
        if all {
            let unused = std::mem::take(&mut self.state().reserved);
            ledger.return_unauthenticated_rows(unused);
        }
    }

    /// On Postgres, taking rows from the budget waits for the store: not while a request waits.
    fn reserve_ahead(&self, now_us: u64, ledger: &Ledger) {
        if ledger.waits_for_store() && self.state().wants_rows(now_us) {
            let rows = ledger.reserve_unauthenticated_rows(now_us);
            self.state().reserved_rows(rows, now_us);
        }
    }
}

impl RowsState {
    fn count(&mut self, reason: &Reason, now_us: u64, ledger: &Ledger) -> Recording {
        if let Some(window) = self.windows.get_mut(reason) {
            window.repeats += 1;
            return Recording::Counted(window.row);
        }
        if self.windows.len() >= SEPARATE_MAX || !self.take_row(now_us, ledger) {
            self.rest += 1;
            return Recording::Counted(None);
        }
        self.windows.insert(reason.clone(), Window { began_us: now_us, repeats: 0, row: None });
        Recording::Write
    }

    /// Elapsed windows with repeats. While repeats continue, there is one row per second.
    fn due(&mut self, now_us: u64, all: bool, ledger: &Ledger) -> Vec<(Reason, u64)> {
        let is_over = |window: &Window| all || now_us.saturating_sub(window.began_us) >= WINDOW_US;
        self.windows.retain(|_, window| window.repeats > 0 || !is_over(window));
        let over: Vec<Reason> =
            self.windows.iter().filter(|(_, w)| is_over(w)).map(|(r, _)| r.clone()).collect();
        let mut due = Vec::new();
        for reason in over {
            let has_room = self.take_row(now_us, ledger);
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
        let waited_us = now_us.saturating_sub(self.rest_written_us);
        if self.rest == 0 || (!all && waited_us < self.rest_wait_us) {
            return 0;
        }
        let is_quiet = waited_us >= REST_US_MAX.saturating_mul(2);
        let wait_us = if is_quiet { REST_US_MIN } else { self.rest_wait_us.saturating_mul(2) };
        self.rest_wait_us = wait_us.min(REST_US_MAX);
        self.rest_written_us = now_us;
        std::mem::take(&mut self.rest)
    }

    fn wants_rows(&self, now_us: u64) -> bool {
        self.reserved == 0 && now_us >= self.empty_until_us
    }

    fn reserved_rows(&mut self, rows: u64, now_us: u64) {
        self.reserved += rows;
        if rows == 0 {
            self.empty_until_us = now_us.saturating_add(BUDGET_RETRY_US);
        }
    }

    fn take_row(&mut self, now_us: u64, ledger: &Ledger) -> bool {
        if self.wants_rows(now_us) && !ledger.waits_for_store() {
            self.reserved_rows(ledger.reserve_unauthenticated_rows(now_us), now_us);
        }
        let has_room = self.reserved > 0;
        self.reserved = self.reserved.saturating_sub(1);
        has_room
    }
}

fn write(
    reason: &Reason,
    remote: &str,
    repeats: Option<u64>,
    ledger: &Ledger,
) -> Result<Option<u64>, LedgerError> {
    let kind =
        if reason.status == 401 { RefusalKind::Unauthenticated } else { RefusalKind::Malformed };
    let code = reason.status.to_string();
    let facts = Facts {
        method: reason.method,
        server: reason.server,
        remote: Some(remote),
        ..Facts::default()
    };
    ledger.record_soon(&Refusal { kind, code: &code, reason: &reason.message }, &facts, repeats)
}

fn write_rest(rest: u64, ledger: &Ledger) -> Result<Option<u64>, LedgerError> {
    let facts = Facts { method: "(http)", ..Facts::default() };
    let kind = RefusalKind::Unauthenticated;
    ledger.record_soon(&Refusal { kind, code: "", reason: REST_MESSAGE }, &facts, Some(rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use store::clock::{Clock, Now};
    use store::ledger::{Filter, Options, Reader};

    fn reason(address: &str) -> Reason {
        Reason::new(address, ("(http)", ""), 401, "no grant")
    }

    fn ledger(folder: &std::path::Path) -> Ledger {
        let now = Now { wall_us: 1_794_571_200_000_000, steady_us: 5_000_000 };
        Ledger::open(folder, Clock::set(now), Options::default()).unwrap()
    }

    /// The number of rows, and of the requests they count.
    fn rows_and_requests(folder: &std::path::Path) -> (usize, u64) {
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
        let (ledger, rows) = (ledger(folder.path()), AnonymousRows::default());
        let first = rows.record(&reason("a"), "a:1", 0, &ledger).unwrap();
        for _ in 0..99 {
            assert_eq!(rows.record(&reason("a"), "a:2", 10, &ledger), Some(first));
        }
        rows.flush(500_000, false, &ledger);
        assert_eq!(rows_and_requests(folder.path()), (1, 1), "the window has not elapsed");
        rows.flush(1_000_000, false, &ledger);
        assert_eq!(rows_and_requests(folder.path()), (2, 100));
        // While repeats continue, no first row is written again.
        rows.record(&reason("a"), "a:3", 1_500_000, &ledger);
        rows.record(&reason("b"), "b:3", 1_500_000, &ledger);
        assert_eq!(rows_and_requests(folder.path()), (3, 101));
        rows.flush(2_000_000, true, &ledger);
        assert_eq!(rows_and_requests(folder.path()), (4, 102));
        rows.flush(4_000_000, false, &ledger);
        rows.record(&reason("a"), "a:4", 4_100_000, &ledger);
        assert_eq!(
            rows_and_requests(folder.path()),
            (5, 103),
            "after a pause the first one is written at once"
        );
    }

    #[test]
    fn a_year_of_attack_from_any_number_of_addresses_takes_a_few_mib() {
        const HOUR_US: u64 = 3_600_000_000;
        let folder = tempfile::tempdir().unwrap();
        let (ledger, mut rows) = (ledger(folder.path()), AnonymousRows::default());
        let (mut sent, begin_us) = (0, 1_794_571_200_000_000);
        for hour in 0..365 * 24_u64 {
            let now_us = begin_us + hour * HOUR_US;
            for number in 0..300 {
                let from = format!("2001:db8:{number:x}:ffff:ffff:ffff:ffff:{hour:x}");
                let message = "w".repeat(10_000);
                let reason = Reason::new(&from, ("(http)", ""), 401, &message);
                rows.record(&reason, &format!("[{from}]:65535"), now_us, &ledger);
                sent += 1;
            }
            rows.flush(now_us + 2_000_000, false, &ledger);
            if hour.is_multiple_of(24) {
                // The gate restarts once a day.
                rows.flush(now_us + 3_000_000, true, &ledger);
                rows = AnonymousRows::default();
            }
        }
        rows.flush(begin_us + 365 * 24 * HOUR_US, true, &ledger);
        let (written, counted) = rows_and_requests(folder.path());
        assert_eq!(counted, sent);
        let files = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        assert!(bytes < 6 << 20, "{written} rows, {bytes} bytes");
    }
}
