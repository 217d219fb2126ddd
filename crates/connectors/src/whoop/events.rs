//! What changed in the mirror, by the time of the change at WHOOP. Pages are joined by a cursor that
//! breaks ties, and what a sync brings in between, older than the cursor, comes with the next page.

mod cursor;
mod late;

use serde_json::{Map, Value, json};
use store::records::{After, RecordsError, Row};

use super::kind::Kind;
use super::problem::Problem;
use super::shape::INVALID;
use super::{NAME, Outcome, fit, here};
use crate::coerce::Arguments;
use crate::sync::EventsAsked;
use crate::{Ask, Desk, Reader, when};
use cursor::{Cursor, Since};
use late::Mark;
pub(crate) use late::Marks;

const ENDPOINT: &str = "get_whoop_events";
pub(super) const LIMIT_DEFAULT: i64 = 500;
const LIMIT_MAX: i64 = 5000;

/// A checked question.
struct Asked<'a> {
    reader: &'a Reader,
    since_text: &'a str,
    since: Since,
    until_text: String,
    until_us: i64,
    limit: usize,
    /// Did the caller name the limit? Then it is not cut to what fits an agent.
    is_explicit: bool,
    kinds: Vec<&'static str>,
}

pub(super) fn events(ask: &Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let since = arguments.required_text("since")?;
    let until = arguments.optional_text("until")?;
    let resources = arguments.optional_names("resources")?;
    let limit = arguments.int_or("limit", LIMIT_DEFAULT)?;
    let is_explicit = ask.arguments.contains_key("limit");
    let asked = EventsAsked { since, until, resources: resources.as_deref(), limit };
    Ok(find(ask.desk, ask.reader, &asked, is_explicit)?)
}

/// Checks, then looks.
pub(super) fn find(
    desk: &Desk,
    reader: &Reader,
    asked: &EventsAsked<'_>,
    is_explicit: bool,
) -> Result<Value, Problem> {
    let asked = checked(desk, reader, asked, is_explicit)?;
    let found = desk.records.newest_seq().and_then(|seq| look(desk, &asked, seq));
    found.map_err(|error| Problem::cache(ENDPOINT, &error))
}

/// Checks in the documented order.
fn checked<'a>(
    desk: &Desk,
    reader: &'a Reader,
    asked: &EventsAsked<'a>,
    is_explicit: bool,
) -> Result<Asked<'a>, Problem> {
    let EventsAsked { since: since_text, until, resources, limit } = *asked;
    let invalid = |words: String| Problem::invalid(ENDPOINT, words);
    let here = here(desk);
    let since = Since::read(since_text, here).ok_or_else(|| {
        invalid(format!("`since` is neither a cursor nor a time: {}", when::Unreadable))
    })?;
    let (until_text, until_us) = match until.filter(|text| !text.is_empty()) {
        None => (when::utc_micros(here.now_us), here.now_us),
        Some(text) => {
            let until_us = when::end_us(text, here);
            (text.to_owned(), until_us.map_err(|error| invalid(format!("`until` is {error}")))?)
        }
    };
    if until_us <= since.instant_us() {
        return Err(invalid("`until` must be later than `since`".into()));
    }
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(invalid(format!("`limit` must be between 1 and {LIMIT_MAX}")));
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    let kinds = kinds(resources)?;
    Ok(Asked { reader, since_text, since, until_text, until_us, limit, is_explicit, kinds })
}

fn kinds(resources: Option<&[String]>) -> Result<Vec<&'static str>, Problem> {
    let Some(names) = resources else {
        return Ok(Kind::ALL.iter().map(|kind| kind.name()).collect());
    };
    if names.is_empty() {
        return Err(Problem::invalid(ENDPOINT, "`resources` is empty; leave it out for all"));
    }
    let mut kinds = Vec::new();
    for name in names {
        let kind = Kind::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Problem::invalid(ENDPOINT, format!("unknown resource; there are {}", known.join(", ")))
        })?;
        if !kinds.contains(&kind.name()) {
            kinds.push(kind.name());
        }
    }
    Ok(kinds)
}

