//! Tool lists per set of client capabilities: a tool that one client does not see is not gone, and
//! a definition that was accepted for one client is accepted for all.

use std::collections::BTreeMap;

use catalog::pins::Fingerprint;
use rusqlite::{Connection, OptionalExtension};

use super::{PinState, Pinned, Seen};
use crate::registry::error::RegistryError;

/// Capability sets of one server that are kept apart; the lists of further ones are merged.
const SETS_PER_SERVER_MAX: i64 = 32;
/// The set that represents all beyond that number.
pub const OTHER_CAPABILITIES: &str = "(other)";

/// What the clients of one capability set last saw of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenBy {
    pub capabilities: String,
    pub state: PinState,
    pub seen: Pinned,
}

/// The capability sets of a server whose lists were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSets {
    pub capabilities: Vec<String>,
    /// The features it declared, such as `prompts,tools`; none if no gate has stored them yet.
    pub offers: Option<String>,
}

/// The key of a set.
pub(super) fn key<'k>(
    db: &Connection,
    server: &str,
    capabilities: &'k str,
) -> Result<&'k str, RegistryError> {
    let known = "SELECT EXISTS (SELECT 1 FROM pin_lists WHERE server = ?1 AND capabilities = ?2)";
    let is_known: bool =
        db.prepare_cached(known)?.query_row((server, capabilities), |r| r.get(0))?;
    if is_known {
        return Ok(capabilities);
    }
    let count = "SELECT count(*) FROM pin_lists WHERE server = ?1";
    let sets: i64 = db.prepare_cached(count)?.query_row([server], |r| r.get(0))?;
    Ok(if sets < SETS_PER_SERVER_MAX { capabilities } else { OTHER_CAPABILITIES })
}

/// Tools and fingerprints of the last list of a set; none if none was read.
pub(super) fn last(
    db: &Connection,
    server: &str,
    key: &str,
) -> Result<Option<BTreeMap<String, String>>, RegistryError> {
    let listed = "SELECT 1 FROM pin_lists WHERE server = ?1 AND capabilities = ?2";
    let mut listed = db.prepare_cached(listed)?;
    if listed.query_row((server, key), |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let mut select = db.prepare_cached(
        "SELECT tool, fingerprint FROM pin_sets WHERE server = ?1 AND capabilities = ?2",
    )?;
    let rows = select.query_map((server, key), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Some(rows.collect::<Result<_, _>>()?))
}

/// Whether a list equals the last one of the set.
pub(super) fn same(set: &BTreeMap<String, String>, seen: &BTreeMap<String, Seen>) -> bool {
    let fingerprints = seen.iter().map(|(tool, seen)| (tool.as_str(), seen.fingerprint.as_str()));
    set.iter().map(|(tool, fingerprint)| (tool.as_str(), fingerprint.as_str())).eq(fingerprints)
}

/// Replaces the list of a set.
pub(super) fn put(
    db: &Connection,
    (server, key): (&str, &str),
    seen: &BTreeMap<String, Seen>,
    now_us: i64,
) -> Result<(), RegistryError> {
    db.execute(
        "INSERT INTO pin_lists (server, capabilities, changed_at_us) VALUES (?1, ?2, ?3)
         ON CONFLICT (server, capabilities) DO UPDATE SET changed_at_us = excluded.changed_at_us",
        (server, key, now_us),
    )?;
    db.execute("DELETE FROM pin_sets WHERE server = ?1 AND capabilities = ?2", (server, key))?;
    let mut insert = db.prepare_cached(
        "INSERT INTO pin_sets (server, capabilities, tool, fingerprint, definition, twice)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (tool, now) in seen {
        insert.execute((
            server,
            key,
            tool,
            now.fingerprint.as_str(),
            &now.definition,
            now.twice,
        ))?;
    }
    Ok(())
}

/// The fingerprints of further accepted definitions of a tool.
pub(super) fn variants(
    db: &Connection,
    server: &str,
    tool: &str,
) -> Result<Vec<String>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT fingerprint FROM pin_variants WHERE server = ?1 AND tool = ?2 ORDER BY fingerprint",
    )?;
    Ok(select.query_map((server, tool), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Further accepted definitions of every tool of a server.
pub(super) fn all_variants(
    db: &Connection,
    server: &str,
) -> Result<BTreeMap<String, Vec<Pinned>>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT tool, fingerprint, definition FROM pin_variants WHERE server = ?1
         ORDER BY tool, fingerprint",
    )?;
    let mut rows = select.query([server])?;
    let mut found: BTreeMap<String, Vec<Pinned>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let pinned = pinned(&row.get::<_, String>(1)?, row.get(2)?)?;
        found.entry(row.get(0)?).or_default().push(pinned);
    }
    Ok(found)
}

/// One row of a set: its key, its definition, and whether the name occurred twice.
pub(super) struct SetRow {
    pub(super) capabilities: String,
    pub(super) seen: Pinned,
    pub(super) twice: bool,
}

impl SetRow {
    pub(super) fn state(&self, accepted: &[&str]) -> PinState {
        match () {
            () if accepted.contains(&self.seen.fingerprint.as_str()) => PinState::Accepted,
            () if self.twice => PinState::Conflict,
            () if accepted.is_empty() => PinState::New,
            () => PinState::Changed,
        }
    }
}

/// What every set saw of every tool of a server.
pub(super) fn rows_of(
    db: &Connection,
    server: &str,
) -> Result<BTreeMap<String, Vec<SetRow>>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT tool, capabilities, fingerprint, definition, twice FROM pin_sets
         WHERE server = ?1 ORDER BY tool, capabilities",
    )?;
    let mut rows = select.query([server])?;
    let mut found: BTreeMap<String, Vec<SetRow>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let seen = pinned(&row.get::<_, String>(2)?, row.get(3)?)?;
        let set = SetRow { capabilities: row.get(1)?, seen, twice: row.get(4)? };
        found.entry(row.get(0)?).or_default().push(set);
    }
    Ok(found)
}

fn pinned(fingerprint: &str, definition: String) -> Result<Pinned, RegistryError> {
    let fingerprint = Fingerprint::from_hex(fingerprint).ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(Pinned { definition, fingerprint })
}

pub(super) fn all(db: &Connection, server: &str) -> Result<ToolSets, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT capabilities FROM pin_lists WHERE server = ?1 ORDER BY capabilities",
    )?;
    let capabilities = select.query_map([server], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let offers = db
        .query_row("SELECT offers FROM server_offers WHERE server = ?1", [server], |row| row.get(0))
        .optional()?;
    Ok(ToolSets { capabilities, offers })
}

pub(super) fn put_offers(db: &Connection, server: &str, offers: &str) -> Result<(), RegistryError> {
    db.execute(
        "INSERT INTO server_offers (server, offers) VALUES (?1, ?2)
         ON CONFLICT (server) DO UPDATE SET offers = excluded.offers",
        (server, offers),
    )?;
    Ok(())
}
