//! Lists whose entries belong to something, such as the entries of a playlist: a part is fetched
//! whole when the service says that it has changed, and goes when what it belongs to is gone.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use store::records::{RecordsError, Window};

use super::{List, Put, put, remove};
use crate::sync::{Fault, Turn};

/// Our own marks in an entry: what it belongs to, its place there, and how often the same thing
/// stood there before it.
pub(crate) const PARENT: &str = "playlist_id";
const PLACE: &str = "position";
const TIMES: &str = "occurrence";

/// All entries of one parent.
pub(crate) struct Whole<'a> {
    pub(crate) parent: &'a str,
    /// What the parent is called.
    pub(crate) title: Option<&'a str>,
    pub(crate) items: Vec<Value>,
}

impl Whole<'_> {
    /// Writes into each entry where it stands. `thing` says what stands there.
    pub(crate) fn marked(mut self, thing: fn(&Value) -> Option<String>) -> Vec<Value> {
        let mut times: HashMap<String, u64> = HashMap::new();
        for (place, item) in self.items.iter_mut().enumerate() {
            let count = thing(item).map_or(1, |thing| {
                let count = times.entry(thing).or_insert(0);
                *count += 1;
                *count
            });
            let Some(item) = item.as_object_mut() else { continue };
            item.insert(PARENT.to_owned(), json!(self.parent));
            item.insert("playlist".to_owned(), json!(self.title));
            item.insert(PLACE.to_owned(), json!(place + 1));
            item.insert(TIMES.to_owned(), json!(count));
        }
        self.items
    }
}

/// `parent thing`, with a number where the same thing stands there again.
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

/// Keeps what a parent holds now, and drops what it does not hold any more.
pub(crate) fn keep_parts(
    turn: &Turn<'_>,
    list: &List,
    parent: &str,
    items: &[Value],
) -> Result<(), Fault> {
    let before = turn.desk.records.by_parent(turn.service, list.kind, parent)?;
    let Put { ids, written } = put(turn.desk, turn.service, list, items)?;
    turn.page(ids.iter().map(String::as_str), written, 0);
    let ids: HashSet<String> = ids.into_iter().collect();
    let gone = before.into_iter().map(|row| row.id).filter(|id| !ids.contains(id));
    remove(turn, list, &gone.collect::<Vec<_>>())
}

/// Drops the entries of everything that is not there any more.
pub(crate) fn forget_parts(
    turn: &Turn<'_>,
    list: &List,
    parents: &HashSet<String>,
) -> Result<(), Fault> {
    let ids = turn.desk.records.ids_in(turn.service, list.kind, &Window::default())?;
    let gone = ids.into_iter().filter(|id| !parents.contains(parent_of(id)));
    remove(turn, list, &gone.collect::<Vec<_>>())?;
    super::note_whole(turn, list)?;
    Ok(())
}

/// Has the parent changed since its entries were fetched?
pub(crate) fn is_same(turn: &Turn<'_>, parent: &str, version: &str) -> Result<bool, RecordsError> {
    if turn.asked.full {
        return Ok(false);
    }
    let known = turn.desk.records.state_get(turn.service, &version_key(parent))?;
    Ok(known.as_deref() == Some(version))
}

pub(crate) fn note_version(
    turn: &Turn<'_>,
    parent: &str,
    version: &str,
) -> Result<(), RecordsError> {
    turn.desk.records.state_put(turn.service, &version_key(parent), version)
}

fn version_key(parent: &str) -> String {
    format!("parts:{parent}")
}
