//! Evidence about an audit log that is kept outside it: the row that the registry remembers and the sealed
//! row. Read-only; loads the vault key but never creates one.

use std::path::Path;

use anyhow::Result;
use store::ledger::{Checkpoint, Reader, Seal, SealKey, SealState, Verified, VerifyError, Witness};
use store::registry::RememberedLog;
use store::vault::Vault;

use crate::context::Context;
use crate::failure::ErrorReport;

/// A kill during the creation of a home leaves a log of up to this many rows without a seal.
const UNSEALED_ROWS_MAX: u64 = 4;

/// How often a growing log is read because its seal moved.
const TRIES_MAX: u32 = 2;

/// What the registry and the seal say about a log.
pub(crate) struct LogEvidence {
    remembered: RememberedLog,
    seal: Result<SealState, String>,
    key: Option<SealKey>,
}

/// Status of a log whose chain is intact.
pub(crate) enum LogStatus {
    /// Why it is not the log that was there before.
    Lost(String),
    Sealed(Seal),
    /// It was written before there were seals, and not opened since.
    NotYetSealed,
    /// Why the seal could not be checked.
    Unchecked(String),
}

impl LogEvidence {
    /// Call before reading the log, so that the log holds every row that the evidence names.
    pub(crate) fn collect(home: &Path, context: &Context, reader: &Reader) -> Result<LogEvidence> {
        let remembered = context.remembered_log()?;
        Ok(match context.read_vault(home) {
            Ok(Some(vault)) => LogEvidence::with(remembered, &vault, reader),
            Ok(None) => {
                LogEvidence::without(remembered, "there is no vault key in this home".to_owned())
            }
            Err(error) => {
                LogEvidence::without(remembered, ErrorReport::of(&error).headline().to_owned())
            }
        })
    }

    /// The same for an open home.
    pub(crate) fn with(remembered: RememberedLog, vault: &Vault, reader: &Reader) -> LogEvidence {
        let Some(key) = SealKey::of(vault) else {
            return LogEvidence::without(remembered, "the vault is locked".to_owned());
        };
        let seal = reader.seal(&key).map_err(|e| e.to_string());
        LogEvidence { remembered, seal, key: Some(key) }
    }

    fn without(remembered: RememberedLog, why: String) -> LogEvidence {
        LogEvidence { remembered, seal: Err(why), key: None }
    }

    pub(crate) fn verify(
        &mut self,
        reader: &Reader,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Verified, VerifyError> {
        for _ in 0..TRIES_MAX {
            let verified = self.verify_once(reader, checkpoint);
            // The sealed row may have been retired while the log was read; then there is a newer seal.
            let seal = self.key.as_ref().map(|key| reader.seal(key).map_err(|e| e.to_string()));
            match (&verified, seal) {
                (Err(VerifyError::Found(_)), Some(seal)) if seal != self.seal => self.seal = seal,
                _ => return verified,
            }
        }
        self.verify_once(reader, checkpoint)
    }

    fn verify_once(
        &self,
        reader: &Reader,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Verified, VerifyError> {
        let mut witnesses: Vec<Witness<'_>> = checkpoint.map(Witness::Given).into_iter().collect();
        witnesses.extend(self.remembered.row.as_ref().map(Witness::Remembered));
        if let Ok(SealState::Valid(seal)) = &self.seal {
            witnesses.push(Witness::Sealed(&seal.row));
        }
        reader.verify_with(&witnesses)
    }

    pub(crate) fn status(&self, log: &Verified) -> LogStatus {
        let row = self.remembered.row.as_ref();
        if let Some(message) = row.and_then(|row| row.missed_in(&log.last_row())) {
            return LogStatus::Lost(message);
        }
        match &self.seal {
            Ok(SealState::Valid(seal)) => LogStatus::Sealed(seal.clone()),
            Ok(SealState::Broken) => LogStatus::Lost(
                "the seal of the audit log (`audit/seal`) does not match the vault key: it was changed, or made with another key".to_owned(),
            ),
            Ok(SealState::Missing) if self.may_be_unsealed(log) => LogStatus::NotYetSealed,
            Ok(SealState::Missing) => LogStatus::Lost(
                "the seal of the audit log (`audit/seal`) is missing, so nothing shows that the log was not rewritten".to_owned(),
            ),
            Err(why) => LogStatus::Unchecked(why.clone()),
        }
    }

    /// A home of an older version remembers its log and has never sealed it.
    fn may_be_unsealed(&self, log: &Verified) -> bool {
        let RememberedLog { row, is_sealed } = &self.remembered;
        let knows_it = row.as_ref().is_some_and(|row| row.ledger == log.ledger);
        !is_sealed && (knows_it || log.last_seq <= UNSEALED_ROWS_MAX)
    }
}
