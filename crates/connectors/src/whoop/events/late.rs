//! Remembers how far the mirror had been written when a cursor was given out. A sync fetches newest
//! first, so older changes arrive behind a reader's back; the reader gets them with its next page.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use store::records::{RecordsError, Row};

use super::cursor::{Cursor, Since};
use crate::whoop::NAME;
use crate::{Desk, Reader};

const KEY: &str = "event_cursors";
/// Places that are remembered; one who comes back to an older one simply goes on from its cursor.
const KEPT: Most = Most { of_one: 64, in_all: 256 };
/// The same in this process, where a mark costs no writing.
const OWN: Most = Most { of_one: 64, in_all: 1_024 };
/// Readers who may be several are all waited for so long after they were given a place.
const WAITED_US: i64 = 30 * 86_400_000_000;
/// Changes that are looked through at once for late ones, and late ones enough for any page.
const LATE_MAX: usize = 5_000;

/// How many marks there are at the most, so that a busy reader does not push out the others.
struct Most {
    of_one: usize,
    in_all: usize,
}

/// What stood in the mirror when a cursor was given out, to whom, and where that reader began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    #[serde(default = "Reader::owner", with = "grant")]
    pub(super) reader: Reader,
    pub(super) cursor: String,
    pub(super) seq: i64,
    pub(super) start_us: i64,
    /// Where its reader has come to, when the cursor is of a change that came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<String>,
    #[serde(default)]
    pub(super) given_us: i64,
}

/// A conversation ends with its process; what is left of its reader is the grant.
mod grant {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Reader;

    pub(super) fn serialize<S: Serializer>(reader: &Reader, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(reader.grant())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Reader, D::Error> {
        Ok(Reader::of_grant(&String::deserialize(from)?))
    }
}

impl Mark {
    fn is_for(&self, reader: &Reader, cursor: &str) -> bool {
        self.reader == *reader && self.cursor == cursor
    }

    /// A mark from which neither of the readers of these two loses anything. What only one of them
    /// has seen comes to it again.
    fn joined(self, other: &Mark) -> Mark {
        let place = self.place.as_deref().zip(other.place.as_deref());
        let place = place.map(|(one, other)| {
            let is_first = Cursor::read(one).is_some_and(|one| {
                Cursor::read(other).is_none_or(|other| one.place() <= other.place())
            });
            if is_first { one } else { other }.to_owned()
        });
        Mark {
            seq: self.seq.min(other.seq),
            start_us: self.start_us.min(other.start_us),
            place,
            ..self
        }
    }
}

/// The marks of this process. Another one may come to the same cursor at another time, and its mark
/// says nothing to our readers.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Vec<Mark>>);

impl Marks {
    fn find(&self, reader: &Reader, cursor: &str) -> Option<Mark> {
        let marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        joined(marks.iter().filter(|mark| mark.is_for(reader, cursor)))
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

/// The newest stands last. One reader stands where it was last; where there may be several, the others
/// may still stand where the cursor was given out before.
fn put(marks: &mut Vec<Mark>, mark: Mark, most: &Most) {
    let now = (mark.seq, mark.start_us, &mark.place);
    marks.retain(|known| {
        let may_be_anothers = !mark.reader.is_alone() && mark.given_us - known.given_us < WAITED_US;
        let says_the_same = (known.seq, known.start_us, &known.place) == now;
        !known.is_for(&mark.reader, &mark.cursor) || (may_be_anothers && !says_the_same)
    });
    let of_one = marks.iter().filter(|known| known.reader == mark.reader).count();
    if of_one >= most.of_one
        && let Some(oldest) = marks.iter().position(|known| known.reader == mark.reader)
    {
        marks.remove(oldest);
    }
    marks.push(mark);
    let surplus = marks.len().saturating_sub(most.in_all);
    marks.drain(..surplus);
}

/// What the reader of a cursor has seen. One that is not known here is taken for whoever stood there
/// with the same grant before this process began, or else for anybody who did.
pub(super) fn mark(desk: &Desk, reader: &Reader, text: &str, since: &Since) -> Option<Mark> {
    if matches!(since, Since::Instant(_)) {
        return None;
    }
    let own = desk.marks.find(reader, text);
    if own.is_some() && reader.is_alone() {
        return own;
    }
    let kept = marks(desk);
    let there = || kept.iter().filter(|mark| mark.cursor == text);
    let same_grant = there().filter(|mark| mark.reader.grant() == reader.grant());
    joined(own.iter().chain(same_grant)).or_else(|| joined(there()))
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
pub(super) fn remember(desk: &Desk, mark: Mark) {
    let kept = Mark { reader: Reader::of_grant(mark.reader.grant()), ..mark.clone() };
    desk.marks.put(mark);
    let noted = desk.records.state_change(NAME, KEY, |known| {
        let mut all = read(known.as_deref().unwrap_or_default());
        put(&mut all, kept, &KEPT);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn given(reader: &Reader, cursor: &str, seq: i64) -> Mark {
        let (reader, cursor) = (reader.clone(), cursor.to_owned());
        Mark { reader, cursor, seq, start_us: 0, place: None, given_us: 0 }
    }

    fn seqs(marks: &Marks, reader: &Reader, cursor: &str) -> Option<i64> {
        marks.find(reader, cursor).map(|mark| mark.seq)
    }

    #[test]
    fn one_reader_stands_where_it_was_last_and_several_where_the_first_was() {
        let (one, several) = (Reader::in_conversation("alice", 1), Reader::of_grant("alice"));
        let marks = Marks::default();
        for seq in [10, 20] {
            marks.put(given(&one, "c", seq));
            marks.put(given(&several, "c", seq));
        }
        assert_eq!(seqs(&marks, &one, "c"), Some(20));
        assert_eq!(seqs(&marks, &several, "c"), Some(10));
        let much_later = Mark { given_us: WAITED_US, ..given(&several, "c", 30) };
        marks.put(much_later);
        assert_eq!(seqs(&marks, &several, "c"), Some(30), "nobody is waited for without end");
    }

    #[test]
    fn a_busy_reader_does_not_push_out_the_others() {
        let (quiet, busy) = (Reader::of_grant("alice"), Reader::of_grant("bob"));
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
    fn what_is_joined_starts_where_the_first_of_both_does() {
        let text = |day: u32, id: &str| {
            use base64::Engine as _;
            let plain = format!("2026-04-{day:02}T00:00:00.000Z|sleeps|{id}");
            base64::engine::general_purpose::URL_SAFE.encode(plain)
        };
        let at = |place: Option<String>, seq: i64, start_us: i64| {
            let mark = given(&Reader::owner(), "c", seq);
            Mark { start_us, place, ..mark }
        };
        let (early, late) = (at(Some(text(9, "a")), 5, 7), at(Some(text(9, "b")), 4, 8));
        for both in [early.clone().joined(&late), late.clone().joined(&early)] {
            assert_eq!((both.seq, both.start_us, both.place), (4, 7, Some(text(9, "a"))));
        }
        assert_eq!(early.joined(&at(None, 6, 6)).place, None, "the cursor itself is before any");
    }

    #[test]
    fn marks_of_before_readers_were_told_apart_are_still_read() {
        let old = read(r#"[{"cursor":"c","seq":3,"start_us":1}]"#);
        assert_eq!(joined(old.iter()).map(|mark| mark.seq), Some(3));
        let kept = serde_json::to_string(&given(&Reader::in_conversation("g_1", 5), "c", 3));
        let back: Mark = serde_json::from_str(&kept.unwrap()).unwrap();
        assert_eq!(back.reader, Reader::of_grant("g_1"));
    }
}
