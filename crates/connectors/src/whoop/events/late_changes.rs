//! Records the mirror's change number when a cursor is issued. A sync fetches newest first, so older
//! changes may arrive after a cursor; the reader gets them with its next page.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use store::records::{RecordsError, StoredRecord};

use super::cursor::{Cursor, Since};
use crate::whoop::NAME;
use crate::{Caller, ConnectorContext};

const KEY: &str = "event_cursors";
/// The number of stored marks; without a mark a reader continues from its cursor alone.
const KEPT: MarkLimits = MarkLimits { of_one: 64, in_all: 256 };
/// The same in memory, where a mark costs no write.
const OWN: MarkLimits = MarkLimits { of_one: 64, in_all: 1_024 };
/// How long marks that several readers may share are kept apart.
const WAITED_US: i64 = 30 * 86_400_000_000;
/// Changes that are searched at once for late ones, and the maximum of late ones per page.
const LATE_MAX: usize = 5_000;

/// The maximum number of marks, so that a busy reader does not evict the others.
struct MarkLimits {
    of_one: usize,
    in_all: usize,
}

/// The mirror's change number when a cursor was issued, its reader, and where that reader began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    #[serde(default = "Caller::owner", with = "grant")]
    pub(super) caller: Caller,
    pub(super) cursor: String,
    pub(super) seq: i64,
    pub(super) start_us: i64,
    /// The reader's position, if the cursor is a late change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "place")]
    pub(super) position: Option<String>,
    #[serde(default)]
    pub(super) given_us: i64,
}

/// A session ends with its process; only the grant remains.
mod grant {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Caller;

    pub(super) fn serialize<S: Serializer>(caller: &Caller, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(caller.grant())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Caller, D::Error> {
        Ok(Caller::of_grant(&String::deserialize(from)?))
    }
}

impl Mark {
    fn is_for(&self, caller: &Caller, cursor: &str) -> bool {
        self.caller == *caller && self.cursor == cursor
    }

    /// A mark with which no reader of these two misses a change. A change that only one of them has
    /// seen is delivered to it again.
    fn joined(self, other: &Mark) -> Mark {
        let position = self.position.as_deref().zip(other.position.as_deref());
        let position = position.map(|(one, other)| {
            let is_first = Cursor::read(one).is_some_and(|one| {
                Cursor::read(other).is_none_or(|other| one.position() <= other.position())
            });
            if is_first { one } else { other }.to_owned()
        });
        Mark {
            seq: self.seq.min(other.seq),
            start_us: self.start_us.min(other.start_us),
            position,
            ..self
        }
    }
}

/// The marks of this process. Another process may issue the same cursor at another time; its mark
/// does not apply to our readers.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    fn find(&self, caller: &Caller, cursor: &str) -> Option<Mark> {
        let marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        joined(marks.iter().filter(|mark| mark.is_for(caller, cursor)))
    }

    fn put(&self, mark: Mark) {
        put(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), mark, &OWN);
    }
}

fn joined<'a>(marks: impl Iterator<Item = &'a Mark>) -> Option<Mark> {
    marks.fold(None, |all, mark| {
        Some(all.map_or_else(|| mark.clone(), |all: Mark| all.joined(mark)))
    })
}

/// The newest is last. A single reader uses its last mark; if there may be several, the others may
/// still use an earlier one.
fn put(marks: &mut Vec<Mark>, mark: Mark, most: &MarkLimits) {
    let now = (mark.seq, mark.start_us, &mark.position);
    marks.retain(|known| {
        let may_be_anothers = !mark.caller.is_alone() && mark.given_us - known.given_us < WAITED_US;
        let says_the_same = (known.seq, known.start_us, &known.position) == now;
        !known.is_for(&mark.caller, &mark.cursor) || (may_be_anothers && !says_the_same)
    });
    let of_one = marks.iter().filter(|known| known.caller == mark.caller).count();
    if of_one >= most.of_one
        && let Some(oldest) = marks.iter().position(|known| known.caller == mark.caller)
    {
        marks.remove(oldest);
    }
    marks.push(mark);
    let surplus = marks.len().saturating_sub(most.in_all);
    marks.drain(..surplus);
}

/// The changes that the reader of a cursor has seen. An unknown reader gets the mark of a reader
/// with the same grant from before this process, or else of any reader at this cursor.
pub(super) fn mark(
    ctx: &ConnectorContext,
    caller: &Caller,
    text: &str,
    since: &Since,
) -> Option<Mark> {
    if matches!(since, Since::Instant(_)) {
        return None;
    }
    let own = ctx.state::<Marks>().find(caller, text);
    if own.is_some() && caller.is_alone() {
        return own;
    }
    let kept = marks(ctx);
    let there = || kept.iter().filter(|mark| mark.cursor == text);
    let same_grant = there().filter(|mark| mark.caller.grant() == caller.grant());
    joined(own.iter().chain(same_grant)).or_else(|| joined(there()))
}