/// Looks at what the mirror held at its change number `seq`. What is written while we look waits for
/// the next page, to which it is new: shown now, it would be shown there again.
fn look(desk: &Desk, asked: &Asked<'_>, seq: i64) -> Result<Value, RecordsError> {
    let mark = late::mark(desk, asked.reader, asked.since_text, &asked.since);
    let place = place(asked, mark.as_ref());
    let mut rows = late::rows(desk, &asked.kinds, mark.as_ref(), &place, asked.until_us)?;
    let came = rows.len();
    rows.retain(|row| row.seq <= seq);
    let late = rows.len();
    let wanted = (asked.limit + 1).saturating_sub(late);
    let changes =
        desk.records.changes(NAME, &asked.kinds, place.after(), asked.until_us, wanted)?;
    let came = came + changes.len();
    rows.extend(changes.into_iter().filter(|row| row.seq <= seq));
    let is_waiting = rows.len() < came;
    let shown = asked.limit.min(if asked.is_explicit {
        usize::MAX
    } else {
        fit::fitting_sizes(rows.iter().map(event_bytes)).max(1)
    });
    let is_cut = rows.len() > shown && shown < asked.limit;
    let has_more = rows.len() > shown || is_waiting;
    rows.truncate(shown);
    // Where only late ones fitted, the place stays and the next page goes on behind the last of them.
    let late_seq = rows.last().filter(|_| rows.len() <= late).map(|row| row.seq);
    rows.sort_unstable_by(|one, other| Cursor::order(one).cmp(&Cursor::order(other)));
    let next = rows.last().map(|last| Mark {
        reader: asked.reader.clone(),
        given_us: desk.clock.now().wall_us,
        cursor: Cursor::of(last).text(),
        seq: late_seq.unwrap_or(seq),
        start_us: mark.as_ref().map_or(asked.since.instant_us(), |mark| mark.start_us),
        place: late_seq.map(|_| place_text(asked, mark.as_ref()).to_owned()),
    });
    let next_cursor = next.as_ref().filter(|_| has_more).map(|mark| mark.cursor.clone());
    if let Some(mark) = next {
        late::remember(desk, mark);
    }
    Ok(answer(asked, &rows, next_cursor, is_cut))
}

/// How far the reader has come: to its cursor, unless that is of a change that came late.
fn place(asked: &Asked<'_>, mark: Option<&Mark>) -> Since {
    let moved = mark.and_then(|mark| Cursor::read(mark.place.as_deref()?));
    moved.map_or_else(|| asked.since.clone(), Since::Cursor)
}

fn place_text<'a>(asked: &Asked<'a>, mark: Option<&'a Mark>) -> &'a str {
    mark.and_then(|mark| mark.place.as_deref()).unwrap_or(asked.since_text)
}

/// What an event takes in the answer, its keys included.
fn event_bytes(row: &Row) -> usize {
    const KEYS_BYTES: usize = 64;
    KEYS_BYTES + row.kind.len() + row.id.len() + row.updated.len() + row.flat.len()
}

