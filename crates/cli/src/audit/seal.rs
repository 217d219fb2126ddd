//! What `audit verify` and `doctor` know of a log from outside it: the row that `gate.db` remembers and
//! the row under the seal. Looks only; asks for the key where it is, and makes none.

use std::path::Path;

use store::ledger::{Checkpoint, Reader, Seal, SealKey, SealState, Verified, VerifyError, Witness};
use store::registry::{RememberedLog, log_remembered_by};
use store::vault::Vault;

use crate::context::Context;
use crate::failure::Account;

/// A kill while a home is made leaves a log of so many rows without a seal.
const UNSEALED_ROWS_MAX: u64 = 4;

/// A log that grows is read again so often when its seal moved.
const TRIES_MAX: u32 = 2;

/// A log that was verified, and what was found outside it.
pub(crate) struct Outside {
    remembered: RememberedLog,
    seal: Result<SealState, String>,
    key: Option<SealKey>,
}

/// How a log stands that holds together.
pub(crate) enum Standing {
    /// Why it is not the log that was there.
    Lost(String),
    Sealed(Seal),
    /// It was written before there were seals, and not opened since.
    NotYetSealed,
    /// Why the seal could not be checked.
    Unchecked(String),
}

impl Outside {
    /// To be called before the log is read: what is known now is in it then.
    pub(crate) fn look(home: &Path, context: &Context, reader: &Reader) -> Outside {
        match context.look_at_vault(home) {
            Ok(Some(vault)) => Outside::with(home, &vault, reader),
            Ok(None) => Outside::without(home, "there is no vault key in this home".to_owned()),
            Err(error) => Outside::without(home, Account::of(&error).headline().to_owned()),
        }
    }

    /// The same for a home that is open.
    pub(crate) fn with(home: &Path, vault: &Vault, reader: &Reader) -> Outside {
        let Some(key) = SealKey::of(vault) else {
            return Outside::without(home, "the vault is locked".to_owned());
        };
        let seal = reader.seal(&key).map_err(|e| e.to_string());
        let remembered = log_remembered_by(&home.join("gate.db"));
        Outside { remembered, seal, key: Some(key) }
    }

    fn without(home: &Path, why: String) -> Outside {
        let remembered = log_remembered_by(&home.join("gate.db"));
        Outside { remembered, seal: Err(why), key: None }
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

    pub(crate) fn judge(&self, log: &Verified) -> Standing {
        let row = self.remembered.row.as_ref();
        if let Some(words) = row.and_then(|row| row.missed_in(&log.last_row())) {
            return Standing::Lost(words);
        }
        match &self.seal {
            Ok(SealState::Valid(seal)) => Standing::Sealed(seal.clone()),
            Ok(SealState::Broken) => Standing::Lost(
                "the seal of the audit log (`audit/seal`) does not fit the vault key: it was changed, or made with another key".to_owned(),
            ),
            Ok(SealState::Missing) if self.may_be_unsealed(log) => Standing::NotYetSealed,
            Ok(SealState::Missing) => Standing::Lost(
                "the seal of the audit log (`audit/seal`) is missing, so nothing shows that the log was not rewritten".to_owned(),
            ),
            Err(why) => Standing::Unchecked(why.clone()),
        }
    }

    /// A home of an older version remembers its log and has never sealed it.
    fn may_be_unsealed(&self, log: &Verified) -> bool {
        let RememberedLog { row, is_sealed } = &self.remembered;
        let knows_it = row.as_ref().is_some_and(|row| row.ledger == log.ledger);
        !is_sealed && (knows_it || log.last_seq <= UNSEALED_ROWS_MAX)
    }
}
