//! Takes the gate's entries out of a client's file that was changed since an import: each entry that the
//! import wrote becomes what it was before, and everything else stays as it is now.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use store::registry::{Token, TokenHash};

use super::edit::{self, Member};
use super::entry::{Entry, Launch};
use super::found;
use super::journal::Record;
use super::places::Surroundings;
use super::table::{Place, client};
use super::toml_file;
use crate::context::Stores;

/// The entries that imports wrote for these records.
pub(super) struct Ours {
    labels: BTreeSet<String>,
    hashes: Vec<TokenHash>,
}

impl Ours {
    pub(super) fn of(records: &[Record], stores: &Stores) -> Result<Ours> {
        let labels: BTreeSet<String> = records.iter().map(|record| record.grant.clone()).collect();
        // Also those of a grant that was revoked since: its entry is of no use to the client.
        let grants = stores.registry.grants()?.into_iter();
        let tokens = grants.filter(|grant| labels.contains(&grant.label)).flat_map(|g| g.tokens);
        Ok(Ours { hashes: tokens.map(|token| token.hash).collect(), labels })
    }

    fn wrote(&self, launch: &Launch) -> bool {
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
pub(super) fn without_ours(
    record: &Record,
    now: &str,
    before: Option<&str>,
    ours: &Ours,
    at: &Surroundings,
) -> Result<(String, usize)> {
    let place = place_of(record).ok_or_else(|| anyhow!("this is no file of that client"))?;
    let old = match before {
        Some(before) => found::entries(place, before, at)?,
        None => Vec::new(),
    };
    let mut text = now.to_owned();
    let mut count = 0;
    for entry in found::entries(place, now, at)? {
        if !ours.wrote(&entry.launch) {
            continue;
        }
        let known = old.iter().find(|known| known.keys == entry.keys);
        text = match (before, known) {
            (Some(before), Some(known)) => put_back(place, &text, before, known)?,
            _ => remove(place, &text, &entry.keys)?,
        };
        count += 1;
    }
    Ok((text, count))
}

/// The place in the table that this file was found at. The folder of a project may be another now.
fn place_of(record: &Record) -> Option<&'static Place> {
    client(&record.client)?.files.iter().find(|place| record.path.ends_with(place.path))
}

fn put_back(place: &Place, text: &str, before: &str, entry: &Entry) -> Result<String> {
    if place.is_toml() {
        let members: Vec<Member> = toml_file::connection(before, &entry.keys)?;
        return toml_file::redirect(text, &entry.keys, &members);
    }
    let members = edit::connection(before, &entry.keys)?;
    edit::redirect(text, &entry.keys, &members)
}

fn remove(place: &Place, text: &str, keys: &[String]) -> Result<String> {
    if place.is_toml() { toml_file::remove(text, keys) } else { edit::remove(text, keys) }
}
