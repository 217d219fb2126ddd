//! The changes of the mirror, by the time of the change at WHOOP. The cursor between pages breaks
//! ties; older changes that a sync stores later come with the next page.

mod cursor;
mod late_changes;

use std::future::{Ready, ready};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use store::records::{ChangeCursor, RecordsError, StoredRecord};

use super::kind::Kind;
use super::problem::WhoopProblem;
use super::shape::INVALID;
use super::{NAME, ToolError, here, truncate};
use crate::sync::EventsRequest;
use crate::tool::{Json, Success};
use crate::{Caller, ConnectorContext, ToolCall, when};
use cursor::{Cursor, Since};
use late_changes::Mark;

const ENDPOINT: &str = "get_whoop_events";
pub(super) const LIMIT_DEFAULT: i64 = 500;
const LIMIT_MAX: i64 = 5000;

/// A validated request.
struct EventsQuery<'a> {
    caller: &'a Caller,
    since_text: &'a str,
    since: Since,
    until_text: String,
    until_us: i64,
    limit: usize,
    /// Did the caller give a limit? Then the page is not cut to an agent's size.
    is_explicit: bool,
    kinds: Vec<&'static str>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct EventsArgs {
    /// ISO-8601, or the `next_cursor` of the answer before.
    since: String,
    /// Exclusive; now unless said.
    #[serde(default)]
    until: Option<String>,
    /// Some of cycles, recoveries, sleeps, workouts, body_measurement, profile.
    #[serde(default)]
    resources: Option<Vec<String>>,
    /// 1 to 5000.
    #[serde(default)]
    limit: EventLimit,
}

/// A limit, and whether the caller gave it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventLimit(Option<i64>);

impl<'de> Deserialize<'de> for EventLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventLimit, D::Error> {
        i64::deserialize(deserializer).map(|limit| EventLimit(Some(limit)))
    }
}

impl JsonSchema for EventLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EventLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "default": LIMIT_DEFAULT })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Events {
    status: Success,
    count: usize,
    since: String,
    until: String,
    events: Vec<Event>,
    next_cursor: Option<String>,
    #[serde(flatten)]
    cut: Option<TruncatedEvents>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Events {
    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Event {
    resource: String,
    id: String,
    updated_at: String,
    record: Map<String, Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TruncatedEvents {
    truncated: bool,
    hint: &'static str,
}

pub(super) fn events(
    call: ToolCall<'_>,
    args: EventsArgs,
) -> Ready<Result<Json<Events>, ToolError>> {
    let EventsArgs { since, until, resources, limit: EventLimit(limit) } = args;
    let query = EventsRequest {
        since: &since,
        until: until.as_deref(),
        resources: resources.as_deref(),
        limit: limit.unwrap_or(LIMIT_DEFAULT),
    };
    let found = find(call.ctx, call.caller, &query, limit.is_some());
    ready(found.map(Json).map_err(ToolError::from))
}

/// Validates the request, then reads.
pub(super) fn find(
    ctx: &ConnectorContext,
    caller: &Caller,
    query: &EventsRequest<'_>,
    is_explicit: bool,
) -> Result<Events, WhoopProblem> {
    let query = checked(ctx, caller, query, is_explicit)?;
    let found = ctx.records.newest_seq().and_then(|seq| look(ctx, &query, seq));
    found.map_err(|error| WhoopProblem::cache(ENDPOINT, &error))
}

/// Checks in the documented order.
fn checked<'a>(
    ctx: &ConnectorContext,
    caller: &'a Caller,
    query: &EventsRequest<'a>,
    is_explicit: bool,
) -> Result<EventsQuery<'a>, WhoopProblem> {
    let EventsRequest { since: since_text, until, resources, limit } = *query;
    let invalid = |message: String| WhoopProblem::invalid(ENDPOINT, message);
    let here = here(ctx);
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
    Ok(EventsQuery { caller, since_text, since, until_text, until_us, limit, is_explicit, kinds })
}

fn kinds(resources: Option<&[String]>) -> Result<Vec<&'static str>, WhoopProblem> {
    let Some(names) = resources else {
        return Ok(Kind::ALL.iter().map(|kind| kind.name()).collect());
    };
    if names.is_empty() {
        return Err(WhoopProblem::invalid(ENDPOINT, "`resources` is empty; leave it out for all"));
    }
    let mut kinds = Vec::new();
    for name in names {
        let kind = Kind::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            WhoopProblem::invalid(
                ENDPOINT,
                format!("unknown resource; there are {}", known.join(", ")),
            )
        })?;
        if !kinds.contains(&kind.name()) {
            kinds.push(kind.name());
        }
    }
    Ok(kinds)
}

