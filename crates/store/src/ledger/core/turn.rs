//! A turn: take the lock between processes, do something, release it. Time is the store's.

use super::super::error::LedgerError;
use super::super::journal::LogStorage;
use super::Core;
use crate::clock::Now;

impl Core {
    /// Takes the lock between processes.
    pub(crate) fn acquire(&mut self) -> Result<(), LedgerError> {
        match &mut self.journal.log {
            LogStorage::Files(log) => log.lock.acquire(),
            LogStorage::Postgres(log) => log.acquire(&self.clock),
        }
    }

    /// Releases the lock. On Postgres this writes the rows, and if that fails, none of what was
    /// done under the lock has happened for certain.
    pub(crate) fn release(&mut self) -> Result<(), LedgerError> {
        let LogStorage::Postgres(log) = &mut self.journal.log else {
            self.give_up();
            return Ok(());
        };
        let released = log.release();
        if released.is_err() {
            self.needs_reload = true;
            self.unconfirmed.extend(log.take_unconfirmed());
            self.pending.append(&mut self.unsent_outcomes);
        }
        self.unsent_outcomes.clear();
        released
    }

    /// Releases the lock without writing what is left.
    pub(crate) fn give_up(&mut self) {
        match &mut self.journal.log {
            LogStorage::Files(log) => log.lock.release(),
            LogStorage::Postgres(log) => {
                log.give_up();
                self.needs_reload = true;
            }
        }
    }

    /// The time of the store, which is this machine's for files.
    pub(crate) fn now(&self) -> Now {
        match &self.journal.log {
            LogStorage::Files(_) => self.clock.now(),
            LogStorage::Postgres(log) => log.now(&self.clock),
        }
    }

    /// The generation of the registry at the begin of the turn; files know none.
    pub(crate) fn registry(&self) -> u64 {
        match &self.journal.log {
            LogStorage::Files(_) => 0,
            LogStorage::Postgres(log) => log.registry(),
        }
    }

    /// Ledger time minus the steady clock of this machine.
    pub(crate) fn offset_us(&self) -> i64 {
        let offset_us = self.state.time.offset_us();
        match &self.journal.log {
            LogStorage::Files(_) => offset_us,
            LogStorage::Postgres(log) => {
                offset_us.saturating_add(log.ahead_of_steady_us(&self.clock))
            }
        }
    }
}
