//! WHOOP's mirror: which lists and snapshots it has, and from when on each is fetched.

mod list;
mod position;
mod reread;
mod segment;

use serde_json::Value;
use store::records::{RecordsError, Window};

use super::SERVICE;
use super::api::{self, Endpoint, Patience};
use super::keep::keep_snapshot;
use super::kind::Kind;
use super::problem::{Code, Problem};
use crate::sync::{self, Asked, EventsAsked, Fault, Fetching, Mirror, Resource, Told, Turn};
use crate::when::{self, Here, utc_millis};
use crate::{Desk, Reader};

pub const MIRROR: Mirror = Mirror {
    service: "whoop",
    resources: &[
        Resource { name: "cycles", since: Some(since_cycles), fetch: cycles },
        Resource { name: "recoveries", since: Some(since_recoveries), fetch: recoveries },
        Resource { name: "sleeps", since: Some(since_sleeps), fetch: sleeps },
        Resource { name: "workouts", since: Some(since_workouts), fetch: workouts },
        Resource { name: "body_measurement", since: None, fetch: body },
        Resource { name: "profile", since: None, fetch: profile },
    ],
    events,
};

fn events(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    Ok(super::events::find(desk, &Reader::owner(), asked, true)?)
}

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// WHOOP filters by when a record took place, not by when it changed: late scores, late uploads and
/// edits of the last days are only seen by reading those days again.
const OVERLAP_US: i64 = 7 * DAY_US;
/// How far back pending records are looked for by reading a longer window.
const PENDING_BACK_US: i64 = 60 * DAY_US;
/// Known records that fit on one page together with some new ones.
const ONE_PAGE_RECORDS: usize = 20;
/// What a mirror holds at least.
const FRESH_US: i64 = 90 * DAY_US;
/// Before there was anything to record.
const FULL_FROM: &str = "2010-01-01T00:00:00Z";

/// What the tool answers: the result of a sync, or why it could not start.
pub async fn sync_whoop(desk: &Desk, asked: &Asked, told: Told<'_>) -> Value {
    match sync::run(desk, &MIRROR, asked, told).await {
        Ok(result) => result,
        Err(error) => {
            let words = error.to_string().replace("\nhint: ", "; ");
            Problem::new(Code::SyncError, "/sync", words).envelope()
        }
    }
}

/// From when on a list is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The owner named it: everything after it is read again.
    Asked(i64),
    /// What is new, and what was never fetched of the time before it.
    Recent { from_us: i64, again_us: i64 },
}

fn since_cycles(desk: &Desk, asked: &Asked, now_us: i64) -> Result<Option<String>, RecordsError> {
    since(desk, Kind::Cycles, asked, now_us)
}

fn since_recoveries(
    desk: &Desk,
    asked: &Asked,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    since(desk, Kind::Recoveries, asked, now_us)
}

fn since_sleeps(desk: &Desk, asked: &Asked, now_us: i64) -> Result<Option<String>, RecordsError> {
    since(desk, Kind::Sleeps, asked, now_us)
}

fn since_workouts(desk: &Desk, asked: &Asked, now_us: i64) -> Result<Option<String>, RecordsError> {
    since(desk, Kind::Workouts, asked, now_us)
}

/// The lower bound in the words that the history keeps. What cannot be read is kept as it was said.
fn since(
    desk: &Desk,
    kind: Kind,
    asked: &Asked,
    now_us: i64,
) -> Result<Option<String>, RecordsError> {
    if asked.full {
        return Ok(Some(FULL_FROM.to_owned()));
    }
    match (&asked.since, reach(desk, kind, asked, now_us)?) {
        (Some(text), Some(Reach::Asked(from_us))) if when::strict_date(text).is_some() => {
            Ok(Some(utc_millis(from_us)))
        }
        (Some(text), None | Some(Reach::Asked(_))) => Ok(Some(text.clone())),
        (_, Some(Reach::Recent { from_us, .. } | Reach::Asked(from_us))) => {
            Ok(Some(utc_millis(from_us)))
        }
        (None, None) => Ok(None),
    }
}