fn answer(asked: &Asked<'_>, rows: &[Row], next: Option<String>, is_cut: bool) -> Value {
    let mut warnings = Vec::new();
    let mut events = Vec::new();
    for row in rows {
        let kind = Kind::parse(&row.kind).unwrap_or(Kind::Cycles);
        match fit::record(kind, &row.flat) {
            Ok(record) if row.state.as_deref() != Some(INVALID) => events.push(json!({
                "resource": row.kind, "id": row.id, "updated_at": row.updated, "record": record,
            })),
            Ok(_) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    let mut answer = Map::new();
    answer.insert("status".into(), "success".into());
    answer.insert("count".into(), events.len().into());
    answer.insert("since".into(), asked.since_text.into());
    answer.insert("until".into(), asked.until_text.as_str().into());
    answer.insert("events".into(), Value::Array(events));
    answer.insert("next_cursor".into(), next.map_or(Value::Null, Value::from));
    if is_cut {
        answer.insert("truncated".into(), Value::Bool(true));
        let hint = "pass next_cursor as since for the rest, or a limit to get that many at once";
        answer.insert("hint".into(), hint.into());
    }
    if !warnings.is_empty() {
        answer.insert("warnings".into(), json!(warnings));
    }
    Value::Object(answer)
}

impl Since {
    fn after(&self) -> After<'_> {
        match self {
            Since::Instant(instant_us) => After::instant(*instant_us),
            Since::Cursor(cursor) => {
                After { updated_us: cursor.updated_us, kind: &cursor.kind, id: &cursor.id }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use crate::whoop::keep::keep;
    use crate::whoop::tests::stage;

    #[tokio::test]
    async fn what_is_written_while_somebody_looks_comes_once() {
        let stage = stage(1);
        let write = |n: u32| {
            let updated = format!("2026-04-10T00:0{n}:00.000Z");
            let workout = json!({"id": format!("w{n}"), "updated_at": updated}).to_string();
            keep(&stage.desk, Kind::Workouts, &[workout]).unwrap();
        };
        let page = |since: &str, seq: i64| {
            let asked = EventsAsked { since, until: None, resources: None, limit: 10 };
            let reader = Reader::in_conversation("alice", 1);
            let asked = checked(&stage.desk, &reader, &asked, true).unwrap();
            let page = look(&stage.desk, &asked, seq).unwrap();
            let events = page["events"].as_array().unwrap().clone();
            let ids: Vec<_> = events.iter().map(|event| event["id"].to_string()).collect();
            (ids.join(" "), page["next_cursor"].as_str().unwrap_or("none").to_owned())
        };
        let newest = || stage.desk.records.newest_seq().unwrap();
        [1, 3].into_iter().for_each(write);
        let seq = newest();
        [2, 4].into_iter().for_each(write);
        let (first, next) = page("2026-04-01", seq);
        assert_eq!(first, r#""w1" "w3""#);
        let (second, end) = page(&next, newest());
        assert_eq!((second.as_str(), end.as_str()), (r#""w2" "w4""#, "none"));
        // A sync goes on while late ones are shown.
        let seq = newest();
        write(0);
        let after_w4 =
            Cursor::of(&stage.desk.records.one(NAME, "workouts", "w4").unwrap().unwrap());
        assert_eq!(page(&after_w4.text(), seq).0, "");
        assert_eq!(page(&after_w4.text(), newest()).0, r#""w0""#);
    }

    #[tokio::test]
    async fn a_late_change_is_found_behind_any_number_of_newer_ones() {
        let stage = stage(1);
        let workout =
            |id: &str, updated: &str| json!({"id": id, "updated_at": updated}).to_string();
        let write = |texts: &[String]| drop(keep(&stage.desk, Kind::Workouts, texts).unwrap());
        let reader = Reader::in_conversation("alice", 1);
        let page = |since: &str| {
            let asked = EventsAsked { since, until: None, resources: None, limit: 1 };
            find(&stage.desk, &reader, &asked, true).unwrap()
        };
        let ids = |page: &Value| page["events"][0]["id"].as_str().unwrap_or("none").to_owned();
        write(&["a", "c"].map(|id| workout(id, "2026-04-10T00:00:00.000Z")));
        let first = page("2026-04-01");
        let newer: Vec<String> =
            (0..5_100).map(|n| workout(&format!("n{n}"), "2026-04-11T00:00:00.000Z")).collect();
        write(&newer);
        write(&[workout("late", "2026-04-09T00:00:00.000Z")]);
        let second = page(first["next_cursor"].as_str().unwrap());
        assert_eq!((ids(&first).as_str(), ids(&second).as_str()), ("a", "late"));
        let third = page(second["next_cursor"].as_str().unwrap());
        assert_eq!(ids(&third), "c", "the place stays while late ones come");
    }
}
