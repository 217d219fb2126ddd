//! The open end of a journal on Postgres: what this replica has read, and the rows it will insert
//! when it releases the lock. The lock is held for one round trip, in which the call is judged.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::LedgerError;
use super::journal::{Cursor, Head, add_row};
use super::load;
use super::postgres_table::{PostgresTable, Unsent};
use super::reader::lines;
use super::row::{AuditRow, RowKind};
use super::state::LedgerState;
use super::sync_mark::Position;
use crate::clock::{Clock, Now};

/// A replica that says nothing for this long is dead, and its open calls are closed.
pub(crate) const LEASE_US: u64 = 10_000_000;

/// The server's clock may run this much faster or slower than ours between two turns; a larger
/// difference means that it was set, or that it is another server's.
const CLOCK_JUMP_US_MAX: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct PostgresLog {
    pub(crate) table: Arc<PostgresTable>,
    /// With the rows that are not sent yet.
    cursor: Cursor,
    /// The last row that is in the table for certain.
    sent: Head,
    unsent: Unsent,
    /// Rows that the lock brought and that are not folded yet.
    fetched: Vec<u8>,
    /// Counts how often the state was read again from the table. A position is only comparable
    /// within its epoch, because rows that were lost leave their numbers to others.
    epoch: u32,
    locked: bool,
    /// Whether the known row was there when the lock was taken.
    known_found: bool,
    /// A name that no other replica has, for writers.
    name: String,
    time: StoreTime,
    /// The generation of the registry when the lock was taken.
    registry: u64,
}

/// The server's clock, carried on by ours between two readings; in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct StoreTime {
    server: u64,
    steady: u64,
    /// Since when readings follow each other without a failure.
    since: u64,
    /// What the server's clock would show if it had not been set since the reading before.
    expected: Option<u64>,
}

