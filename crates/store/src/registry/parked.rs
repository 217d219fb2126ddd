//! The arguments of calls that wait for a human, sealed to their approval.

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior};

use super::error::{RegistryError, Thing};
use super::names::NAME_BYTES_MAX;
use super::{Inner, Registry};
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed};

impl Registry {
    /// Keeps the arguments of one parked call. An approval keeps what it was asked with: a second
    /// put for the same id is refused.
    pub fn put_parked(
        &self,
        approval: &str,
        arguments: &[u8],
        now_us: i64,
    ) -> Result<(), RegistryError> {
        check_id(approval)?;
        let sealed =
            self.vault.seal(Purpose::ParkedArguments, approval, arguments, &self.random)?;
        self.park_aside(|db| {
            let put = "INSERT INTO parked (approval, sealed, created_at_us) VALUES (?1, ?2, ?3)
                       ON CONFLICT (approval) DO NOTHING";
            let done = db.execute(put, (approval, sealed.as_bytes(), now_us))?;
            if done == 1 {
                return Ok(());
            }
            let (thing, name) = (Thing::Approval, approval.to_owned());
            Err(RegistryError::Exists { thing, name, place: super::Origin::Registry })
        })
    }

    pub fn parked(&self, approval: &str) -> Result<Option<Secret<Vec<u8>>>, RegistryError> {
        let bytes = self.read(|db| {
            let select = "SELECT sealed FROM parked WHERE approval = ?1";
            Ok(db.query_row(select, [approval], |r| r.get(0)).optional()?)
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let sealed = Sealed::from_bytes(Purpose::ParkedArguments, approval, bytes);
        Ok(Some(self.vault.open(&sealed)?))
    }

    /// Deletes the arguments of one approval; answers whether there were any.
    pub fn delete_parked(&self, approval: &str) -> Result<bool, RegistryError> {
        self.write_aside(|db| {
            Ok(db.execute("DELETE FROM parked WHERE approval = ?1", [approval])? == 1)
        })
    }

    /// The approvals for which something is parked.
    pub fn parked_ids(&self) -> Result<Vec<String>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached("SELECT approval FROM parked")?;
            let rows = select.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Deletes the arguments of approvals that are over.
    pub fn delete_all_parked(&self, approvals: &[String]) -> Result<(), RegistryError> {
        self.park_aside(|db| {
            for approval in approvals {
                db.execute("DELETE FROM parked WHERE approval = ?1", [approval])?;
            }
            Ok(())
        })
    }

    /// One transaction over a connection of its own: megabytes are written here, and whoever wants the
    /// usual connection does not wait for that.
    fn park_aside<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        // Makes sure that the file in the home is the one that was opened.
        drop(self.lock()?);
        let mut aside = Inner::connect(&self.path)?;
        let transaction = aside.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = change(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Deletes what was parked before a time, for approvals that nobody will answer any more.
    pub fn delete_parked_before(&self, before_us: i64) -> Result<usize, RegistryError> {
        self.write_aside(|db| {
            Ok(db.execute("DELETE FROM parked WHERE created_at_us < ?1", [before_us])?)
        })
    }
}

fn check_id(approval: &str) -> Result<(), RegistryError> {
    let fits = approval.bytes().all(|c| c.is_ascii_graphic());
    if fits && !approval.is_empty() && approval.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let name = approval.escape_debug().take(NAME_BYTES_MAX).collect();
    let rule = "an approval is named by 1 to 64 visible characters";
    Err(RegistryError::Name { thing: Thing::Approval, name, rule })
}
