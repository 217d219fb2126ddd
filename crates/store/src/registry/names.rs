//! Which names servers, policies, grants and settings may have.

use std::collections::BTreeSet;

use super::error::{ObjectKind, Origin, RegistryError};

pub const NAME_BYTES_MAX: usize = 64;
const NAME_RULE: &str = "1 to 64 of a-z, 0-9, `_` and `-`, beginning with a letter or a digit";
const LABEL_RULE: &str =
    "1 to 64 of letters, digits, `.`, `_`, `@`, `+` and `-`, beginning with a letter or a digit";
const KEY_RULE: &str = "1 to 64 of a-z, 0-9, `_`, `-` and `.`, beginning with a letter or a digit";

/// Names that `tollgate.toml` defines, which `gate.db` does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNames {
    pub servers: BTreeSet<String>,
    pub policies: BTreeSet<String>,
    pub grants: BTreeSet<String>,
}

/// Servers and policies: their names appear in paths, tool names and files.
pub(crate) fn check_name(kind: ObjectKind, name: &str) -> Result<(), RegistryError> {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
    check(kind, name, fits, NAME_RULE)
}

/// Grants: people name machines and persons.
pub(crate) fn check_label(label: &str) -> Result<(), RegistryError> {
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"._@+-".contains(&c);
    check(ObjectKind::Grant, label, fits, LABEL_RULE)
}

pub(crate) fn check_key(key: &str) -> Result<(), RegistryError> {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-.".contains(&c);
    check(ObjectKind::Setting, key, fits, KEY_RULE)
}

fn check(
    kind: ObjectKind,
    name: &str,
    fits: impl Fn(u8) -> bool,
    rule: &'static str,
) -> Result<(), RegistryError> {
    let begins_well = name.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if begins_well && name.len() <= NAME_BYTES_MAX && name.bytes().all(fits) {
        return Ok(());
    }
    // The name may be hostile, long or contain control characters; it is shown escaped and
    // truncated.
    let shown: String = name.escape_debug().take(NAME_BYTES_MAX).collect();
    Err(RegistryError::Name { kind, name: shown, rule })
}

pub(crate) fn taken(kind: ObjectKind, name: &str, place: Origin) -> RegistryError {
    RegistryError::Exists { kind, name: name.to_owned(), place }
}
