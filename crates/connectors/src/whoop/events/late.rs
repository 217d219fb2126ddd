//! Remembers how far the mirror had been written when a cursor was given out. A sync fetches newest
//! first, so older changes arrive behind a reader's back; the reader gets them with its next page.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use store::records::{RecordsError, Row};

use super::cursor::Since;
use crate::Desk;
use crate::whoop::NAME;

const KEY: &str = "event_cursors";
/// Readers that are remembered; an older one simply goes on from its cursor.
const MARKS_MAX: usize = 64;
/// The same for readers of this process, whose marks cost no writing.
const OWN_MARKS_MAX: usize = 256;
/// Changes that are looked through at once for late ones, and late ones enough for any page.
const LATE_MAX: usize = 5_000;

/// What stood in the mirror when a cursor was given out, and where its reader began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) cursor: String,
    pub(super) seq: i64,
    pub(super) start_us: i64,
    /// Where its reader has come to, when the cursor is of a change that came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
}

/// The marks of this process. Another one may come to the same cursor at another time, and its mark
/// says nothing to our readers.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    fn find(&self, cursor: &str) -> Option<Mark> {
        let marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.iter().find(|mark| mark.cursor == cursor).cloned()
    }

    fn put(&self, mark: &Mark) {
        put(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), mark, OWN_MARKS_MAX);
    }
}

/// The newest stands last.
fn put(marks: &mut Vec<Mark>, mark: &Mark, max: usize) {
    marks.retain(|known| known.cursor != mark.cursor);
    marks.push(mark.clone());
    let surplus = marks.len().saturating_sub(max);
    marks.drain(..surplus);
}

pub(super) fn mark(desk: &Desk, text: &str, since: &Since) -> Option<Mark> {
    if matches!(since, Since::Instant(_)) {
        return None;
    }
    let own = desk.marks.find(text);
    own.or_else(|| marks(desk).into_iter().find(|mark| mark.cursor == text))
}

/// What came since the mark but belongs before the place its reader has come to, in the order it
/// came.
pub(super) fn rows(
    desk: &Desk,
    kinds: &[&str],
    mark: Option<&Mark>,
    place: &Since,
    until_us: i64,
) -> Result<Vec<Row>, RecordsError> {
    let (Some(mark), Since::Cursor(place)) = (mark, place) else { return Ok(Vec::new()) };
    let (mut late, mut after_seq) = (Vec::new(), mark.seq);
    // What came in time may be any number of changes, and the late ones may stand behind them all.
    while late.len() <= LATE_MAX {
        let mut rows = desk.records.changes_since(NAME, kinds, after_seq, LATE_MAX)?;
        let is_last = rows.len() < LATE_MAX;
        after_seq = rows.last().map_or(after_seq, |row| row.seq);
        rows.retain(|row| {
            place.is_past(row) && row.updated_us > mark.start_us && row.updated_us < until_us
        });
        late.append(&mut rows);
        if is_last {
            break;
        }
    }
    Ok(late)
}

/// Other readers write theirs at the same time, so it is one change of what stands there.
pub(super) fn remember(desk: &Desk, mark: &Mark) {
    desk.marks.put(mark);
    let noted = desk.records.state_change(NAME, KEY, |known| {
        let mut all = read(known.as_deref().unwrap_or_default());
        put(&mut all, mark, MARKS_MAX);
        serde_json::to_string(&all).unwrap_or_default()
    });
    if let Err(error) = noted {
        tracing::warn!(%error, "a cursor of the events is not remembered");
    }
}

fn marks(desk: &Desk) -> Vec<Mark> {
    read(&desk.records.state_get(NAME, KEY).ok().flatten().unwrap_or_default())
}

fn read(text: &str) -> Vec<Mark> {
    serde_json::from_str(text).unwrap_or_default()
}
