//! What a command leaves in the audit log: a row for each act, also where the command before was killed,
//! and word of a log that is not the one this home had.

use anyhow::{Context as _, Result};
use store::ledger::{Ledger, Note};
use store::registry::Begun;

use super::Stores;
use crate::running;

impl Stores {
    /// What is missing in a log that is not the one this home had.
    pub(super) fn missed_in(&self, ledger: &Ledger) -> Result<Option<String>> {
        let Some(known) = self.registry.remembered_log()? else { return Ok(None) };
        Ok(ledger.missing(&known)?)
    }

    /// Such a log says so in its own rows.
    pub(super) fn tell_of_loss(&self, missed: Option<String>, ledger: &Ledger) -> Result<()> {
        if let Some(words) = ledger.seal_broken() {
            tracing::error!("{words}; `tollgate audit verify` says so until you accept it");
            self.remember(ledger);
        }
        let Some(words) = missed else { return Ok(()) };
        tracing::error!("{words}; if that was not you, put `{}` back", self.home.audit().display());
        ledger.note(&Note { act: "log_lost", by: &self.actor, about: "audit", words: &words })?;
        self.remember(ledger);
        Ok(())
    }

    /// What is remembered is missed when it goes. Not knowing it harms nobody.
    fn remember(&self, ledger: &Ledger) {
        let now_us = self.clock.now().wall_us;
        if let Ok(row) = ledger.checkpoint()
            && let Err(error) = self.registry.remember_log(&row, now_us)
        {
            tracing::debug!(%error, "the last row of the audit log could not be remembered");
        }
    }

    /// To be asked before an act that lets somebody do more: without a log that can take its row it does
    /// not happen. What takes something away happens all the same.
    pub(crate) fn ready_to_note(&self) -> Result<()> {
        let ready = self.ledger().and_then(|ledger| Ok(ledger.poll()?));
        ready.context("nothing was changed, because the audit log could not record it")?;
        Ok(())
    }

    /// To be called after a change of `gate.db`: it is a row of the audit log, and in force in every
    /// running gate, when the command ends. A command that ends before leaves the row to the next one.
    pub(crate) fn record(&self) -> Result<()> {
        let recorded = self
            .ledger()
            .and_then(|ledger| Ok(self.registry.record_acts(ledger, self.now_us())?));
        running::let_them_look(self.home.path());
        recorded.context(
            "it was changed, but the audit log could not record it; the next command that can does",
        )?;
        Ok(())
    }

    /// To be called before something is changed elsewhere than in `gate.db`, so that a kill leaves word
    /// of it.
    pub(crate) fn begin(&self, act: &str, about: &str) -> Result<Begun> {
        Ok(self.registry.begin_act(act, about, self.now_us())?)
    }

    /// What was begun has happened.
    pub(crate) fn done(&self, begun: &Begun, words: &str) -> Result<()> {
        self.registry.act_is_done(begun, words, self.now_us())?;
        self.record()
    }

    /// What was begun did not happen. Where even this cannot be kept, a row will say that it was begun.
    pub(crate) fn undone(&self, begun: &Begun) {
        if let Err(error) = self.registry.act_did_not_happen(begun) {
            tracing::debug!(%error, "an act that did not happen could not be taken back");
        }
    }

    /// What is no change but belongs into the audit log all the same.
    pub(crate) fn note(&self, act: &str, about: &str, words: &str) -> Result<()> {
        let note = Note { act, by: &self.actor, about, words };
        let ledger = self.ledger()?;
        ledger.note(&note).with_context(|| {
            format!("`{about}` was changed, but the audit log could not record it")
        })?;
        // A gate that starts is not held up for what its last stop, or the act before it, remembered.
        if act != "start" {
            self.remember(ledger);
        }
        running::let_them_look(self.home.path());
        Ok(())
    }
}
