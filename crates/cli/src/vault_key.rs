//! Where the vault key of a home comes from: a variable, a file, the keyring, or a program of the owner.

pub(crate) mod confirmed;
mod fetch;
mod keyring;
mod source;

pub(crate) use fetch::fetch;
pub(crate) use keyring::Keyring;
pub(crate) use source::KeySource;

use crate::variables::KEY_VARIABLE;

/// Whether the environment holds the vault key.
pub(crate) fn key_is_in_environment() -> bool {
    std::env::var(KEY_VARIABLE).is_ok()
}