impl PostgresLog {
    pub(crate) fn new(table: Arc<PostgresTable>) -> Result<PostgresLog, LedgerError> {
        let name = table.new_name().map_err(|e| table.error(e))?;
        Ok(PostgresLog {
            table,
            cursor: Cursor::before(1, Head::GENESIS),
            sent: Head::GENESIS,
            unsent: Unsent::default(),
            fetched: Vec::new(),
            epoch: 0,
            locked: false,
            known_found: true,
            name,
            time: StoreTime::default(),
            registry: 0,
        })
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn position(&self, seq: u64) -> Position {
        Position { segment: self.epoch, offset: seq }
    }

    /// Adds rows that end with `head` to what is sent when the lock is released.
    pub(crate) fn add(&mut self, rows: &[u8], head: Head) {
        if self.unsent.rows.is_empty() {
            self.unsent.first_seq = self.sent.seq + 1;
        }
        self.unsent.rows.extend_from_slice(rows);
        self.cursor.offset += u64::try_from(rows.len()).unwrap_or(0);
        self.cursor.head = head;
    }

    pub(crate) fn open_segment(&mut self, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let mut head = Head { closed: false, ..self.cursor.head };
        let mut row = Vec::new();
        add_row(&mut row, &mut head, write);
        self.cursor = Cursor::before(number, self.cursor.head);
        self.add(&row, head);
        self.cursor.body_start = self.cursor.offset;
        self.unsent.segments.push((number, head.seq));
    }

    /// Takes the lock and reads what others wrote since.
    pub(crate) fn acquire(&mut self, clock: &Clock) -> Result<(), LedgerError> {
        self.give_up();
        let turn = self.table.lock(self.sent.seq).map_err(|e| self.table.error(e));
        let turn = turn.inspect_err(|_| self.time.since = 0)?;
        self.locked = true;
        self.known_found = self.sent.seq == 0 || turn.known == Some(self.sent.hash);
        self.fetched = turn.rows;
        self.registry = turn.registry;
        self.time.read(turn.store_us, clock.now().steady_us);
        Ok(())
    }

    /// Writes what was added and releases the lock. After an error the state must be read again.
    pub(crate) fn release(&mut self) -> Result<(), LedgerError> {
        if !std::mem::take(&mut self.locked) {
            return Ok(());
        }
        self.table.commit(&self.unsent).map_err(|e| self.table.error(e))?;
        self.unsent = Unsent::default();
        self.sent = self.cursor.head;
        Ok(())
    }

    /// Forgets what was not sent; the server rolls back.
    pub(crate) fn give_up(&mut self) {
        if std::mem::take(&mut self.locked) {
            self.table.abandon();
        }
        self.unsent = Unsent::default();
    }

    /// Forgets the rows that were sent without an answer; returns the calls that they admitted.
    pub(crate) fn take_unconfirmed(&mut self) -> Vec<u64> {
        let unsent = std::mem::take(&mut self.unsent);
        let rows = lines(&unsent.rows).filter_map(|(_, line)| {
            let json = super::chain::Line::split(line)?.json;
            let row = AuditRow::read(json).ok()?;
            match (row.kind, row.decision.as_ref()) {
                (RowKind::Decision, "admitted" | "passed" | "own") => Some(row.seq),
                (RowKind::Resolved, "admitted") => Some(row.of),
                _ => None,
            }
        });
        rows.collect()
    }

    /// Folds in what the lock brought. False if the row that we knew is gone.
    pub(crate) fn catch_up(&mut self, state: &mut LedgerState) -> Result<bool, LedgerError> {
        if !self.known_found {
            return Ok(false);
        }
        let rows = std::mem::take(&mut self.fetched);
        fold(&rows, &mut self.cursor, state).map_err(|why| self.damaged(why))?;
        self.sent = self.cursor.head;
        Ok(true)
    }

    /// Reads the newest segment into a new state; none if there is no row yet. The lock is held.
    pub(crate) fn load(&mut self) -> Result<Option<LedgerState>, LedgerError> {
        if let Some(seq) = self.table.lost().map_err(|e| self.table.error(e))? {
            return Err(LedgerError::RowsLost { store: self.table.name().to_owned(), seq });
        }
        let found = self.table.newest_segment().map_err(|e| self.table.error(e))?;
        self.fetched.clear();
        self.unsent = Unsent::default();
        self.known_found = true;
        self.epoch += 1;
        let Some((segment, rows)) = found else {
            if self.sent.seq > 0 {
                return Err(self.damaged("all its rows are gone"));
            }
            return Ok(None);
        };
        let head = load::before(&rows).unwrap_or(Head::GENESIS);
        let (mut cursor, mut state) = (Cursor::before(segment, head), LedgerState::default());
        fold(&rows, &mut cursor, &mut state).map_err(|why| self.damaged(why))?;
        (self.cursor, self.sent) = (cursor, cursor.head);
        Ok(Some(state))
    }

    fn damaged(&self, why: &str) -> LedgerError {
        let (store, seq) = (self.table.name().to_owned(), self.cursor.head.seq + 1);
        LedgerError::DamagedRow { store, seq, why: why.to_owned() }
    }

    /// The time of the store. A test's clock stands for both.
    pub(crate) fn now(&self, clock: &Clock) -> Now {
        let now = clock.now();
        match clock {
            Clock::Set(_) => now,
            Clock::System => self.time.now(now.steady_us),
        }
    }

    /// What the store's clock would show if it had not been set since the last turn, if it was.
    pub(crate) fn expected_before_jump(&self, clock: &Clock) -> Option<u64> {
        self.time.expected.filter(|_| matches!(clock, Clock::System))
    }

    /// What to add to a reading of our steady clock to have the store's.
    pub(crate) fn ahead_of_steady_us(&self, clock: &Clock) -> i64 {
        let now = clock.now();
        i64::try_from(i128::from(self.now(clock).steady_us) - i128::from(now.steady_us))
            .unwrap_or(0)
    }

    /// A writer whose first row will have this number.
    pub(crate) fn new_writer(&self, seq: u64) -> Arc<str> {
        format!("w{seq}-{}", self.name).into()
    }

    pub(crate) fn renew(&mut self, writer: &str, now: Now) {
        let until = now.steady_us.saturating_add(LEASE_US);
        self.unsent.writers.push((writer.to_owned(), until));
    }

    pub(crate) fn close_writer(&mut self, writer: &str) {
        self.unsent.closed_writers.push(writer.to_owned());
    }

    /// Those of these writers that are dead, if we can tell: after an outage all have been silent.
    pub(crate) fn dead_writers(
        &mut self,
        writers: &HashSet<Arc<str>>,
        clock: &Clock,
    ) -> Result<HashSet<Arc<str>>, LedgerError> {
        let now = self.now(clock).steady_us;
        let connected_us = now.saturating_sub(self.time.since);
        if matches!(clock, Clock::System) && connected_us < LEASE_US {
            return Ok(HashSet::new());
        }
        let known = self.table.writers().map_err(|e| self.table.error(e))?;
        let living: HashSet<&str> =
            known.iter().filter(|(_, until)| now < *until).map(|(id, _)| id.as_str()).collect();
        let dead = writers.iter().filter(|id| !living.contains(&***id));
        let dead: HashSet<Arc<str>> = dead.cloned().collect();
        self.unsent.closed_writers.extend(dead.iter().map(|id| String::from(&**id)));
        Ok(dead)
    }

    pub(crate) fn registry(&self) -> u64 {
        self.registry
    }

    /// The last row that is in the table.
    pub(crate) fn sent(&self) -> Head {
        self.sent
    }
}

impl StoreTime {
    fn read(&mut self, server: u64, steady: u64) {
        let expected = self.now(steady).steady_us;
        let is_first = self.server == 0;
        let jumped = !is_first && expected.abs_diff(server) > CLOCK_JUMP_US_MAX;
        self.expected = jumped.then_some(expected);
        if is_first || self.since == 0 || jumped {
            self.since = server;
        }
        (self.server, self.steady) = (server, steady);
    }

    fn now(&self, steady: u64) -> Now {
        let server = self.server.saturating_add(steady.saturating_sub(self.steady));
        Now { wall_us: i64::try_from(server).unwrap_or(i64::MAX), steady_us: server }
    }
}

/// Folds lines into the state; each is checked against the chain.
fn fold(rows: &[u8], cursor: &mut Cursor, state: &mut LedgerState) -> Result<(), &'static str> {
    for (_, line) in lines(rows) {
        if cursor.head.closed {
            *cursor = Cursor::before(cursor.segment + 1, cursor.head);
        }
        load::fold_line(line, cursor, state)
            .map_err(|bad| load::describe(&load::Stop::Bad(bad)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::StoreTime;

    #[test]
    fn a_clock_of_the_store_that_was_set_is_noticed_and_the_time_before_goes_on() {
        let mut time = StoreTime::default();
        time.read(1_000_000_000, 50);
        assert_eq!(time.expected, None);
        time.read(1_010_000_000, 10_000_050);
        assert_eq!(time.expected, None, "ten seconds on both");
        assert_eq!(time.now(10_500_050).steady_us, 1_010_500_000, "ours carries it on");
        time.read(4_611_000_000, 11_000_050);
        assert_eq!(time.expected, Some(1_011_000_000), "an hour forward in a second");
        time.read(4_612_000_000, 12_000_050);
        assert_eq!(time.expected, None);
        time.read(1_013_000_000, 13_000_050);
        assert_eq!(time.expected, Some(4_613_000_000), "and back");
    }
}