/// Nothing when the owner's `since` cannot be read.
fn reach(
    desk: &Desk,
    kind: Kind,
    asked: &Asked,
    now_us: i64,
) -> Result<Option<Reach>, RecordsError> {
    if asked.full {
        return Ok(when::instant_us(FULL_FROM).map(Reach::Asked));
    }
    if let Some(text) = asked.since.as_deref().filter(|text| !text.is_empty()) {
        let here = Here { now_us, offset_s: super::offset_s(&desk.records).unwrap_or(0) };
        return Ok(when::start_us(text, here).ok().map(Reach::Asked));
    }
    let newest = desk.records.newest_updated(SERVICE.name, kind.name())?;
    let again_us = newest.map_or(now_us - FRESH_US, |(_, newest_us)| newest_us - OVERLAP_US);
    // A question or a `since` may have brought newer records than the last sync left off at.
    let synced_us = position::synced_us(&desk.records, kind)?;
    let again_us = again_us.min(synced_us.unwrap_or(now_us) - OVERLAP_US).min(now_us - OVERLAP_US);
    let again_us = back_to_pending(desk, kind, again_us, now_us)?;
    let mut from_us = again_us.min(now_us - FRESH_US);
    if let Some(pending) = position::pending(&desk.records, kind)? {
        from_us = from_us.min(pending.from_us);
    }
    let covered = desk.records.coverage(SERVICE.name, kind.name())?;
    // The part of it that is already here is skipped, so what is said is where fetching begins.
    let gaps = position::gaps(from_us, again_us, &covered);
    let first_us = gaps.first().map_or(again_us, |gap| gap.0);
    Ok(Some(Reach::Recent { from_us: whole_second(first_us), again_us }))
}

/// The same or earlier: pending records a little before it are read again with the others, as long as
/// one page still holds all of it.
fn back_to_pending(
    desk: &Desk,
    kind: Kind,
    again_us: i64,
    now_us: i64,
) -> Result<i64, RecordsError> {
    let (service, kind) = (SERVICE.name, kind.name());
    let near_us = now_us - PENDING_BACK_US;
    let rows = desk.records.unsettled(service, kind, reread::SCORED)?;
    let pending = rows.iter().filter(|row| row.state.as_deref() == Some(reread::PENDING));
    // Oldest first, so the first that fits reaches farthest.
    for start_us in
        pending.filter_map(|row| row.start_us).filter(|us| (near_us..again_us).contains(us))
    {
        let window = Window { from_us: Some(start_us), ..Window::default() };
        if desk.records.ids_in(service, kind, &window)?.len() <= ONE_PAGE_RECORDS {
            return Ok(start_us);
        }
    }
    Ok(again_us)
}

/// Instants are sent with milliseconds; a whole second is easier to read and no less exact here.
fn whole_second(us: i64) -> i64 {
    us.div_euclid(SECOND_US) * SECOND_US
}

fn cycles<'a>(turn: &'a Turn<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(turn, Kind::Cycles))
}

fn recoveries<'a>(turn: &'a Turn<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(turn, Kind::Recoveries))
}

fn sleeps<'a>(turn: &'a Turn<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(turn, Kind::Sleeps))
}

fn workouts<'a>(turn: &'a Turn<'a>) -> Fetching<'a> {
    Box::pin(list::fetch(turn, Kind::Workouts))
}

fn body<'a>(turn: &'a Turn<'a>) -> Fetching<'a> {
    Box::pin(snapshot(turn, Kind::BodyMeasurement, Endpoint::Body))
}

fn profile<'a>(turn: &'a Turn<'a>) -> Fetching<'a> {
    Box::pin(snapshot(turn, Kind::Profile, Endpoint::Profile))
}

async fn snapshot(
    turn: &Turn<'_>,
    kind: Kind,
    endpoint: Endpoint<'_>,
) -> Result<Option<String>, Fault> {
    let fetched = api::get(turn.desk, endpoint, &[], Patience::SYNC).await?;
    let changed = keep_snapshot(turn.desk, kind, fetched.text())?;
    turn.page([sync::CURRENT], usize::from(changed), 0);
    Ok(None)
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault { code: problem.code.as_str(), words: problem.words }
    }
}
