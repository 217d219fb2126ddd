//! The mirror of what a personal service keeps only for a while or gives only in pages: lists of
//! things with a time. A list is data; walking, keeping, noticing removals and telling what changed
//! are the same for all of them.

mod parts;

use std::collections::HashSet;
use std::future::Future;

use serde_json::{Map, Value, json};
use store::records::{ARCHIVED, Derived, Incoming, RecordsError, Window};

use super::problem::Problem;
use crate::Desk;
use crate::sync::{Fault, Turn};
use crate::when;

pub(crate) use parts::{Whole, forget_parts, id_of, is_same, keep_parts, note_version};

/// Pages of one walk; a service that never ends is not followed for ever.
const PAGES_MAX: usize = 10_000;

/// A list that is mirrored.
pub(crate) struct List {
    /// Its kind in the mirror, which is also the name of the resource.
    pub(crate) kind: &'static str,
    /// What tells one entry from another.
    pub(crate) id: fn(&Value) -> Option<String>,
    /// Where an entry says when it came about.
    pub(crate) at: &'static str,
    /// What counts as the time of a change.
    pub(crate) stamp: Stamp,
    /// Where an entry says what it is a part of, if it is.
    pub(crate) parent: Option<&'static str>,
    /// The columns that people ask for.
    pub(crate) flat: fn(&Value) -> Map<String, Value>,
    pub(crate) forgets: Forgets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The time that an entry gives of itself; entries without one are left out.
    Said,
    /// The time it came here: the service does not say when it was put there or changed.
    Seen,
}

/// When an entry that is gone upstream goes here, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgets {
    /// History is kept.
    Never,
    /// As soon as the whole list was seen without it.
    Missing,
    /// The service shows only the newest: what is missing from a list shorter than this was taken
    /// back, what is missing from a longer one may have fallen off its end.
    ShorterThan(usize),
}

/// Marks an entry that was taken from an archive.
pub(crate) const FROM_ARCHIVE: &str = "from_archive";
/// Begins the id of something that only an archive can name; the service's lists say nothing of it.
pub(crate) const KEPT_PARENT: &str = "takeout:";
/// A list without a total is walked to its end so often, to see what is missing.
const WHOLE_EVERY_US: i64 = 24 * 3_600 * 1_000_000;

/// One page of a list.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    pub(crate) next: Option<String>,
    /// How many there are altogether, where the service says.
    pub(crate) total: Option<u64>,
}

/// Walks over a list to its end, or to where nothing is new and nothing is missing.
pub(crate) async fn walk<F, P>(
    turn: &Turn<'_>,
    list: &List,
    page: F,
) -> Result<Option<String>, Fault>
where
    F: Fn(Option<String>) -> P + Send,
    P: Future<Output = Result<Page, Problem>> + Send,
{
    let mut next: Option<String> = None;
    let mut seen = HashSet::new();
    for _ in 0..PAGES_MAX {
        let page = page(next.clone()).await?;
        let written = keep(turn, list, &page.items, &mut seen)?;
        let is_same_place = page.next.is_some() && page.next == next;
        if is_same_place {
            return Err(Fault {
                code: "upstream_error",
                words: "the service gives the same page again and again".to_owned(),
            });
        }
        next = page.next;
        if next.is_none() {
            forget(turn, list, &seen)?;
            note_whole(turn, list)?;
            return newest(turn, list);
        }
        if written == 0 && !turn.asked.full && is_nothing_missing(turn, list, page.total)? {
            return newest(turn, list);
        }
    }
    newest(turn, list)
}

/// Can the walk end before the end of the list?
fn is_nothing_missing(
    turn: &Turn<'_>,
    list: &List,
    total: Option<u64>,
) -> Result<bool, RecordsError> {
    match list.forgets {
        Forgets::Never => Ok(true),
        Forgets::Missing => Ok(total == Some(turn.desk.records.count(turn.service, list.kind)?)),
        Forgets::ShorterThan(_) => {
            let whole_us = whole_us(turn.desk, turn.service, list.kind)?;
            Ok(whole_us.is_some_and(|at_us| turn.started_us < at_us.saturating_add(WHOLE_EVERY_US)))
        }
    }
}

fn whole_key(kind: &str) -> String {
    format!("whole:{kind}")
}

/// When the list was last seen to its end.
pub(crate) fn whole_us(
    desk: &Desk,
    service: &str,
    kind: &str,
) -> Result<Option<i64>, RecordsError> {
    let said = desk.records.state_get(service, &whole_key(kind))?;
    Ok(said.and_then(|text| text.parse().ok()))
}

