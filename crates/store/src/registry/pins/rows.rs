//! How pins are stored, and how a list of tools changes them.

use std::collections::BTreeMap;

use catalog::pins::Fingerprint;
use rusqlite::{Connection, OptionalExtension, Row};

use super::sets::{self, SeenBy, SetRow};
use super::{ACCEPTED_AT_FIRST_SIGHT, Pin, PinState, Pinned, Seen};
use crate::registry::error::RegistryError;

/// A pin without its texts.
pub(super) struct PinSummary {
    pub(super) tool: String,
    pub(super) accepted: Option<String>,
    pub(super) seen: Option<String>,
    seen_twice: bool,
}

impl PinSummary {
    pub(super) fn state(&self) -> PinState {
        state(self.accepted.as_deref(), self.seen.as_deref(), self.seen_twice)
    }
}

fn state(accepted: Option<&str>, seen: Option<&str>, seen_twice: bool) -> PinState {
    match (accepted, seen) {
        (_, None) => PinState::Gone,
        (Some(accepted), Some(seen)) if accepted == seen => PinState::Accepted,
        (_, Some(_)) if seen_twice => PinState::Conflict,
        (Some(_), Some(_)) => PinState::Changed,
        (None, Some(_)) => PinState::New,
    }
}

/// Whether no list of this server was pinned yet, and its pins by tool.
pub(super) fn known(
    db: &Connection,
    server: &str,
) -> Result<(bool, Vec<PinSummary>), RegistryError> {
    let listed = "SELECT EXISTS (SELECT 1 FROM tool_lists WHERE server = ?1)";
    let is_listed: bool = db.prepare_cached(listed)?.query_row([server], |r| r.get(0))?;
    let mut select = db.prepare_cached(
        "SELECT tool, accepted_fingerprint, seen_fingerprint, seen_twice
         FROM pins WHERE server = ?1 ORDER BY tool",
    )?;
    let rows = select.query_map([server], known_of)?;
    Ok((!is_listed, rows.collect::<Result<_, _>>()?))
}

fn known_of(row: &Row<'_>) -> rusqlite::Result<PinSummary> {
    Ok(PinSummary {
        tool: row.get(0)?,
        accepted: row.get(1)?,
        seen: row.get(2)?,
        seen_twice: row.get(3)?,
    })
}

fn one(db: &Connection, server: &str, tool: &str) -> Result<Option<PinSummary>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT tool, accepted_fingerprint, seen_fingerprint, seen_twice
         FROM pins WHERE server = ?1 AND tool = ?2",
    )?;
    Ok(select.query_row((server, tool), known_of).optional()?)
}

/// Stores a list. Only a first list is accepted automatically, and in it no duplicate name.
pub(super) fn put(
    db: &Connection,
    (server, key): (&str, &str),
    known: &[PinSummary],
    seen: &BTreeMap<String, Seen>,
    is_first: bool,
    now_us: i64,
) -> Result<(), RegistryError> {
    if is_first {
        db.execute(
            "INSERT INTO tool_lists (server, first_seen_at_us) VALUES (?1, ?2)",
            (server, now_us),
        )?;
    }
    sets::put(db, (server, key), seen, now_us)?;
    let mut insert = db.prepare_cached(
        "INSERT OR IGNORE INTO pins (server, tool, first_seen_at_us, changed_at_us)
         VALUES (?1, ?2, ?3, ?3)",
    )?;
    for (tool, now) in seen {
        insert.execute((server, tool, now_us))?;
        if is_first {
            put_seen(db, server, tool, &now.as_pinned(), now.twice, now_us)?;
        }
        if is_first && !now.twice {
            accept_row(db, server, tool, ACCEPTED_AT_FIRST_SIGHT, now_us)?;
        }
    }
    let by_tool = sets::rows_of(db, server)?;
    let others = known.iter().map(|pin| &pin.tool).filter(|tool| !seen.contains_key(*tool));
    for tool in seen.keys().chain(others) {
        let rows = by_tool.get(tool).map(Vec::as_slice).unwrap_or_default();
        settle(db, (server, key), tool, rows, now_us)?;
    }
    Ok(())
}

