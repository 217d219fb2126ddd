//! The mirror of a personal service: lists of items with a time. A list is data; paging, storing,
//! detecting removals and reporting changes are the same for all of them.

mod parts;

use std::collections::HashSet;
use std::future::Future;

use serde_json::{Map, Value, json};
use store::records::{ARCHIVED, Derived, Incoming, RecordsError, Window};

use super::problem::Problem;
use crate::ConnectorContext;
use crate::sync::{ResourceError, SyncJob};
use crate::when;

pub(crate) use parts::{Whole, forget_parts, id_of, is_same, keep_parts, note_version};

/// The maximum number of pages of one walk.
const PAGES_MAX: usize = 10_000;

/// A mirrored list.
pub(crate) struct List {
    /// Its kind in the mirror, which is also the name of the resource.
    pub(crate) kind: &'static str,
    /// The id of an entry.
    pub(crate) id: fn(&Value) -> Option<String>,
    /// Pointer to the time of an entry.
    pub(crate) at: &'static str,
    /// The source of the time of a change.
    pub(crate) stamp: Stamp,
    /// Pointer to the parent of an entry, if it has one.
    pub(crate) parent: Option<&'static str>,
    /// The derived columns.
    pub(crate) flat: fn(&Value) -> Map<String, Value>,
    pub(crate) forgets: Forgets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The entry's own time; entries without one are left out.
    FromItem,
    /// The time of the sync: the service has no time of change.
    FirstSeen,
}

/// When an entry that was removed upstream is deleted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgets {
    /// History is kept.
    Never,
    /// After a complete walk without it.
    Missing,
    /// The service shows only the newest: an entry missing from a list shorter than this was
    /// removed, one missing from a longer list may be beyond its end.
    ShorterThan(usize),
}

/// Marks an entry that came from an archive.
pub(crate) const FROM_ARCHIVE: &str = "from_archive";
/// Prefix of ids for items that only an archive has.
pub(crate) const KEPT_PARENT: &str = "takeout:";
/// How often a list without a total is walked to its end, to detect removals.
const WHOLE_EVERY_US: i64 = 24 * 3_600 * 1_000_000;

/// One page of a list.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    pub(crate) next: Option<String>,
    /// The total, if the service sends it.
    pub(crate) total: Option<u64>,
}

/// Walks a list to its end, or until a page shows that nothing is new or removed.
pub(crate) async fn walk<F, P>(
    job: &SyncJob<'_>,
    list: &List,
    page: F,
) -> Result<Option<String>, ResourceError>
where
    F: Fn(Option<String>) -> P + Send,
    P: Future<Output = Result<Page, Problem>> + Send,
{
    let mut next: Option<String> = None;
    let mut seen = HashSet::new();
    for _ in 0..PAGES_MAX {
        let page = page(next.clone()).await?;
        let written = keep(job, list, &page.items, &mut seen)?;
        let is_same_place = page.next.is_some() && page.next == next;
        if is_same_place {
            return Err(ResourceError {
                code: "upstream_error",
                message: "the service repeats the same page".to_owned(),
            });
        }
        next = page.next;
        if next.is_none() {
            forget(job, list, &seen)?;
            note_whole(job, list)?;
            return newest(job, list);
        }
        if written == 0 && !job.request.full && is_nothing_missing(job, list, page.total)? {
            return newest(job, list);
        }
    }
    newest(job, list)
}

/// Can the walk end before the end of the list?
fn is_nothing_missing(
    job: &SyncJob<'_>,
    list: &List,
    total: Option<u64>,
) -> Result<bool, RecordsError> {
    match list.forgets {
        Forgets::Never => Ok(true),
        Forgets::Missing => Ok(total == Some(job.ctx.records.count(job.service, list.kind)?)),
        Forgets::ShorterThan(_) => {
            let whole_us = whole_us(job.ctx, job.service, list.kind)?;
            Ok(whole_us.is_some_and(|at_us| job.started_us < at_us.saturating_add(WHOLE_EVERY_US)))
        }
    }
}

fn whole_key(kind: &str) -> String {
    format!("whole:{kind}")
}

/// The last complete walk of the list.
pub(crate) fn whole_us(
    ctx: &ConnectorContext,
    service: &str,
    kind: &str,
) -> Result<Option<i64>, RecordsError> {
    let said = ctx.records.state_get(service, &whole_key(kind))?;
    Ok(said.and_then(|text| text.parse().ok()))
}

pub(super) fn note_whole(job: &SyncJob<'_>, list: &List) -> Result<(), RecordsError> {
    let text = job.started_us.to_string();
    job.ctx.records.state_put(job.service, &whole_key(list.kind), &text)
}

/// Stores a page; returns how many entries were new or changed.
fn keep(
    job: &SyncJob<'_>,
    list: &List,
    items: &[Value],
    seen: &mut HashSet<String>,
) -> Result<usize, ResourceError> {
    let put = put(job.ctx, job.service, list, items)?;
    if put.ids.len() < items.len() {
        job.warn(format!("{}: skipped an entry without id or time", list.kind));
    }
    job.page(put.ids.iter().map(String::as_str), put.written, 0);
    seen.extend(put.ids);
    Ok(put.written)
}

/// The stored entries: their ids, and how many of them were new.
pub(crate) struct Put {
    pub(crate) ids: Vec<String>,
    pub(crate) written: usize,
}

