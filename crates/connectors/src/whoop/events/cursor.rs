//! A position in the order of changes as an opaque string: URL-safe base64 with padding of
//! `updated_at|resource|id`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use store::records::StoredRecord;

use crate::when::{self, Here};
use crate::whoop::kind::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    updated: String,
    pub(super) updated_us: i64,
    pub(super) kind: String,
    pub(super) id: String,
}

/// A reader's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Instant(i64),
    Cursor(Cursor),
}

impl Since {
    /// A time is tried first: no cursor parses as one.
    pub(super) fn read(text: &str, here: Here) -> Option<Since> {
        if let Some(instant_us) = when::instant_us(text) {
            return Some(Since::Instant(instant_us));
        }
        match Cursor::read(text) {
            Some(cursor) => Some(Since::Cursor(cursor)),
            None => when::start_us(text, here).ok().map(Since::Instant),
        }
    }

    pub(super) fn instant_us(&self) -> i64 {
        match self {
            Since::Instant(instant_us) => *instant_us,
            Since::Cursor(cursor) => cursor.updated_us,
        }
    }
}

impl Cursor {
    pub(super) fn of(row: &StoredRecord) -> Cursor {
        Cursor {
            updated: row.updated.clone(),
            updated_us: row.updated_us,
            kind: row.kind.clone(),
            id: row.id.clone(),
        }
    }

    pub(super) fn text(&self) -> String {
        URL_SAFE.encode(format!("{}|{}|{}", self.updated, self.kind, self.id))
    }

    pub(super) fn read(text: &str) -> Option<Cursor> {
        let plain = String::from_utf8(URL_SAFE.decode(text).ok()?).ok()?;
        let mut fields = plain.splitn(3, '|');
        let (updated, kind, id) = (fields.next()?, fields.next()?, fields.next()?);
        let kind = Kind::parse(kind)?;
        Some(Cursor {
            updated_us: when::instant_us(updated)?,
            updated: updated.to_owned(),
            kind: kind.name().to_owned(),
            id: id.to_owned(),
        })
    }

    /// The position of a record in the order of changes.
    pub(super) fn order(row: &StoredRecord) -> (i64, &str, &str) {
        (row.updated_us, &row.kind, &row.id)
    }

    /// Its own sort key in that order.
    pub(super) fn position(&self) -> (i64, &str, &str) {
        (self.updated_us, &self.kind, &self.id)
    }

    /// Is a record at or before this position?
    pub(super) fn is_past(&self, row: &StoredRecord) -> bool {
        Cursor::order(row) <= self.position()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const HERE: Here = Here { now_us: 1_776_240_000_000_000, offset_s: 0 };

    #[test]
    fn a_cursor_is_the_documented_text_and_reads_back() {
        let cursor = Cursor {
            updated: "2026-04-14T07:00:00.000Z".into(),
            updated_us: when::instant_us("2026-04-14T07:00:00.000Z").unwrap(),
            kind: "cycles".into(),
            id: "93845".into(),
        };
        let text = cursor.text();
        assert_eq!(text, "MjAyNi0wNC0xNFQwNzowMDowMC4wMDBafGN5Y2xlc3w5Mzg0NQ==");
        assert_eq!(Since::read(&text, HERE), Some(Since::Cursor(cursor)));
    }

    #[test]
    fn times_and_day_names_are_parsed_and_nonsense_is_refused() {
        assert!(matches!(Since::read("2026-04-14", HERE), Some(Since::Instant(_))));
        assert!(matches!(Since::read("yesterday", HERE), Some(Since::Instant(_))));
        for text in ["", "garbage", "abcZ", "bm90IGEgY3Vyc29y", "x:y"] {
            assert_eq!(Since::read(text, HERE), None, "{text}");
        }
    }
}