/// Derives what the owner sees of a tool: a definition that some clients get and that is not
/// accepted, or the accepted one if there is no such definition. Prefers what the set `key` gets.
fn settle(
    db: &Connection,
    (server, key): (&str, &str),
    tool: &str,
    rows: &[SetRow],
    now_us: i64,
) -> Result<(), RegistryError> {
    let Some(pin) = one(db, server, tool)? else { return Ok(()) };
    let variants = sets::variants(db, server, tool)?;
    let accepted: Vec<&str> = pin.accepted.iter().chain(&variants).map(String::as_str).collect();
    if rows.is_empty() {
        return if pin.seen.is_some() || pin.accepted.is_none() {
            put_gone(db, server, &pin, now_us)
        } else {
            Ok(())
        };
    }
    let is_open = |row: &&SetRow| row.state(&accepted) != PinState::Accepted;
    let open = rows.iter().filter(is_open).min_by_key(|row| row.capabilities != key);
    match open {
        Some(row) if pin.seen.as_deref() == Some(row.seen.fingerprint.as_str()) => Ok(()),
        Some(row) => put_seen(db, server, tool, &row.seen, row.twice, now_us),
        None if pin.seen == pin.accepted => Ok(()),
        None => {
            db.execute(
                "UPDATE pins SET seen_definition = NULL, seen_fingerprint = accepted_fingerprint,
                                 seen_twice = 0, changed_at_us = ?3
                 WHERE server = ?1 AND tool = ?2",
                (server, tool, now_us),
            )?;
            Ok(())
        }
    }
}

fn put_seen(
    db: &Connection,
    server: &str,
    tool: &str,
    seen: &Pinned,
    twice: bool,
    now_us: i64,
) -> Result<(), RegistryError> {
    let mut put = db.prepare_cached(
        "UPDATE pins SET seen_definition = CASE WHEN accepted_fingerprint = ?4
                                           THEN NULL ELSE ?3 END,
                         seen_fingerprint = ?4, seen_twice = ?5, changed_at_us = ?6
         WHERE server = ?1 AND tool = ?2",
    )?;
    put.execute((server, tool, &seen.definition, seen.fingerprint.as_str(), twice, now_us))?;
    Ok(())
}

/// A tool that was never accepted leaves no trace; an accepted one is kept until its removal is
/// accepted too, so that it cannot come back changed as if it were new.
fn put_gone(
    db: &Connection,
    server: &str,
    pin: &PinSummary,
    now_us: i64,
) -> Result<(), RegistryError> {
    if pin.accepted.is_none() {
        db.execute("DELETE FROM pins WHERE server = ?1 AND tool = ?2", (server, &pin.tool))?;
        return Ok(());
    }
    db.execute(
        "UPDATE pins SET seen_definition = NULL, seen_fingerprint = NULL, seen_twice = 0,
                         changed_at_us = ?3
         WHERE server = ?1 AND tool = ?2",
        (server, &pin.tool, now_us),
    )?;
    Ok(())
}

/// Accepts one pin as it is now, with `all_variants` for every client; returns whether that changed
/// anything.
pub(super) fn accept(
    db: &Connection,
    server: &str,
    pin: &PinSummary,
    all_variants: bool,
    by: &str,
    now_us: i64,
) -> Result<bool, RegistryError> {
    let mut state = pin.state();
    if state == PinState::Accepted {
        return Ok(false);
    }
    if state == PinState::Gone {
        for table in ["pins", "pin_variants"] {
            let delete = format!("DELETE FROM {table} WHERE server = ?1 AND tool = ?2");
            db.execute(&delete, (server, &pin.tool))?;
        }
        return Ok(true);
    }
    let mut by_tool = sets::rows_of(db, server)?;
    let rows = by_tool.remove(&pin.tool).unwrap_or_default();
    // Each iteration accepts one more of the definitions that clients get.
    for _ in 0..=rows.len() {
        accept_variant(db, server, &pin.tool, by, now_us)?;
        settle(db, (server, ""), &pin.tool, &rows, now_us)?;
        state = one(db, server, &pin.tool)?.map_or(PinState::Gone, |pin| pin.state());
        if !all_variants || state == PinState::Accepted {
            break;
        }
    }
    Ok(true)
}