/// Reads the mirror at its change number `seq`. A change that is written during the read comes with
/// the next page; otherwise it would be delivered twice.
fn look(ctx: &ConnectorContext, query: &EventsQuery<'_>, seq: i64) -> Result<Events, RecordsError> {
    let mark = late_changes::mark(ctx, query.caller, query.since_text, &query.since);
    let position = position(query, mark.as_ref());
    let mut rows = late_changes::rows(ctx, &query.kinds, mark.as_ref(), &position, query.until_us)?;
    let came = rows.len();
    rows.retain(|row| row.seq <= seq);
    let late = rows.len();
    let wanted = (query.limit + 1).saturating_sub(late);
    let changes =
        ctx.records.changes(NAME, &query.kinds, position.after(), query.until_us, wanted)?;
    let came = came + changes.len();
    rows.extend(changes.into_iter().filter(|row| row.seq <= seq));
    let is_waiting = rows.len() < came;
    let shown = query.limit.min(if query.is_explicit {
        usize::MAX
    } else {
        truncate::fitting_sizes(rows.iter().map(event_bytes)).max(1)
    });
    let is_cut = rows.len() > shown && shown < query.limit;
    let has_more = rows.len() > shown || is_waiting;
    rows.truncate(shown);
    // If only late changes truncate, the position stays and the next page continues after the last.
    let late_seq = rows.last().filter(|_| rows.len() <= late).map(|row| row.seq);
    rows.sort_unstable_by(|one, other| Cursor::order(one).cmp(&Cursor::order(other)));
    let next = rows.last().map(|last| Mark {
        caller: query.caller.clone(),
        given_us: ctx.clock.now().wall_us,
        cursor: Cursor::of(last).text(),
        seq: late_seq.unwrap_or(seq),
        start_us: mark.as_ref().map_or(query.since.instant_us(), |mark| mark.start_us),
        position: late_seq.map(|_| position_text(query, mark.as_ref()).to_owned()),
    });
    let next_cursor = next.as_ref().filter(|_| has_more).map(|mark| mark.cursor.clone());
    if let Some(mark) = next {
        late_changes::remember(ctx, mark);
    }
    Ok(answer(query, &rows, next_cursor, is_cut))
}

/// The caller's position: its cursor, unless that is a late change.
fn position(query: &EventsQuery<'_>, mark: Option<&Mark>) -> Since {
    let moved = mark.and_then(|mark| Cursor::read(mark.position.as_deref()?));
    moved.map_or_else(|| query.since.clone(), Since::Cursor)
}

fn position_text<'a>(query: &EventsQuery<'a>, mark: Option<&'a Mark>) -> &'a str {
    mark.and_then(|mark| mark.position.as_deref()).unwrap_or(query.since_text)
}

/// The bytes of an event in the response, with its keys.
fn event_bytes(row: &StoredRecord) -> usize {
    const KEYS_BYTES: usize = 64;
    KEYS_BYTES + row.kind.len() + row.id.len() + row.updated.len() + row.flat.len()
}

