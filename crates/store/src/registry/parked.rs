//! The arguments of calls that wait for a human, sealed to their approval.

use rusqlite::{OptionalExtension, Transaction};

use super::error::{ObjectKind, RegistryError};
use super::names::NAME_BYTES_MAX;
use super::{Registry, RegistryConnection};
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed};

/// Larger params of an approved call are not kept for comparison.
const APPROVED_BYTES_MAX: usize = 64 << 10;
/// Params of approved calls are deleted after 30 days.
const APPROVED_KEPT_US_MAX: i64 = 30 * 86_400 * 1_000_000;

/// The params of an approved call.
pub struct ApprovedParams {
    pub params: Secret<Vec<u8>>,
    pub approved_at_us: i64,
}

impl Registry {
    /// Stores the arguments of one parked call. A second put for the same approval is rejected.
    pub fn put_parked(
        &self,
        approval: &str,
        arguments: &[u8],
        now_us: i64,
    ) -> Result<(), RegistryError> {
        check_id(approval)?;
        let sealed =
            self.vault.seal(Purpose::ParkedArguments, approval, arguments, &self.random)?;
        self.write_parked(|db| {
            let put = "INSERT INTO parked (approval, sealed, created_at_us) VALUES (?1, ?2, ?3)
                       ON CONFLICT (approval) DO NOTHING";
            let done = db.execute(put, (approval, sealed.as_bytes(), now_us))?;
            if done == 1 {
                return Ok(());
            }
            let (kind, name) = (ObjectKind::Approval, approval.to_owned());
            Err(RegistryError::Exists { kind, name, place: super::Origin::Registry })
        })
    }

    pub fn parked(&self, approval: &str) -> Result<Option<Secret<Vec<u8>>>, RegistryError> {
        let bytes = self.find(|db| {
            let select = "SELECT sealed FROM parked WHERE approval = ?1";
            Ok(db.query_row(select, [approval], |r| r.get(0)).optional()?)
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let sealed = Sealed::from_bytes(Purpose::ParkedArguments, approval, bytes);
        Ok(Some(self.vault.open(&sealed)?))
    }

    /// Deletes the arguments of one approval; returns whether there were any.
    pub fn delete_parked(&self, approval: &str) -> Result<bool, RegistryError> {
        self.write_quietly(|db| {
            Ok(db.execute("DELETE FROM parked WHERE approval = ?1", [approval])? == 1)
        })
    }

    /// The approvals with parked arguments.
    pub fn parked_ids(&self) -> Result<Vec<String>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached("SELECT approval FROM parked")?;
            let rows = select.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Deletes the arguments of ended approvals.
    pub fn delete_all_parked(&self, approvals: &[String]) -> Result<(), RegistryError> {
        self.write_parked(|db| {
            for approval in approvals {
                db.execute("DELETE FROM parked WHERE approval = ?1", [approval])?;
            }
            Ok(())
        })
    }

    /// Keeps the params of an approved call, to compare the next call of the same tool with. Large ones are
    /// not kept.
    pub fn keep_approved_params(
        &self,
        call: &str,
        params: &[u8],
        now_us: i64,
    ) -> Result<(), RegistryError> {
        if params.len() > APPROVED_BYTES_MAX {
            return Ok(());
        }
        let sealed = self.vault.seal(Purpose::ParkedArguments, call, params, &self.random)?;
        self.write_quietly(|db| {
            let before_us = now_us.saturating_sub(APPROVED_KEPT_US_MAX);
            db.execute("DELETE FROM approved_params WHERE approved_at_us < ?1", [before_us])?;
            db.execute(
                "INSERT INTO approved_params (call, sealed, approved_at_us) VALUES (?1, ?2, ?3)
                 ON CONFLICT (call) DO UPDATE SET
                     sealed = excluded.sealed, approved_at_us = excluded.approved_at_us",
                (call, sealed.as_bytes(), now_us),
            )?;
            Ok(())
        })
    }

    /// The params of the last approved call.
    pub fn approved_params(&self, call: &str) -> Result<Option<ApprovedParams>, RegistryError> {
        let row: Option<(Vec<u8>, i64)> = self.read(|db| {
            let select = "SELECT sealed, approved_at_us FROM approved_params WHERE call = ?1";
            Ok(db.query_row(select, [call], |r| Ok((r.get(0)?, r.get(1)?))).optional()?)
        })?;
        let Some((bytes, approved_at_us)) = row else { return Ok(None) };
        let sealed = Sealed::from_bytes(Purpose::ParkedArguments, call, bytes);
        Ok(Some(ApprovedParams { params: self.vault.open(&sealed)?, approved_at_us }))
    }

    /// One transaction over a separate connection: megabytes are written here, and users of the
    /// shared connection do not wait for that.
    fn write_parked<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        if self.is_shared() {
            return self.write_quietly(change);
        }
        // Checks that the file in the home is still the opened one.
        drop(self.lock()?);
        RegistryConnection::connect(&self.path)?.write(change)
    }

    /// Deletes what was parked before a time, for approvals that can no longer be answered.
    pub fn delete_parked_before(&self, before_us: i64) -> Result<usize, RegistryError> {
        self.write_quietly(|db| {
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
    Err(RegistryError::Name { kind: ObjectKind::Approval, name, rule })
}
