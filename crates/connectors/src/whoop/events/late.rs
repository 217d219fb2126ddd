//! Remembers how far the mirror had been written when a cursor was given out. A sync fetches newest
//! first, so older changes arrive behind a reader's back; the reader gets them with its next page.

use serde_json::{Value, json};
use store::records::{RecordsError, Row};

use super::cursor::Since;
use crate::Desk;
use crate::whoop::NAME;

const KEY: &str = "event_cursors";
/// Readers that are remembered; an older one simply goes on from its cursor.
const MARKS_MAX: usize = 64;
/// Late changes that are looked through for one page.
const LATE_MAX: usize = 5_000;

/// What stood in the mirror when a cursor was given out, and where its reader began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) cursor: String,
    pub(super) seq: i64,
    pub(super) start_us: i64,
}

pub(super) fn mark(desk: &Desk, text: &str, since: &Since) -> Option<Mark> {
    if matches!(since, Since::Instant(_)) {
        return None;
    }
    marks(desk).into_iter().find(|mark| mark.cursor == text)
}

/// What came since the mark but belongs before the cursor, in the order it came.
pub(super) fn rows(
    desk: &Desk,
    kinds: &[&str],
    mark: Option<&Mark>,
    since: &Since,
    until_us: i64,
) -> Result<Vec<Row>, RecordsError> {
    let (Some(mark), Since::Cursor(cursor)) = (mark, since) else { return Ok(Vec::new()) };
    let mut rows = desk.records.changes_since(NAME, kinds, mark.seq, LATE_MAX)?;
    rows.retain(|row| {
        cursor.is_past(row) && row.updated_us > mark.start_us && row.updated_us < until_us
    });
    Ok(rows)
}

/// Other readers write theirs at the same time, so it is one change of what stands there.
pub(super) fn remember(desk: &Desk, mark: &Mark) {
    let noted = desk.records.state_change(NAME, KEY, |known| {
        let mut all = read(known.as_deref().unwrap_or_default());
        all.retain(|known| known.cursor != mark.cursor);
        all.push(mark.clone());
        let skip = all.len().saturating_sub(MARKS_MAX);
        let marks = all.iter().skip(skip);
        let marks = marks.map(|mark| json!([mark.cursor, mark.seq, mark.start_us]));
        Value::Array(marks.collect()).to_string()
    });
    if let Err(error) = noted {
        tracing::warn!(%error, "a cursor of the events is not remembered");
    }
}

fn marks(desk: &Desk) -> Vec<Mark> {
    read(&desk.records.state_get(NAME, KEY).ok().flatten().unwrap_or_default())
}

fn read(text: &str) -> Vec<Mark> {
    let marks: Vec<(String, i64, i64)> = serde_json::from_str(text).unwrap_or_default();
    marks.into_iter().map(|(cursor, seq, start_us)| Mark { cursor, seq, start_us }).collect()
}
