//! The vault key of a home: handed in by the environment, in the home, or with a program that the owner
//! confirmed on this machine.

use std::path::Path;

use anyhow::{Context as _, Result};
use store::home::Home;
use store::registry::RegistryError;
use store::vault::{AskError, KeyError, KeyFile, Vault, parse_key};

use super::Context;
use crate::vault;

/// The vault key as an environment variable, for machines whose secrets come from elsewhere.
pub(crate) const KEY_VARIABLE: &str = "TOLLGATE_VAULT_KEY";

impl Context {
    pub(super) fn open_vault(&self, home: &Home) -> Result<Vault> {
        if let Some(vault) = vault_handed_in()? {
            return Ok(vault);
        }
        check_program(home.path())?;
        Ok(Vault::open_home(home, &self.random, self.ask)?)
    }

    /// The vault of a home that is only looked at: nothing is made, nothing mended. None without a key.
    pub(crate) fn look_at_vault(&self, home: &Path) -> Result<Option<Vault>> {
        if let Some(vault) = vault_handed_in()? {
            return Ok(Some(vault));
        }
        check_program(home)?;
        Ok(Vault::look(home, self.ask)?)
    }
}

/// The vault over a key that whoever started us brings along.
fn vault_handed_in() -> Result<Option<Vault>> {
    let Ok(text) = std::env::var(KEY_VARIABLE) else { return Ok(None) };
    let key = parse_key(&text).with_context(|| format!("`{KEY_VARIABLE}` cannot be used"))?;
    Ok(Some(Vault::from_key(key)))
}

/// A program that a file in the home names is run only if the owner confirmed it on this machine.
fn check_program(home: &Path) -> Result<(), KeyError> {
    match KeyFile::at(home)? {
        Some(KeyFile::Elsewhere(place)) if !vault::confirmed::may_run(home, &place) => {
            let program = place.command.name().to_owned();
            let source = AskError::NotConfirmed { program };
            Err(KeyError::Elsewhere { place: Box::new(place), source })
        }
        _ => Ok(()),
    }
}

/// Does whoever started us bring the vault key along?
pub(crate) fn key_is_handed_in() -> bool {
    std::env::var(KEY_VARIABLE).is_ok()
}

/// Whether a home did not open because its key is damaged, gone or another's.
pub(crate) fn is_about_the_key(error: &anyhow::Error) -> bool {
    error.downcast_ref::<KeyError>().is_some()
        || matches!(error.downcast_ref(), Some(RegistryError::KeyChanged))
}
