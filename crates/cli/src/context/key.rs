//! Loads the vault key of a home: from the environment, from the home, or from a program that the owner
//! confirmed on this machine.

use std::path::Path;

use anyhow::{Context as _, Result};
use store::home::Home;
use store::registry::RegistryError;
use store::vault::{KeyError, KeyFile, KeyProgramError, Vault, parse_key};

use super::Context;
use crate::variables::KEY_VARIABLE;
use crate::vault_key;

impl Context {
    pub(super) fn open_vault(&self, home: &Home) -> Result<Vault> {
        if let Some(vault) = vault_from_environment()? {
            return Ok(vault);
        }
        check_program(home.path())?;
        Ok(Vault::open_home(home, &self.random, self.ask)?)
    }

    /// The vault of a home, read-only: nothing is created or repaired. None without a key.
    pub(crate) fn read_vault(&self, home: &Path) -> Result<Option<Vault>> {
        if let Some(vault) = vault_from_environment()? {
            return Ok(Some(vault));
        }
        check_program(home)?;
        Ok(Vault::open_read_only(home, self.ask)?)
    }
}

/// The vault with the key from the environment.
fn vault_from_environment() -> Result<Option<Vault>> {
    let Ok(text) = std::env::var(KEY_VARIABLE) else { return Ok(None) };
    let key = parse_key(&text).with_context(|| format!("`{KEY_VARIABLE}` cannot be used"))?;
    Ok(Some(Vault::from_key(key)))
}

/// The program that `vault.key` names runs only if the owner confirmed it on this machine.
fn check_program(home: &Path) -> Result<(), KeyError> {
    match KeyFile::at(home)? {
        Some(KeyFile::External(external)) if !vault_key::confirmed::may_run(home, &external) => {
            let program = external.command.name().to_owned();
            let source = KeyProgramError::NotConfirmed { program };
            Err(KeyError::External { external: Box::new(external), source })
        }
        _ => Ok(()),
    }
}

/// Whether a home did not open because its key is damaged, missing or wrong.
pub(crate) fn is_about_the_key(error: &anyhow::Error) -> bool {
    error.downcast_ref::<KeyError>().is_some()
        || matches!(error.downcast_ref(), Some(RegistryError::KeyChanged))
}
