//! Brings the mirror of a service up to date. What is common to all services is here: one sync at a
//! time, all resources side by side, a row of history for each, and the result that tools and
//! commands show. How a resource is fetched is the service's own.

mod keeper;
mod report;
mod snapshot;
mod together;
mod turn;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use store::records::{RecordsError, SyncTurn};

use crate::Desk;

pub use keeper::{Keeper, Page};
pub use snapshot::{CURRENT, Snapshot, is_same};
pub use together::{all, as_they_come, some_at_a_time};
use turn::Course;
pub use turn::Turn;

/// What of a service is mirrored.
pub struct Mirror {
    pub service: &'static str,
    /// In the order of their rows of history.
    pub resources: &'static [Resource],
    /// What changed in it.
    pub events: fn(&Desk, &EventsAsked<'_>) -> Result<Value, Fault>,
}

/// A question about what changed.
#[derive(Clone, Copy, Debug)]
pub struct EventsAsked<'a> {
    /// A time, or the cursor of an earlier answer.
    pub since: &'a str,
    pub until: Option<&'a str>,
    pub resources: Option<&'a [String]>,
    pub limit: i64,
}

/// One list or snapshot of a service.
pub struct Resource {
    pub name: &'static str,
    /// Where a run begins, in the words that the history keeps; nothing for what has no time.
    pub since: Option<Since>,
    pub fetch: Fetch,
}

pub type Since = fn(&Desk, &Asked, now_us: i64) -> Result<Option<String>, RecordsError>;

/// Fetches a resource and keeps it page by page. Answers the newest stamp of change it has now.
pub type Fetch = for<'a> fn(&'a Turn<'a>) -> Fetching<'a>;
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, Fault>> + Send + 'a>>;

/// What a sync is asked to do. By default it fetches what is new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Everything from the beginning; stronger than `since`.
    pub full: bool,
    pub since: Option<String>,
    /// Some of the resources instead of all.
    pub resources: Option<Vec<String>>,
}

/// Why one resource failed: a code that programs know, and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub words: String,
}

/// How far a sync has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// Another sync of the service is under way; this one starts when that one has ended.
    Waits,
    /// So many records came so far; `share` of the resource's time is done, from 0 to 1.
    Page {
        resource: &'a str,
        records: u64,
        share: f64,
    },
    Done {
        resource: &'a str,
    },
}

/// Hears of every step.
pub type Told<'a> = &'a (dyn Fn(Step<'_>) + Sync);

/// Why a sync could not even start.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error("another sync of `{service}` has been running for {} minutes\nhint: `tollgate status` shows what runs", TURN_WAIT_S_MAX / 60)]
    Busy { service: &'static str },
}

/// A sync of ten years takes some seven minutes at WHOOP's pace.
const TURN_WAIT_S_MAX: u64 = 15 * 60;
const TURN_LOOK_EVERY: Duration = Duration::from_millis(100);

/// The mirror of a service, if it keeps one.
pub fn mirror(service: &str) -> Option<&'static Mirror> {
    ALL.iter().copied().find(|mirror| mirror.service == service)
}

/// Every mirror. Adding one is a line here.
pub const ALL: &[&Mirror] = &[
    &crate::whoop::sync::MIRROR,
    &crate::spotify::mirror::MIRROR,
    &crate::youtube::mirror::MIRROR,
    &crate::steam::mirror::MIRROR,
    &crate::reddit::mirror::MIRROR,
    &crate::bilibili::mirror::MIRROR,
];

/// Runs a sync to its end and answers its result: `status`, times, and each resource's counts.
/// A resource that fails does not stop the others.
pub async fn run(
    desk: &Desk,
    mirror: &Mirror,
    asked: &Asked,
    told: Told<'_>,
) -> Result<Value, SyncError> {
    let chosen = match chosen(mirror, asked) {
        Ok(chosen) => chosen,
        Err(unknown) => return Ok(report::refused(desk.clock.now().wall_us, &unknown)),
    };
    let _turn = wait_for_turn(desk, mirror.service, told).await?;
    crate::shelves::prepare(&desk.records)?;
    let started_us = desk.clock.now().wall_us;
    // The rows are made before anything is fetched, so that they stand in the order asked for.
    let keeper = Keeper::start(&desk.records, mirror.service);
    let mut turns = Vec::new();
    for resource in chosen {
        let since = match resource.since {
            Some(since) => since(desk, asked, started_us)?,
            None => None,
        };
        let course = Course { asked, since, started_us };
        turns.push(Turn::begin(desk, mirror.service, resource, course, &keeper, told)?);
    }
    let outcomes = all(turns.iter().map(Turn::run)).await;
    Ok(report::result(started_us, desk.clock.now().wall_us, &turns, &outcomes))
}

/// The resources asked for, in the order asked for; or the names that are none.
fn chosen(mirror: &Mirror, asked: &Asked) -> Result<Vec<&'static Resource>, Vec<String>> {
    let Some(names) = &asked.resources else { return Ok(mirror.resources.iter().collect()) };
    let find = |name: &String| mirror.resources.iter().find(|r| r.name == name);
    let unknown: Vec<String> = names.iter().filter(|name| find(name).is_none()).cloned().collect();
    if unknown.is_empty() { Ok(names.iter().filter_map(find).collect()) } else { Err(unknown) }
}

async fn wait_for_turn(
    desk: &Desk,
    service: &'static str,
    told: Told<'_>,
) -> Result<SyncTurn, SyncError> {
    let tries = Duration::from_secs(TURN_WAIT_S_MAX).as_millis() / TURN_LOOK_EVERY.as_millis();
    for attempt in 0..tries {
        if let Some(turn) = desk.records.sync_turn(service)? {
            return Ok(turn);
        }
        if attempt == 0 {
            told(Step::Waits);
        }
        tokio::time::sleep(TURN_LOOK_EVERY).await;
    }
    Err(SyncError::Busy { service })
}

impl From<RecordsError> for Fault {
    fn from(error: RecordsError) -> Fault {
        let words = error.to_string();
        let words = words.lines().next().unwrap_or_default();
        Fault { code: "CACHE_ERROR", words: format!("the local mirror failed: {words}") }
    }
}

impl Fault {
    /// `CODE: words`, as results and the history show it.
    pub fn line(&self) -> String {
        format!("{}: {}", self.code, self.words)
    }
}