/// Stores entries in one transaction. An entry without an id, or without a required time, is left
/// out.
pub(crate) fn put(
    ctx: &ConnectorContext,
    service: &str,
    list: &List,
    items: &[Value],
) -> Result<Put, RecordsError> {
    let now_us = ctx.clock.now().wall_us;
    let shaped = items.iter().filter_map(|item| ShapedEntry::read(list, item, now_us));
    let shaped: Vec<ShapedEntry> = shaped.collect();
    let rows: Vec<Incoming<'_>> = shaped.iter().map(|shaped| shaped.incoming(list)).collect();
    let written = ctx.records.upsert(service, &rows)?.written();
    Ok(Put { ids: shaped.into_iter().map(|shaped| shaped.id).collect(), written })
}

fn forget(job: &SyncJob<'_>, list: &List, seen: &HashSet<String>) -> Result<(), ResourceError> {
    let window = match list.forgets {
        Forgets::Never => return Ok(()),
        Forgets::Missing => Window::default(),
        Forgets::ShorterThan(entries) if seen.len() >= entries => return Ok(()),
        // The service may not show old entries that came from an archive.
        Forgets::ShorterThan(_) => Window { except_state: Some(ARCHIVED), ..Window::default() },
    };
    let mut gone = job.ctx.records.ids_in(job.service, list.kind, &window)?;
    gone.retain(|id| !seen.contains(id));
    remove(job, list, &gone)
}

pub(super) fn remove(job: &SyncJob<'_>, list: &List, gone: &[String]) -> Result<(), ResourceError> {
    if !gone.is_empty() {
        let at_us = job.ctx.clock.now().wall_us;
        job.removed(job.ctx.records.remove(job.service, list.kind, gone, at_us)?);
    }
    Ok(())
}

pub(crate) fn newest(job: &SyncJob<'_>, list: &List) -> Result<Option<String>, ResourceError> {
    Ok(job.ctx.records.newest_updated(job.service, list.kind)?.map(|(text, _)| text))
}

/// An entry ready to be stored.
struct ShapedEntry {
    id: String,
    at_us: Option<i64>,
    updated: String,
    updated_us: i64,
    parent: Option<String>,
    is_archived: bool,
    raw: String,
    flat: String,
}

impl ShapedEntry {
    fn read(list: &List, item: &Value, now_us: i64) -> Option<ShapedEntry> {
        let is_archived = item.get(FROM_ARCHIVE).is_some();
        let said = item.pointer(list.at).and_then(Value::as_str);
        let at_us = said.and_then(when::instant_us);
        let (updated, updated_us) = match (list.stamp, at_us, said) {
            (Stamp::FromItem, Some(at_us), Some(said)) => (said.to_owned(), at_us),
            (Stamp::FromItem, ..) if !is_archived => return None,
            _ => (when::utc_micros(now_us), now_us),
        };
        let parent = list.parent.and_then(|at| item.pointer(at)?.as_str().map(str::to_owned));
        Some(ShapedEntry {
            id: (list.id)(item)?,
            at_us,
            updated,
            updated_us,
            parent,
            is_archived,
            raw: item.to_string(),
            flat: Value::Object((list.flat)(item)).to_string(),
        })
    }

    fn incoming<'a>(&'a self, list: &'a List) -> Incoming<'a> {
        Incoming {
            kind: list.kind,
            id: &self.id,
            start_us: self.at_us,
            end_us: self.at_us,
            updated: &self.updated,
            updated_us: self.updated_us,
            parent: self.parent.as_deref(),
            state: self.is_archived.then_some(ARCHIVED),
            raw: &self.raw,
            flat: &self.flat,
            ..Incoming::default()
        }
    }
}

/// The columns of a raw entry, to rebuild them in a new version.
pub(crate) fn derived(lists: &[&List], kind: &str, raw: &str) -> Option<Derived> {
    let list = lists.iter().find(|list| list.kind == kind)?;
    let shaped = ShapedEntry::read(list, &serde_json::from_str(raw).ok()?, 0)?;
    Some(Derived {
        start_us: shaped.at_us,
        end_us: shaped.at_us,
        parent: shaped.parent,
        state: shaped.is_archived.then(|| ARCHIVED.to_owned()),
        flat: shaped.flat,
        ..Derived::default()
    })
}

impl From<Problem> for ResourceError {
    fn from(problem: Problem) -> ResourceError {
        let message = format!("{}; {}", problem.message, problem.hint);
        ResourceError { code: problem.code.as_str(), message }
    }
}

/// The columns as an object.
pub(crate) fn columns<const N: usize>(columns: [(&str, Value); N]) -> Map<String, Value> {
    columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The text at a pointer, as an id.
pub(crate) fn text_at(item: &Value, pointer: &str) -> Option<String> {
    item.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// The value at a pointer, or null.
pub(crate) fn at(item: &Value, pointer: &str) -> Value {
    item.pointer(pointer).cloned().unwrap_or_default()
}

/// The names in a list of objects, joined.
pub(crate) fn names(item: &Value, pointer: &str) -> Value {
    let all = item.pointer(pointer).and_then(Value::as_array);
    let names: Vec<&str> =
        all.into_iter().flatten().filter_map(|one| one.get("name")?.as_str()).collect();
    json!(names.join(", "))
}
