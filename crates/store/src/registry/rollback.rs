//! Notices that `gate.db` is older than the audit log: the log has changes that the file does not. Grants
//! that the log says were revoked are revoked again, and tokens that it says were replaced end. Other lost
//! changes are only reported.

use std::collections::HashSet;

use rusqlite::Connection;

use super::acts::RecordError;
use super::{GrantState, Registry, RegistryError};
use crate::ledger::{Change, Ledger, Note, timestamp};

/// What a `gate.db` that was put back lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// How many changes of the log it does not have.
    pub changes: usize,
    /// Labels of the grants that were active again and are revoked now.
    pub revoked: Vec<String>,
    /// Labels of the grants whose replaced tokens were valid again and have ended now.
    pub ended: Vec<String>,
}

impl Rollback {
    pub fn words(&self) -> String {
        let mut words = format!(
            "`gate.db` is older than the audit log: it lacks {} changes that the log has",
            self.changes
        );
        if !self.revoked.is_empty() {
            words.push_str("; revoked again: ");
            words.push_str(&self.revoked.join(", "));
        }
        if !self.ended.is_empty() {
            words.push_str("; replaced tokens ended again, to be rotated: ");
            words.push_str(&self.ended.join(", "));
        }
        words
    }
}

impl Registry {
    /// Compares this file with the log and ends again what the log says has ended. To be called
    /// before anything that remembers a newer row of the log. Leaves an alarm in the log.
    pub fn check_rollback(
        &self,
        ledger: &Ledger,
        now_us: i64,
    ) -> Result<Option<Rollback>, RecordError> {
        let lost = self.lost_changes(ledger)?;
        if lost.is_empty() {
            return Ok(None);
        }
        let mut revoked = Vec::new();
        for change in lost.iter().filter(|change| change.act == "grant_revoked") {
            if self.is_revived(change, now_us)? {
                self.revoke_grant(&change.about, now_us)?;
                revoked.push(change.about.clone());
            }
        }
        let mut ended = Vec::new();
        for change in lost.iter().filter(|change| change.act == "grant_rotated") {
            // The token that replaced these is lost as well, so their overlap serves nobody.
            if self.is_revived(change, now_us)? && self.end_tokens(&change.about, now_us)? {
                ended.push(change.about.clone());
            }
        }
        let found = Rollback { changes: lost.len(), revoked, ended };
        let (act, words) = ("registry_older", found.words());
        ledger.note(&Note { act, by: &self.actor, about: "gate.db", words: &words })?;
        Ok(Some(found))
    }

    /// Changes after the row that this file remembers, except those whose row is written in this moment.
    fn lost_changes(&self, ledger: &Ledger) -> Result<Vec<Change>, RecordError> {
        let Some(known) = self.remembered_log()? else { return Ok(Vec::new()) };
        let mut later = ledger.changes_after(&known)?;
        if later.is_empty() {
            return Ok(later);
        }
        // What another replica has done and recorded must be here before it is missed.
        self.refresh()?;
        // In this order: a change that is recorded between the two is remembered by the second.
        let waiting = self.read(|db| marks(db))?;
        let known_seq = self.remembered_log()?.map_or(0, |row| row.seq);
        later.retain(|change| change.seq > known_seq && !waiting.contains(&change.mark));
        Ok(later)
    }

    /// Whether the grant of a change is active. One that was made later under its label is another.
    fn is_revived(&self, change: &Change, now_us: i64) -> Result<bool, RegistryError> {
        let grants = self.grants()?;
        Ok(grants.iter().any(|grant| {
            grant.label == change.about
                && grant.state(now_us) == GrantState::Active
                && timestamp::text(grant.created_at_us) <= change.time
        }))
    }
}

fn marks(db: &Connection) -> Result<HashSet<String>, RegistryError> {
    let mut select = db.prepare("SELECT mark FROM unrecorded")?;
    let found = select.query_map([], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}
