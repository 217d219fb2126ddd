//! How pins lie in their table, and how a list of tools moves them.

use std::collections::BTreeMap;

use catalog::pins::Fingerprint;
use rusqlite::{Connection, Row};

use super::{ACCEPTED_AT_FIRST_SIGHT, Pin, PinMark, PinState, Pinned, Seen};
use crate::registry::error::RegistryError;

/// A pin without its texts.
pub(super) struct Known {
    pub(super) tool: String,
    pub(super) accepted: Option<String>,
    pub(super) seen: Option<String>,
    seen_twice: bool,
}

impl Known {
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
pub(super) fn known(db: &Connection, server: &str) -> Result<(bool, Vec<Known>), RegistryError> {
    let listed = "SELECT EXISTS (SELECT 1 FROM tool_lists WHERE server = ?1)";
    let is_listed: bool = db.prepare_cached(listed)?.query_row([server], |r| r.get(0))?;
    let mut select = db.prepare_cached(
        "SELECT tool, accepted_fingerprint, seen_fingerprint, seen_twice
         FROM pins WHERE server = ?1 ORDER BY tool",
    )?;
    let rows = select.query_map([server], |row| {
        Ok(Known {
            tool: row.get(0)?,
            accepted: row.get(1)?,
            seen: row.get(2)?,
            seen_twice: row.get(3)?,
        })
    })?;
    Ok((!is_listed, rows.collect::<Result<_, _>>()?))
}

/// Whether a list is what was seen last.
pub(super) fn same(known: &[Known], seen: &BTreeMap<String, Seen>) -> bool {
    let here = known.iter().filter_map(|pin| Some((pin.tool.as_str(), pin.seen.as_deref()?)));
    here.eq(seen.iter().map(|(tool, seen)| (tool.as_str(), seen.fingerprint.as_str())))
}

/// Keeps what a list shows. Only a first list is accepted by itself, and in it no doubled name.
pub(super) fn put(
    db: &Connection,
    server: &str,
    known: &[Known],
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
    for (tool, now) in seen {
        let pin = known.iter().find(|pin| pin.tool == *tool);
        if pin.and_then(|pin| pin.seen.as_deref()) == Some(now.fingerprint.as_str()) {
            continue;
        }
        put_seen(db, server, tool, now, now_us)?;
        if is_first && !now.twice {
            accept_row(db, server, tool, ACCEPTED_AT_FIRST_SIGHT, now_us)?;
        }
    }
    for pin in known.iter().filter(|pin| pin.seen.is_some() && !seen.contains_key(&pin.tool)) {
        put_gone(db, server, pin, now_us)?;
    }
    Ok(())
}

fn put_seen(
    db: &Connection,
    server: &str,
    tool: &str,
    now: &Seen,
    now_us: i64,
) -> Result<(), RegistryError> {
    let mut put = db.prepare_cached(
        "INSERT INTO pins (server, tool, seen_definition, seen_fingerprint, seen_twice,
                           first_seen_at_us, changed_at_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT (server, tool) DO UPDATE SET
             seen_definition = CASE WHEN accepted_fingerprint = excluded.seen_fingerprint
                               THEN NULL ELSE excluded.seen_definition END,
             seen_fingerprint = excluded.seen_fingerprint,
             seen_twice = excluded.seen_twice,
             changed_at_us = excluded.changed_at_us",
    )?;
    put.execute((server, tool, &now.definition, now.fingerprint.as_str(), now.twice, now_us))?;
    Ok(())
}

/// A tool that was never accepted leaves no trace; an accepted one is remembered until that is
/// accepted, too, so that it cannot come back changed as if it were new.
fn put_gone(db: &Connection, server: &str, pin: &Known, now_us: i64) -> Result<(), RegistryError> {
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

/// Accepts one pin as it is seen now; answers whether that changed anything.
pub(super) fn accept(
    db: &Connection,
    server: &str,
    pin: &Known,
    by: &str,
    now_us: i64,
) -> Result<bool, RegistryError> {
    let shared = db.execute(
        "UPDATE pins SET shares_name = 1 WHERE server = ?1 AND tool = ?2 AND shares_name = 0
         AND EXISTS (SELECT 1 FROM pins other WHERE other.tool = ?2 AND other.server <> ?1
                     AND other.seen_fingerprint IS NOT NULL)",
        (server, &pin.tool),
    )?;
    match pin.state() {
        PinState::Accepted => return Ok(shared > 0),
        PinState::Gone => {
            db.execute("DELETE FROM pins WHERE server = ?1 AND tool = ?2", (server, &pin.tool))?;
        }
        PinState::Changed | PinState::New | PinState::Conflict => {
            accept_row(db, server, &pin.tool, by, now_us)?;
        }
    }
    Ok(true)
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
                first_seen_at_us, changed_at_us, accepted_at_us, accepted_by, shares_name
         FROM pins WHERE server = ?1 ORDER BY tool",
    )?;
    Ok(select.query_map([server], pin_of)?.collect::<Result<_, _>>()?)
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
        shares_name: row.get(10)?,
    })
}

/// Definition and fingerprint from two columns side by side; without a fingerprint there is none.
fn pinned_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Pinned>> {
    let fingerprint: Option<String> = row.get(column + 1)?;
    let Some(fingerprint) = fingerprint else { return Ok(None) };
    let fingerprint = Fingerprint::from_hex(&fingerprint).ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(Some(Pinned { definition: row.get(column)?, fingerprint }))
}

/// The marks of every pin, by server and tool.
pub(crate) fn marks(
    db: &Connection,
) -> Result<BTreeMap<String, BTreeMap<String, PinMark>>, RegistryError> {
    let mut by_server: BTreeMap<String, BTreeMap<String, PinMark>> = BTreeMap::new();
    let mut listed = db.prepare_cached("SELECT server FROM tool_lists")?;
    for server in listed.query_map([], |row| row.get(0))? {
        by_server.insert(server?, BTreeMap::new());
    }
    let mut select = db.prepare_cached(
        "SELECT server, tool, accepted_fingerprint, seen_fingerprint, seen_twice,
                first_seen_at_us, shares_name FROM pins",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (accepted, seen): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
        let mark = PinMark {
            state: state(accepted.as_deref(), seen.as_deref(), row.get(4)?),
            first_seen_at_us: row.get(5)?,
            shares_name: row.get(6)?,
        };
        by_server.entry(row.get(0)?).or_default().insert(row.get(1)?, mark);
    }
    Ok(by_server)
}
