//! Audit rows of commands: one for each action, also for those of a killed command, and one that reports a
//! log that is not the one this home had.

use anyhow::{Context as _, Result};
use store::ledger::{Ledger, Note};
use store::registry::StartedAct;

use super::Stores;
use crate::running;

impl Stores {
    /// What is missing in a log that is not the one this home had.
    pub(super) fn missed_in(&self, ledger: &Ledger) -> Result<Option<String>> {
        let Some(known) = self.registry.remembered_log()? else { return Ok(None) };
        Ok(ledger.missing(&known)?)
    }

    /// Records the loss in the log itself.
    pub(super) fn record_loss(&self, missed: Option<String>, ledger: &Ledger) -> Result<()> {
        if let Some(message) = ledger.seal_broken() {
            tracing::error!("{message}; `tollgate audit verify` reports it until you accept it");
            self.remember(ledger);
        }
        let Some(message) = missed else { return Ok(()) };
        tracing::error!(
            "{message}; if you did not do this, restore `{}`",
            self.home.audit().display()
        );
        ledger.note(&Note { act: "log_lost", by: &self.actor, about: "audit", words: &message })?;
        self.remember(ledger);
        Ok(())
    }

    /// Reports a `gate.db` that was restored from an older copy, and revives no grant.
    pub(super) fn check_rollback(&self, ledger: &Ledger) -> Result<()> {
        if let Some(found) = self.registry.check_rollback(ledger, self.now_us())? {
            tracing::error!(
                "{}; `tollgate audit verify` reports it until you accept it",
                found.words()
            );
            self.remember(ledger);
        }
        Ok(())
    }

    /// Remembers the last row, so that its loss is detected. A failure here is harmless.
    fn remember(&self, ledger: &Ledger) {
        let now_us = self.clock.now().wall_us;
        if let Ok(row) = ledger.checkpoint()
            && let Err(error) = self.registry.remember_log(&row, now_us)
        {
            tracing::debug!(%error, "the last row of the audit log could not be remembered");
        }
    }

    /// Call before an action that grants more access: it must not happen if the log cannot record it.
    /// Actions that reduce access happen anyway.
    pub(crate) fn ready_to_note(&self) -> Result<()> {
        let ready = self.ledger().and_then(|ledger| Ok(ledger.poll()?));
        ready.context("nothing was changed, because the audit log could not record it")?;
        Ok(())
    }

    /// Call after a change of `gate.db`: writes its audit row and makes every running gate apply it before
    /// the command ends. A command that is killed before leaves the row to the next one.
    pub(crate) fn record(&self) -> Result<()> {
        let recorded = self
            .ledger()
            .and_then(|ledger| Ok(self.registry.record_acts(ledger, self.now_us())?));
        running::request_reload(self.home.path());
        recorded.context(
            "it was changed, but the audit log could not record it; the next command will retry",
        )?;
        Ok(())
    }

    /// Call before a change outside `gate.db`, so that a kill leaves a record of it.
    pub(crate) fn begin(&self, act: &str, about: &str) -> Result<StartedAct> {
        Ok(self.registry.begin_act(act, about, self.now_us())?)
    }

    /// Marks a begun action as done.
    pub(crate) fn done(&self, begun: &StartedAct, message: &str) -> Result<()> {
        self.registry.finish_act(begun, message, self.now_us())?;
        self.record()
    }

    /// Marks a begun action as not done. If this fails, a row will say that it was begun.
    pub(crate) fn undone(&self, begun: &StartedAct) {
        if let Err(error) = self.registry.cancel_act(begun) {
            tracing::debug!(%error, "could not remove the record of an action that did not happen");
        }
    }

    /// Writes an audit row for something that is not a change of `gate.db`.
    pub(crate) fn note(&self, act: &str, about: &str, message: &str) -> Result<()> {
        let note = Note { act, by: &self.actor, about, words: message };
        let ledger = self.ledger()?;
        ledger.note(&note).with_context(|| {
            format!("`{about}` was changed, but the audit log could not record it")
        })?;
        // Not at the start of a gate, which must not be delayed: the last stop remembered its row.
        if act != "start" {
            self.remember(ledger);
        }
        running::request_reload(self.home.path());
        Ok(())
    }
}
