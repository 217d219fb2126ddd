//! What a process does differently when the journal is on Postgres: its names are leased, its state
//! is read again after every failure, and the clock is the server's.

use std::sync::Arc;

use super::super::Options;
use super::super::chain;
use super::super::error::LedgerError;
use super::super::journal::LogStorage;
use super::super::pending_outcome::PendingOutcome;
use super::super::postgres_log::PostgresLog;
use super::super::postgres_table::PostgresTable;
use super::super::row_writer::{self, RowHeader};
use super::super::state::LedgerState;
use super::super::sync_mark::Position;
use super::super::time::Anchor;
use super::super::writers::WriterLock;
use super::Core;
use crate::clock::{Clock, Now};

/// The "boot" of ledger time on Postgres: the server's clock goes on over its restarts.
const STORE_BOOT: &str = "postgres";

/// The name under which this process admits calls.
pub(super) enum Writer {
    File(WriterLock),
    Leased(Arc<str>),
}

impl Writer {
    pub(super) fn id(&self) -> &Arc<str> {
        match self {
            Writer::File(lock) => &lock.id,
            Writer::Leased(id) => id,
        }
    }
}

impl Core {
    pub(super) fn open_postgres(
        table: &Arc<PostgresTable>,
        clock: &Clock,
        options: &Options,
    ) -> Result<Core, LedgerError> {
        let mut log = PostgresLog::new(Arc::clone(table))?;
        log.acquire(clock)?;
        let state = match log.load()? {
            Some(state) => state,
            None => begin_on_postgres(&mut log, clock),
        };
        let boot = options.boot_id.clone().unwrap_or_else(|| STORE_BOOT.to_owned());
        Ok(Core::new(LogStorage::Postgres(log), state, clock, boot))
    }

    /// From the table, which must still contain what we know to be on disk. Calls of ours that are
    /// open there but not here are closed: nobody will end them.
    pub(super) fn read_table_again(&mut self) -> Result<(), LedgerError> {
        let LogStorage::Postgres(log) = &mut self.journal.log else { return Ok(()) };
        let state = match log.load()? {
            Some(state) => state,
            None => begin_on_postgres(log, &self.clock),
        };
        let before = std::mem::replace(&mut self.state, state);
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        self.writer = None;
        for (of, call) in &self.state.open {
            let Some((epoch, _)) = self.own_writers.iter().find(|(_, id)| *id == call.writer)
            else {
                continue;
            };
            let at = Position { segment: *epoch, offset: *of };
            let left = unconfirmed.contains(of) || !before.open.contains_key(of);
            if left && !self.pending.iter().any(|pending| pending.of == *of) {
                self.pending.push(PendingOutcome::lost(at, unconfirmed.contains(of)));
            }
        }
        Ok(())
    }

    /// A store whose clock was set: ledger time goes on as if it had not been.
    pub(super) fn follow_clock(&mut self, now: Now) -> Result<(), LedgerError> {
        let LogStorage::Postgres(log) = &self.journal.log else { return Ok(()) };
        let Some(steady_us) = log.expected_before_jump(&self.clock) else { return Ok(()) };
        let tick = self.state.time.at(Now { steady_us, ..now });
        let ahead_us = self.state.time.ahead_us();
        let anchor = Anchor { tick, steady_us: now.steady_us, ahead_us };
        let boot = self.boot.clone();
        self.append(now, tick, |header, out| row_writer::clock(header, &boot, ahead_us, out))?;
        self.state.time.anchor(&boot, anchor);
        Ok(())
    }

    /// Says that the writers of this process are alive, and forgets those without open calls.
    pub(crate) fn renew_writers(&mut self, now: Now) {
        let LogStorage::Postgres(log) = &mut self.journal.log else { return };
        let current = self.writer.as_ref().map(|writer| Arc::clone(writer.id()));
        let open = &self.state.open;
        self.own_writers.retain(|(_, id)| {
            let is_used = Some(id) == current.as_ref() || open.values().any(|c| c.writer == *id);
            if is_used {
                log.renew(id, now);
            } else {
                log.close_writer(id);
            }
            is_used
        });
    }

    /// Whether the call whose row was there is open. On Postgres its number may belong to another
    /// call since the server restarted without it.
    pub(super) fn is_open(&self, of: u64, at: Position) -> bool {
        let Some(call) = self.state.open.get(&of) else { return false };
        match &self.journal.log {
            LogStorage::Files(_) => true,
            LogStorage::Postgres(_) => self
                .own_writers
                .iter()
                .any(|(epoch, id)| *epoch == at.segment && *id == call.writer),
        }
    }
}

/// The first row of a new ledger on Postgres.
fn begin_on_postgres(log: &mut PostgresLog, clock: &Clock) -> LedgerState {
    let now = log.now(clock);
    let tick = u64::try_from(now.wall_us).unwrap_or(0);
    let header = RowHeader { seq: 1, now, tick, writer: None };
    let genesis = chain::as_text(&chain::GENESIS);
    log.open_segment(1, |out| row_writer::state(&header, 1, genesis, None, out));
    let ledger = Some(log.cursor().head.hash);
    let mut state = LedgerState { ledger, ..LedgerState::default() };
    state.time.observe(tick, now.wall_us);
    state
}
