//! Lists whose entries belong to a parent, such as the entries of a playlist. All entries of a parent
//! are fetched when it has changed, and deleted when it is gone.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use store::records::{RecordsError, Window};

use super::{List, Put, put, remove};
use crate::sync::{ResourceError, SyncJob};

/// Fields added to an entry: its parent, its position, and how many equal items precede it.
pub(crate) const PARENT: &str = "playlist_id";
const POSITION: &str = "position";
const TIMES: &str = "occurrence";

/// All entries of one parent.
pub(crate) struct Whole<'a> {
    pub(crate) parent: &'a str,
    /// The parent's name.
    pub(crate) title: Option<&'a str>,
    pub(crate) items: Vec<Value>,
}

impl Whole<'_> {
    /// Adds these fields to each entry. `thing` identifies its item.
    pub(crate) fn marked(mut self, thing: fn(&Value) -> Option<String>) -> Vec<Value> {
        let mut times: HashMap<String, u64> = HashMap::new();
        for (position, item) in self.items.iter_mut().enumerate() {
            let count = thing(item).map_or(1, |thing| {
                let count = times.entry(thing).or_insert(0);
                *count += 1;
                *count
            });
            let Some(item) = item.as_object_mut() else { continue };
            item.insert(PARENT.to_owned(), json!(self.parent));
            item.insert("playlist".to_owned(), json!(self.title));
            item.insert(POSITION.to_owned(), json!(position + 1));
            item.insert(TIMES.to_owned(), json!(count));
        }
        self.items
    }
}

/// `parent thing`, with a number if the same item is repeated.
pub(crate) fn id_of(item: &Value, thing: &str) -> Option<String> {
    let parent = item.get(PARENT)?.as_str()?;
    match item.get(TIMES).and_then(Value::as_u64) {
        None | Some(0 | 1) => Some(format!("{parent} {thing}")),
        Some(times) => Some(format!("{parent} {thing} {times}")),
    }
}

fn parent_of(id: &str) -> &str {
    id.split_once(' ').map_or(id, |(parent, _)| parent)
}

/// Stores a parent's entries and deletes removed ones.
pub(crate) fn keep_parts(
    job: &SyncJob<'_>,
    list: &List,
    parent: &str,
    items: &[Value],
) -> Result<(), ResourceError> {
    let before = job.ctx.records.by_parent(job.service, list.kind, parent)?;
    let Put { ids, written } = put(job.ctx, job.service, list, items)?;
    job.page(ids.iter().map(String::as_str), written, 0);
    let ids: HashSet<String> = ids.into_iter().collect();
    let gone = before.into_iter().map(|row| row.id).filter(|id| !ids.contains(id));
    remove(job, list, &gone.collect::<Vec<_>>())
}

/// Deletes the entries of removed parents.
pub(crate) fn forget_parts(
    job: &SyncJob<'_>,
    list: &List,
    parents: &HashSet<String>,
) -> Result<(), ResourceError> {
    let ids = job.ctx.records.ids_in(job.service, list.kind, &Window::default())?;
    let gone = ids.into_iter().filter(|id| !parents.contains(parent_of(id)));
    remove(job, list, &gone.collect::<Vec<_>>())?;
    super::note_whole(job, list)?;
    Ok(())
}

/// Has the parent changed since its entries were fetched?
pub(crate) fn is_same(
    job: &SyncJob<'_>,
    parent: &str,
    version: &str,
) -> Result<bool, RecordsError> {
    if job.request.full {
        return Ok(false);
    }
    let known = job.ctx.records.state_get(job.service, &version_key(parent))?;
    Ok(known.as_deref() == Some(version))
}

pub(crate) fn note_version(
    job: &SyncJob<'_>,
    parent: &str,
    version: &str,
) -> Result<(), RecordsError> {
    job.ctx.records.state_put(job.service, &version_key(parent), version)
}

fn version_key(parent: &str) -> String {
    format!("parts:{parent}")
}
