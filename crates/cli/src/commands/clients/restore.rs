//! Removes the gate's entries from a client's file that was changed since an import: each entry that the
//! import wrote is restored, and everything else stays as it is now.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use store::registry::{Token, TokenHash};

use super::journal::Record;
use crate::client_files::discover;
use crate::client_files::entry::{Entry, Launch};
use crate::client_files::folders::UserFolders;
use crate::client_files::json_file::{self, Member};
use crate::client_files::table::{FileSpec, client};
use crate::client_files::toml_file;
use crate::context::Stores;

/// Recognizes the entries that imports wrote for these records.
pub(super) struct OwnEntries {
    labels: BTreeSet<String>,
    hashes: Vec<TokenHash>,
}

impl OwnEntries {
    pub(super) fn of(records: &[Record], stores: &Stores) -> Result<OwnEntries> {
        let labels: BTreeSet<String> = records.iter().map(|record| record.grant.clone()).collect();
        // Also those of a revoked grant: its entry is useless to the client.
        let grants = stores.registry.grants()?.into_iter();
        let tokens = grants.filter(|grant| labels.contains(&grant.label)).flat_map(|g| g.tokens);
        Ok(OwnEntries { hashes: tokens.map(|token| token.hash).collect(), labels })
    }

    fn include(&self, launch: &Launch) -> bool {
        match launch {
            Launch::Command { argv, .. } => {
                let label = argv.iter().skip_while(|word| *word != "--grant").nth(1);
                argv.iter().any(|word| word == "stdio")
                    && label.is_some_and(|label| self.labels.contains(label))
            }
            Launch::Url { headers, .. } => headers.iter().any(|(_, value)| {
                let token = value.split_whitespace().next_back().unwrap_or_default();
                Token::parse(token).is_ok_and(|token| self.hashes.contains(&token.hash()))
            }),
            Launch::Other => false,
        }
    }
}

/// The text without the gate's entries, and how many there were.
pub(super) fn without_own(
    record: &Record,
    now: &str,
    before: Option<&str>,
    own: &OwnEntries,
    at: &UserFolders,
) -> Result<(String, usize)> {
    let spec = spec_of(record).ok_or_else(|| anyhow!("not a known file of that client"))?;
    let old = match before {
        Some(before) => discover::entries(spec, before, at)?,
        None => Vec::new(),
    };
    let mut text = now.to_owned();
    let mut count = 0;
    for entry in discover::entries(spec, now, at)? {
        if !own.include(&entry.launch) {
            continue;
        }
        let known = old.iter().find(|known| known.keys == entry.keys);
        text = match (before, known) {
            (Some(before), Some(known)) => restore(spec, &text, before, known)?,
            _ => remove(spec, &text, &entry.keys)?,
        };
        count += 1;
    }
    Ok((text, count))
}

/// The table row of this file. The project may have moved since.
fn spec_of(record: &Record) -> Option<&'static FileSpec> {
    client(&record.client)?.files.iter().find(|spec| record.path.ends_with(spec.path))
}

fn restore(spec: &FileSpec, text: &str, before: &str, entry: &Entry) -> Result<String> {
    if spec.is_toml() {
        let members: Vec<Member> = toml_file::connection(before, &entry.keys)?;
        return toml_file::redirect(text, &entry.keys, &members);
    }
    let members = json_file::connection(before, &entry.keys)?;
    json_file::redirect(text, &entry.keys, &members)
}

fn remove(spec: &FileSpec, text: &str, keys: &[String]) -> Result<String> {
    if spec.is_toml() { toml_file::remove(text, keys) } else { json_file::remove(text, keys) }
}
