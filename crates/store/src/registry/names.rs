//! Which names servers, policies, grants and settings may have.

use std::collections::BTreeSet;

use super::error::{Origin, RegistryError, Thing};

pub const NAME_BYTES_MAX: usize = 64;
const NAME_RULE: &str = "1 to 64 of a-z, 0-9, `_` and `-`, beginning with a letter or a digit";
const LABEL_RULE: &str =
    "1 to 64 of letters, digits, `.`, `_`, `@`, `+` and `-`, beginning with a letter or a digit";
const KEY_RULE: &str = "1 to 64 of a-z, 0-9, `_`, `-` and `.`, beginning with a letter or a digit";

/// Names that `tollgate.toml` has taken; `gate.db` cannot see them by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNames {
    pub servers: BTreeSet<String>,
    pub policies: BTreeSet<String>,
    pub grants: BTreeSet<String>,
}

/// Servers and policies: they stand in paths, in front of tool names and in files.
pub(crate) fn check_name(thing: Thing, name: &str) -> Result<(), RegistryError> {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
    check(thing, name, fits, NAME_RULE)
}

/// Grants: people name machines and persons.
pub(crate) fn check_label(label: &str) -> Result<(), RegistryError> {
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"._@+-".contains(&c);
    check(Thing::Grant, label, fits, LABEL_RULE)
}

pub(crate) fn check_key(key: &str) -> Result<(), RegistryError> {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-.".contains(&c);
    check(Thing::Setting, key, fits, KEY_RULE)
}

fn check(
    thing: Thing,
    name: &str,
    fits: impl Fn(u8) -> bool,
    rule: &'static str,
) -> Result<(), RegistryError> {
    let begins_well = name.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if begins_well && name.len() <= NAME_BYTES_MAX && name.bytes().all(fits) {
        return Ok(());
    }
    // The name may be hostile, long or hold control characters; it is shown escaped and cut.
    let shown: String = name.escape_debug().take(NAME_BYTES_MAX).collect();
    Err(RegistryError::Name { thing, name: shown, rule })
}

pub(crate) fn taken(thing: Thing, name: &str, place: Origin) -> RegistryError {
    RegistryError::Exists { thing, name: name.to_owned(), place }
}