/// Accepts the current definition. The previously accepted one stays accepted only if some clients
/// still get it.
fn accept_variant(
    db: &Connection,
    server: &str,
    tool: &str,
    by: &str,
    now_us: i64,
) -> Result<(), RegistryError> {
    db.execute(
        "INSERT OR IGNORE INTO pin_variants
             (server, tool, fingerprint, definition, accepted_at_us, accepted_by)
         SELECT server, tool, accepted_fingerprint, accepted_definition,
                coalesce(accepted_at_us, ?3), coalesce(accepted_by, '')
         FROM pins WHERE server = ?1 AND tool = ?2 AND accepted_fingerprint IS NOT NULL",
        (server, tool, now_us),
    )?;
    accept_row(db, server, tool, by, now_us)?;
    db.execute(
        "DELETE FROM pin_variants WHERE server = ?1 AND tool = ?2 AND (
             fingerprint = (SELECT accepted_fingerprint FROM pins
                            WHERE server = ?1 AND tool = ?2)
             OR fingerprint NOT IN (SELECT fingerprint FROM pin_sets
                                    WHERE server = ?1 AND tool = ?2))",
        (server, tool),
    )?;
    Ok(())
}

fn accept_row(
    db: &Connection,
    server: &str,
    tool: &str,
    by: &str,
    now_us: i64,
) -> Result<(), RegistryError> {
    let mut accept = db.prepare_cached(
        "UPDATE pins SET accepted_definition = coalesce(seen_definition, accepted_definition),
                         accepted_fingerprint = seen_fingerprint, seen_definition = NULL,
                         accepted_at_us = ?3, accepted_by = ?4
         WHERE server = ?1 AND tool = ?2",
    )?;
    accept.execute((server, tool, now_us, by))?;
    Ok(())
}

pub(super) fn all_of(db: &Connection, server: &str) -> Result<Vec<Pin>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT tool, accepted_definition, accepted_fingerprint,
                coalesce(seen_definition, accepted_definition), seen_fingerprint, seen_twice,
                first_seen_at_us, changed_at_us, accepted_at_us, accepted_by
         FROM pins WHERE server = ?1 ORDER BY tool",
    )?;
    let mut pins: Vec<Pin> = select.query_map([server], pin_of)?.collect::<Result<_, _>>()?;
    let mut variants = sets::all_variants(db, server)?;
    let mut by_tool = sets::rows_of(db, server)?;
    for pin in &mut pins {
        pin.also_accepted = variants.remove(&pin.tool).unwrap_or_default();
        let accepted = pin.accepted.iter().chain(&pin.also_accepted);
        let accepted: Vec<&str> = accepted.map(|pinned| pinned.fingerprint.as_str()).collect();
        let rows = by_tool.remove(&pin.tool).unwrap_or_default();
        let seen_by = rows.into_iter().map(|row| SeenBy {
            state: row.state(&accepted),
            capabilities: row.capabilities,
            seen: row.seen,
        });
        pin.seen_by = seen_by.collect();
    }
    Ok(pins)
}

fn pin_of(row: &Row<'_>) -> rusqlite::Result<Pin> {
    let accepted = pinned_of(row, 1)?;
    let seen = pinned_of(row, 3)?;
    let fingerprint = |side: &Option<Pinned>| side.as_ref().map(|p| p.fingerprint.clone());
    let (was, now) = (fingerprint(&accepted), fingerprint(&seen));
    let as_text = |f: &Option<Fingerprint>| f.as_ref().map(|f| f.as_str().to_owned());
    Ok(Pin {
        tool: row.get(0)?,
        state: state(as_text(&was).as_deref(), as_text(&now).as_deref(), row.get(5)?),
        accepted,
        seen,
        first_seen_at_us: row.get(6)?,
        changed_at_us: row.get(7)?,
        accepted_at_us: row.get(8)?,
        accepted_by: row.get(9)?,
        also_accepted: Vec::new(),
        seen_by: Vec::new(),
    })
}

/// Definition and fingerprint from two adjacent columns; none without a fingerprint.
fn pinned_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Pinned>> {
    let fingerprint: Option<String> = row.get(column + 1)?;
    let Some(fingerprint) = fingerprint else { return Ok(None) };
    let fingerprint = Fingerprint::from_hex(&fingerprint).ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(Some(Pinned { definition: row.get(column)?, fingerprint }))
}
