//! The mirror of what a personal service keeps only for a while or gives only in pages: lists of
//! things with a time. A list is data; walking, keeping, noticing removals and telling what changed
//! are the same for all of them.

use std::collections::HashSet;
use std::future::Future;

use serde_json::{Map, Value, json};
use store::records::{Derived, Incoming, RecordsError, Window};

use super::problem::Problem;
use crate::Desk;
use crate::sync::{Fault, Turn};
use crate::when;

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
    /// The columns that people ask for.
    pub(crate) flat: fn(&Value) -> Map<String, Value>,
    /// Whether an entry that is gone upstream is gone here. History is kept.
    pub(crate) forgets: bool,
}

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
            return newest(turn, list);
        }
        let known = turn.desk.records.count(turn.service, list.kind)?;
        let is_complete = !list.forgets || page.total == Some(known);
        if written == 0 && is_complete && !turn.asked.full {
            return newest(turn, list);
        }
    }
    newest(turn, list)
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

/// Puts entries into the mirror in one transaction. What has neither id nor time is left out.
pub(crate) fn put(
    desk: &Desk,
    service: &str,
    list: &List,
    items: &[Value],
) -> Result<Put, RecordsError> {
    let shaped: Vec<Shaped> = items.iter().filter_map(|item| Shaped::read(list, item)).collect();
    let rows: Vec<Incoming<'_>> = shaped.iter().map(|shaped| shaped.incoming(list)).collect();
    let written = desk.records.keep(service, &rows)?.written();
    Ok(Put { ids: shaped.into_iter().map(|shaped| shaped.id).collect(), written })
}

fn forget(turn: &Turn<'_>, list: &List, seen: &HashSet<String>) -> Result<(), Fault> {
    if !list.forgets {
        return Ok(());
    }
    let records = &turn.desk.records;
    let mut gone = records.ids_in(turn.service, list.kind, &Window::default())?;
    gone.retain(|id| !seen.contains(id));
    if !gone.is_empty() {
        let at_us = turn.desk.clock.now().wall_us;
        turn.removed(records.remove(turn.service, list.kind, &gone, at_us)?);
    }
    Ok(())
}

fn newest(turn: &Turn<'_>, list: &List) -> Result<Option<String>, Fault> {
    Ok(turn.desk.records.newest_updated(turn.service, list.kind)?.map(|(text, _)| text))
}

/// An entry ready to be kept.
struct Shaped {
    id: String,
    at: String,
    at_us: i64,
    raw: String,
    flat: String,
}

impl Shaped {
    fn read(list: &List, item: &Value) -> Option<Shaped> {
        let at = item.pointer(list.at)?.as_str()?.to_owned();
        Some(Shaped {
            id: (list.id)(item)?,
            at_us: when::instant_us(&at)?,
            at,
            raw: item.to_string(),
            flat: Value::Object((list.flat)(item)).to_string(),
        })
    }

    fn incoming<'a>(&'a self, list: &'a List) -> Incoming<'a> {
        Incoming {
            kind: list.kind,
            id: &self.id,
            start_us: Some(self.at_us),
            end_us: Some(self.at_us),
            updated: &self.at,
            updated_us: self.at_us,
            raw: &self.raw,
            flat: &self.flat,
            ..Incoming::default()
        }
    }
}

/// The columns of a raw entry, for when their shape has changed.
pub(crate) fn derived(lists: &[&List], kind: &str, raw: &str) -> Option<Derived> {
    let list = lists.iter().find(|list| list.kind == kind)?;
    let shaped = Shaped::read(list, &serde_json::from_str(raw).ok()?)?;
    Some(Derived {
        start_us: Some(shaped.at_us),
        end_us: Some(shaped.at_us),
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
