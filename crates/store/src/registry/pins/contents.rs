//! Pinned contents: what a server returned for a URI, such as the page of an MCP App, and the entries of skills. The
//! first content of a URI is accepted as it is, and of skills those of the first list; later ones are not.

use catalog::pins::{Fingerprint, fingerprint_of_canonical};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{ACCEPTED_AT_FIRST_SIGHT, Accept, DEFINITION_BYTES_MAX, Pin, PinState, Pinned};
use crate::registry::Registry;
use crate::registry::error::RegistryError;

/// A server with more pages than this has no further ones accepted.
pub const CONTENTS_PER_SERVER_MAX: i64 = 100;
/// The same for skills.
pub const SKILLS_PER_SERVER_MAX: i64 = 1_000;
/// How the URIs of skills end.
const IS_SKILL: &str = "uri LIKE '%/SKILL.md'";

impl Registry {
    /// Compares what a server returned for a URI, in canonical form, with its pin, and stores the result.
    /// An unchanged content changes nothing on disk.
    pub fn observe_content(
        &self,
        server: &str,
        uri: &str,
        content: &str,
        now_us: i64,
    ) -> Result<PinState, RegistryError> {
        let seen = Pinned {
            definition: storable(content),
            fingerprint: fingerprint_of_canonical(content),
        };
        let known = self.read(|db| summary(db, server, uri))?;
        if known.is_some_and(|known| known.seen == seen.fingerprint.as_str() && known.is_settled())
        {
            return Ok(PinState::Accepted);
        }
        self.write_quietly(|db| {
            let room = count(db, server, &format!("NOT {IS_SKILL}"))? < CONTENTS_PER_SERVER_MAX;
            put(db, server, uri, &seen, room.then_some(FirstSight::Accepted), now_us)
        })
    }

    /// Compares entries of skills, given by URI and in canonical form, with their pins, and stores the result. The
    /// first whole list of a server that names a skill is accepted; a skill that appears later is new.
    pub fn observe_skills(
        &self,
        server: &str,
        entries: &[(&str, &str)],
        is_whole_list: bool,
        now_us: i64,
    ) -> Result<Vec<PinState>, RegistryError> {
        let seen = |entry: &str| Pinned {
            definition: storable(entry),
            fingerprint: fingerprint_of_canonical(entry),
        };
        let all: Vec<(&str, Pinned)> =
            entries.iter().map(|(uri, entry)| (*uri, seen(entry))).collect();
        let known: Vec<Option<PinState>> = self.read(|db| {
            let known = all.iter().map(|(uri, seen)| {
                Ok(summary(db, server, uri)?.and_then(|known| known.settled(seen)))
            });
            known.collect::<Result<_, RegistryError>>()
        })?;
        if let Some(states) = known.into_iter().collect() {
            return Ok(states);
        }
        self.write_quietly(|db| {
            let mut pinned = count(db, server, IS_SKILL)?;
            let first = match pinned {
                0 if is_whole_list => FirstSight::Accepted,
                _ => FirstSight::New,
            };
            let state = |(uri, seen): &(&str, Pinned)| {
                let sight = (pinned < SKILLS_PER_SERVER_MAX).then_some(first);
                let state = put(db, server, uri, seen, sight, now_us)?;
                pinned += 1;
                Ok(state)
            };
            all.iter().map(state).collect()
        })
    }

    /// Every pin of a server: its tools, then its contents.
    pub fn all_pins(&self, server: &str) -> Result<Vec<Pin>, RegistryError> {
        let mut pins = self.pins(server)?;
        pins.extend(self.content_pins(server)?);
        Ok(pins)
    }

    /// The pinned contents of a server, by URI, which takes the place of the tool's name.
    pub fn content_pins(&self, server: &str) -> Result<Vec<Pin>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT uri, accepted, accepted_fingerprint, seen, seen_fingerprint,
                        first_seen_at_us, changed_at_us, accepted_at_us, accepted_by
                 FROM content_pins WHERE server = ?1 ORDER BY uri",
            )?;
            Ok(select.query_map([server], pin_of)?.collect::<Result<_, _>>()?)
        })
    }
}

/// A content that is too large to be stored is compared by its digest alone.
fn storable(content: &str) -> String {
    if content.len() <= DEFINITION_BYTES_MAX {
        return content.to_owned();
    }
    let digest = fingerprint_of_canonical(content);
    format!(r#"{{"bytes":{},"sha256":"{digest}"}}"#, content.len())
}

struct Summary {
    accepted: Option<String>,
    seen: String,
}

impl Summary {
    fn is_settled(&self) -> bool {
        self.accepted.as_ref() == Some(&self.seen)
    }

    /// The state, if this content was the last one seen.
    fn settled(&self, seen: &Pinned) -> Option<PinState> {
        (self.seen == seen.fingerprint.as_str()).then(|| self.state())
    }

    fn state(&self) -> PinState {
        match &self.accepted {
            None => PinState::New,
            Some(accepted) if *accepted == self.seen => PinState::Accepted,
            Some(_) => PinState::Changed,
        }
    }
}

/// What becomes of a content that was never seen.
#[derive(Clone, Copy)]
enum FirstSight {
    Accepted,
    New,
}

fn count(db: &Connection, server: &str, which: &str) -> Result<i64, RegistryError> {
    let count = format!("SELECT count(*) FROM content_pins WHERE server = ?1 AND {which}");
    Ok(db.query_row(&count, [server], |r| r.get(0))?)
}

fn summary(db: &Connection, server: &str, uri: &str) -> Result<Option<Summary>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT accepted_fingerprint, seen_fingerprint FROM content_pins
         WHERE server = ?1 AND uri = ?2",
    )?;
    let row = |row: &Row<'_>| Ok(Summary { accepted: row.get(0)?, seen: row.get(1)? });
    Ok(select.query_row((server, uri), row).optional()?)
}