pub(super) fn note_whole(turn: &Turn<'_>, list: &List) -> Result<(), RecordsError> {
    let text = turn.started_us.to_string();
    turn.desk.records.state_put(turn.service, &whole_key(list.kind), &text)
}

/// Keeps a page; answers how many entries were new or had changed.
fn keep(
    turn: &Turn<'_>,
    list: &List,
    items: &[Value],
    seen: &mut HashSet<String>,
) -> Result<usize, Fault> {
    let put = put(turn.desk, turn.service, list, items)?;
    if put.ids.len() < items.len() {
        turn.warn(format!("{}: an entry without id or time came and was left out", list.kind));
    }
    turn.page(put.ids.iter().map(String::as_str), put.written, 0);
    seen.extend(put.ids);
    Ok(put.written)
}

/// What was put into the mirror: the ids that could be read, and how many of them were new.
pub(crate) struct Put {
    pub(crate) ids: Vec<String>,
    pub(crate) written: usize,
}

/// Puts entries into the mirror in one transaction. What has no id, or no time where one is needed,
/// is left out.
pub(crate) fn put(
    desk: &Desk,
    service: &str,
    list: &List,
    items: &[Value],
) -> Result<Put, RecordsError> {
    let now_us = desk.clock.now().wall_us;
    let shaped = items.iter().filter_map(|item| Shaped::read(list, item, now_us));
    let shaped: Vec<Shaped> = shaped.collect();
    let rows: Vec<Incoming<'_>> = shaped.iter().map(|shaped| shaped.incoming(list)).collect();
    let written = desk.records.keep(service, &rows)?.written();
    Ok(Put { ids: shaped.into_iter().map(|shaped| shaped.id).collect(), written })
}

fn forget(turn: &Turn<'_>, list: &List, seen: &HashSet<String>) -> Result<(), Fault> {
    let window = match list.forgets {
        Forgets::Never => return Ok(()),
        Forgets::Missing => Window::default(),
        Forgets::ShorterThan(entries) if seen.len() >= entries => return Ok(()),
        // What only an archive ever had, the service may simply not show any more.
        Forgets::ShorterThan(_) => Window { except_state: Some(ARCHIVED), ..Window::default() },
    };
    let mut gone = turn.desk.records.ids_in(turn.service, list.kind, &window)?;
    gone.retain(|id| !seen.contains(id));
    remove(turn, list, &gone)
}

pub(super) fn remove(turn: &Turn<'_>, list: &List, gone: &[String]) -> Result<(), Fault> {
    if !gone.is_empty() {
        let at_us = turn.desk.clock.now().wall_us;
        turn.removed(turn.desk.records.remove(turn.service, list.kind, gone, at_us)?);
    }
    Ok(())
}

pub(crate) fn newest(turn: &Turn<'_>, list: &List) -> Result<Option<String>, Fault> {
    Ok(turn.desk.records.newest_updated(turn.service, list.kind)?.map(|(text, _)| text))
}

/// An entry ready to be kept.
struct Shaped {
    id: String,
    at_us: Option<i64>,
    updated: String,
    updated_us: i64,
    parent: Option<String>,
    is_archived: bool,
    raw: String,
    flat: String,
}

impl Shaped {
    fn read(list: &List, item: &Value, now_us: i64) -> Option<Shaped> {
        let is_archived = item.get(FROM_ARCHIVE).is_some();
        let said = item.pointer(list.at).and_then(Value::as_str);
        let at_us = said.and_then(when::instant_us);
        let (updated, updated_us) = match (list.stamp, at_us, said) {
            (Stamp::Said, Some(at_us), Some(said)) => (said.to_owned(), at_us),
            (Stamp::Said, ..) if !is_archived => return None,
            _ => (when::utc_micros(now_us), now_us),
        };
        let parent = list.parent.and_then(|at| item.pointer(at)?.as_str().map(str::to_owned));
        Some(Shaped {
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

/// The columns of a raw entry, for when their shape has changed.
pub(crate) fn derived(lists: &[&List], kind: &str, raw: &str) -> Option<Derived> {
    let list = lists.iter().find(|list| list.kind == kind)?;
    let shaped = Shaped::read(list, &serde_json::from_str(raw).ok()?, 0)?;
    Some(Derived {
        start_us: shaped.at_us,
        end_us: shaped.at_us,
        parent: shaped.parent,
        state: shaped.is_archived.then(|| ARCHIVED.to_owned()),
        flat: shaped.flat,
        ..Derived::default()
    })
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        let words = format!("{}; {}", problem.message, problem.hint);
        Fault { code: problem.code.as_str(), words }
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