fn answer(
    query: &EventsQuery<'_>,
    rows: &[StoredRecord],
    next: Option<String>,
    is_cut: bool,
) -> Events {
    let mut warnings = Vec::new();
    let mut events = Vec::new();
    for row in rows {
        let kind = Kind::parse(&row.kind).unwrap_or(Kind::Cycles);
        match truncate::record(kind, &row.flat) {
            Ok(record) if row.state.as_deref() != Some(INVALID) => events.push(Event {
                resource: row.kind.clone(),
                id: row.id.clone(),
                updated_at: row.updated.clone(),
                record,
            }),
            Ok(_) => {}
            Err(warning) => warnings.push(warning),
        }
    }
    let hint = "pass next_cursor as since for the rest, or a limit to get that many at once";
    Events {
        status: Success,
        count: events.len(),
        since: query.since_text.to_owned(),
        until: query.until_text.clone(),
        events,
        next_cursor: next,
        cut: is_cut.then_some(TruncatedEvents { truncated: true, hint }),
        warnings,
    }
}

impl Since {
    fn after(&self) -> ChangeCursor<'_> {
        match self {
            Since::Instant(instant_us) => ChangeCursor::instant(*instant_us),
            Since::Cursor(cursor) => {
                ChangeCursor { updated_us: cursor.updated_us, kind: &cursor.kind, id: &cursor.id }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::whoop::mirror_writer::store_page;
    use crate::whoop::tests::fixture;
    use serde_json::json;

    #[tokio::test]
    async fn rows_written_during_a_read_appear_once() {
        let fixture = fixture(1);
        let write = |n: u32| {
            let updated = format!("2026-04-10T00:0{n}:00.000Z");
            let workout = json!({"id": format!("w{n}"), "updated_at": updated}).to_string();
            store_page(&fixture.ctx, Kind::Workouts, &[workout]).unwrap();
        };
        let page = |since: &str, seq: i64| {
            let query = EventsRequest { since, until: None, resources: None, limit: 10 };
            let caller = Caller::in_session("alice", 1);
            let query = checked(&fixture.ctx, &caller, &query, true).unwrap();
            let page = look(&fixture.ctx, &query, seq).unwrap();
            let ids: Vec<_> = page.events.iter().map(|event| event.id.clone()).collect();
            (ids.join(" "), page.next_cursor.unwrap_or_else(|| "none".to_owned()))
        };
        let newest = || fixture.ctx.records.newest_seq().unwrap();
        [1, 3].into_iter().for_each(write);
        let seq = newest();
        [2, 4].into_iter().for_each(write);
        let (first, next) = page("2026-04-01", seq);
        assert_eq!(first, "w1 w3");
        let (second, end) = page(&next, newest());
        assert_eq!((second.as_str(), end.as_str()), ("w2 w4", "none"));
        // A sync continues while late changes are delivered.
        let seq = newest();
        write(0);
        let after_w4 =
            Cursor::of(&fixture.ctx.records.one(NAME, "workouts", "w4").unwrap().unwrap());
        assert_eq!(page(&after_w4.text(), seq).0, "");
        assert_eq!(page(&after_w4.text(), newest()).0, "w0");
    }

    #[tokio::test]
    async fn a_late_change_is_found_behind_any_number_of_newer_ones() {
        let fixture = fixture(1);
        let workout =
            |id: &str, updated: &str| json!({"id": id, "updated_at": updated}).to_string();
        let write =
            |texts: &[String]| drop(store_page(&fixture.ctx, Kind::Workouts, texts).unwrap());
        let caller = Caller::in_session("alice", 1);
        let page = |since: &str| {
            let query = EventsRequest { since, until: None, resources: None, limit: 1 };
            find(&fixture.ctx, &caller, &query, true).unwrap()
        };
        let ids = |page: &Events| page.events.first().map_or("none", |one| &one.id).to_owned();
        write(&["a", "c"].map(|id| workout(id, "2026-04-10T00:00:00.000Z")));
        let first = page("2026-04-01");
        let newer: Vec<String> =
            (0..5_100).map(|n| workout(&format!("n{n}"), "2026-04-11T00:00:00.000Z")).collect();
        write(&newer);
        write(&[workout("late", "2026-04-09T00:00:00.000Z")]);
        let second = page(first.next_cursor.as_deref().unwrap());
        assert_eq!((ids(&first).as_str(), ids(&second).as_str()), ("a", "late"));
        let third = page(second.next_cursor.as_deref().unwrap());
        assert_eq!(ids(&third), "c", "the place stays while late ones come");
    }
}