/// Without a `first` there is no room for another content.
fn put(
    db: &Connection,
    server: &str,
    uri: &str,
    seen: &Pinned,
    first: Option<FirstSight>,
    now_us: i64,
) -> Result<PinState, RegistryError> {
    let fingerprint = seen.fingerprint.as_str();
    let Some(mut known) = summary(db, server, uri)? else {
        let Some(first) = first else { return Ok(PinState::New) };
        db.execute(
            "INSERT INTO content_pins (server, uri, seen, seen_fingerprint, first_seen_at_us,
                changed_at_us) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
            (server, uri, &seen.definition, fingerprint, now_us),
        )?;
        return match first {
            FirstSight::New => Ok(PinState::New),
            FirstSight::Accepted => {
                take_over(db, server, uri, ACCEPTED_AT_FIRST_SIGHT, now_us)?;
                Ok(PinState::Accepted)
            }
        };
    };
    if known.seen != fingerprint {
        db.execute(
            "UPDATE content_pins SET seen = ?3, seen_fingerprint = ?4, changed_at_us = ?5
             WHERE server = ?1 AND uri = ?2",
            (server, uri, &seen.definition, fingerprint, now_us),
        )?;
        fingerprint.clone_into(&mut known.seen);
    }
    Ok(known.state())
}

/// Accepts a content as it was seen last.
fn take_over(
    db: &Connection,
    server: &str,
    uri: &str,
    by: &str,
    now_us: i64,
) -> Result<(), RegistryError> {
    db.execute(
        "UPDATE content_pins SET accepted = seen, accepted_fingerprint = seen_fingerprint,
            accepted_at_us = ?3, accepted_by = ?4
         WHERE server = ?1 AND uri = ?2",
        (server, uri, now_us, by),
    )?;
    Ok(())
}

fn pin_of(row: &Row<'_>) -> rusqlite::Result<Pin> {
    let pinned = |definition: String, fingerprint: &str| {
        let fingerprint =
            Fingerprint::from_hex(fingerprint).ok_or(rusqlite::Error::InvalidQuery)?;
        Ok::<_, rusqlite::Error>(Pinned { definition, fingerprint })
    };
    let seen = pinned(row.get(3)?, &row.get::<_, String>(4)?)?;
    let fingerprint: Option<String> = row.get(2)?;
    let known = Summary { accepted: fingerprint, seen: seen.fingerprint.to_string() };
    let accepted = match &known.accepted {
        Some(fingerprint) => Some(pinned(row.get(1)?, fingerprint)?),
        None => None,
    };
    Ok(Pin {
        tool: row.get(0)?,
        state: known.state(),
        accepted,
        seen: Some(seen),
        first_seen_at_us: row.get(5)?,
        changed_at_us: row.get(6)?,
        accepted_at_us: row.get(7)?,
        accepted_by: row.get(8)?,
        also_accepted: Vec::new(),
        seen_by: Vec::new(),
    })
}

/// Accepts changed contents: all, or one. False if there is no content of that URI.
pub(super) fn accept(
    db: &Connection,
    server: &str,
    what: Accept<'_>,
    by: &str,
    now_us: i64,
    touched: &mut Vec<String>,
) -> Result<bool, RegistryError> {
    let (only, exactly) = match what {
        Accept::All => (None, None),
        Accept::Tool(uri) => (Some(uri), None),
        Accept::Exactly(uri, fingerprint) => (Some(uri), Some(fingerprint.as_str())),
    };
    let mut select = db.prepare_cached(
        "SELECT uri, seen_fingerprint, accepted_fingerprint IS seen_fingerprint
         FROM content_pins WHERE server = ?1 AND (?2 IS NULL OR uri = ?2) ORDER BY uri",
    )?;
    let rows = select.query_map((server, only), |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
    })?;
    let rows: Vec<(String, String, bool)> = rows.collect::<Result<_, _>>()?;
    let is_known = !rows.is_empty();
    for (uri, seen, is_settled) in rows {
        if exactly.is_some_and(|exactly| exactly != seen) {
            return Err(RegistryError::ChangedAgain { server: server.to_owned(), tool: uri });
        }
        if is_settled {
            continue;
        }
        take_over(db, server, &uri, by, now_us)?;
        touched.push(uri);
    }
    Ok(is_known)
}