/// Changes stored since the mark that sort before the reader's position, in the order they were
/// stored.
pub(super) fn rows(
    ctx: &ConnectorContext,
    kinds: &[&str],
    mark: Option<&Mark>,
    position: &Since,
    until_us: i64,
) -> Result<Vec<StoredRecord>, RecordsError> {
    let (Some(mark), Since::Cursor(position)) = (mark, position) else { return Ok(Vec::new()) };
    let (mut late, mut after_seq) = (Vec::new(), mark.seq);
    // There may be many changes in order before the late ones.
    while late.len() <= LATE_MAX {
        let mut rows = ctx.records.changes_since(NAME, kinds, after_seq, LATE_MAX)?;
        let is_last = rows.len() < LATE_MAX;
        after_seq = rows.last().map_or(after_seq, |row| row.seq);
        rows.retain(|row| {
            position.is_past(row) && row.updated_us > mark.start_us && row.updated_us < until_us
        });
        late.append(&mut rows);
        if is_last {
            break;
        }
    }
    Ok(late)
}

/// Other readers write at the same time, so it is one atomic update.
pub(super) fn remember(ctx: &ConnectorContext, mark: Mark) {
    let kept = Mark { caller: Caller::of_grant(mark.caller.grant()), ..mark.clone() };
    ctx.state::<Marks>().put(mark);
    let noted = ctx.records.state_change(NAME, KEY, |known| {
        let mut all = read(known.as_deref().unwrap_or_default());
        put(&mut all, kept, &KEPT);
        serde_json::to_string(&all).unwrap_or_default()
    });
    if let Err(error) = noted {
        tracing::warn!(%error, "could not remember a cursor of `events`");
    }
}

fn marks(ctx: &ConnectorContext) -> Vec<Mark> {
    read(&ctx.records.state_get(NAME, KEY).ok().flatten().unwrap_or_default())
}

fn read(text: &str) -> Vec<Mark> {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn given(caller: &Caller, cursor: &str, seq: i64) -> Mark {
        let (caller, cursor) = (caller.clone(), cursor.to_owned());
        Mark { caller, cursor, seq, start_us: 0, position: None, given_us: 0 }
    }

    fn seqs(marks: &Marks, caller: &Caller, cursor: &str) -> Option<i64> {
        marks.find(caller, cursor).map(|mark| mark.seq)
    }

    #[test]
    fn cursors_resume_at_the_position_of_the_slowest_reader() {
        let (one, several) = (Caller::in_session("alice", 1), Caller::of_grant("alice"));
        let marks = Marks::default();
        for seq in [10, 20] {
            marks.put(given(&one, "c", seq));
            marks.put(given(&several, "c", seq));
        }
        assert_eq!(seqs(&marks, &one, "c"), Some(20));
        assert_eq!(seqs(&marks, &several, "c"), Some(10));
        let much_later = Mark { given_us: WAITED_US, ..given(&several, "c", 30) };
        marks.put(much_later);
        assert_eq!(seqs(&marks, &several, "c"), Some(30), "the wait for other readers is bounded");
    }

    #[test]
    fn a_busy_reader_does_not_push_out_the_others() {
        let (quiet, busy) = (Caller::of_grant("alice"), Caller::of_grant("bob"));
        let marks = Marks::default();
        marks.put(given(&quiet, "c", 1));
        for page in 0..10_000 {
            marks.put(given(&busy, &page.to_string(), page));
        }
        assert_eq!(seqs(&marks, &quiet, "c"), Some(1));
        assert_eq!(seqs(&marks, &busy, "9999"), Some(9_999));
        assert_eq!(marks.0.lock().unwrap().len(), 1 + OWN.of_one);
    }

    #[test]
    fn joined_spans_start_at_the_earlier_start() {
        let text = |day: u32, id: &str| {
            use base64::Engine as _;
            let plain = format!("2026-04-{day:02}T00:00:00.000Z|sleeps|{id}");
            base64::engine::general_purpose::URL_SAFE.encode(plain)
        };
        let at = |position: Option<String>, seq: i64, start_us: i64| {
            let mark = given(&Caller::owner(), "c", seq);
            Mark { start_us, position, ..mark }
        };
        let (early, late) = (at(Some(text(9, "a")), 5, 7), at(Some(text(9, "b")), 4, 8));
        for both in [early.clone().joined(&late), late.clone().joined(&early)] {
            assert_eq!((both.seq, both.start_us, both.position), (4, 7, Some(text(9, "a"))));
        }
        assert_eq!(early.joined(&at(None, 6, 6)).position, None, "the cursor itself is before any");
    }

    #[test]
    fn cursors_without_a_reader_name_are_still_read() {
        let old = read(r#"[{"cursor":"c","seq":3,"start_us":1}]"#);
        assert_eq!(joined(old.iter()).map(|mark| mark.seq), Some(3));
        let kept = serde_json::to_string(&given(&Caller::in_session("g_1", 5), "c", 3));
        let back: Mark = serde_json::from_str(&kept.unwrap()).unwrap();
        assert_eq!(back.caller, Caller::of_grant("g_1"));
    }
}
