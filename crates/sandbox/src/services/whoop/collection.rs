//! The records of one kind in the order of their start, and WHOOP's rules for reading a window of
//! them page by page.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// One record, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The key of its kind; a recovery has that of its sleep.
    pub(super) id: String,
    pub(super) cycle: i64,
    pub(super) start_ms: i64,
    /// None while it is open.
    pub(super) end_ms: Option<i64>,
    pub(super) v1: Option<i64>,
    /// The sleep that the recovery of its cycle is computed from.
    pub(super) main: bool,
    pub(super) body: String,
}

impl Entry {
    fn key(&self) -> (i64, &str) {
        (self.start_ms, &self.id)
    }
}

/// Which records a client requests. Bounds are milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PageQuery {
    /// Records that ended before it are left out.
    pub(super) start_ms: Option<i64>,
    /// Records that begin at it or later are left out.
    pub(super) end_ms: i64,
    pub(super) limit: usize,
    /// The last record of the previous page.
    pub(super) after: Option<(i64, String)>,
}

impl PageQuery {
    fn holds(&self, entry: &Entry) -> bool {
        let goes_on = |start_ms| entry.end_ms.is_none_or(|end_ms| end_ms >= start_ms);
        entry.start_ms < self.end_ms && self.start_ms.is_none_or(goes_on)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Collection {
    /// Oldest first.
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
}

impl Collection {
    pub(super) fn new(mut entries: Vec<Entry>) -> Collection {
        entries.sort_by(|a, b| a.key().cmp(&b.key()));
        let places = entries.iter().enumerate().map(|(at, entry)| (entry.id.clone(), at)).collect();
        Collection { entries, places }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn get(&self, id: &str) -> Option<&Entry> {
        self.places.get(id).and_then(|at| self.entries.get(*at))
    }

    /// Inserts a record, replacing the one with its key.
    pub(super) fn put(&mut self, entry: Entry) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|old| old.id != entry.id);
        entries.push(entry);
        *self = Collection::new(entries);
    }

    pub(super) fn remove(&mut self, id: &str) -> bool {
        let known = self.places.contains_key(id);
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|old| old.id != id);
        *self = Collection::new(entries);
        known
    }

    /// One page, newest first, and the token of the next if there is one.
    pub(super) fn page(&self, page_query: &PageQuery) -> (Vec<&Entry>, Option<String>) {
        let before = page_query.after.as_ref().map(|(start_ms, id)| (*start_ms, id.as_str()));
        let until = before.map_or(self.entries.len(), |key| {
            self.entries.partition_point(|entry| entry.key() < key)
        });
        let older = self.entries.get(..until).unwrap_or_default().iter().rev();
        let mut found: Vec<&Entry> =
            older.filter(|entry| page_query.holds(entry)).take(page_query.limit + 1).collect();
        let more = found.len() > page_query.limit;
        found.truncate(page_query.limit);
        let next = found.last().filter(|_| more).map(|last| token(last));
        (found, next)
    }
}

fn token(last: &Entry) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}:{}", last.start_ms, last.id))
}

/// The record of a page token; none for a token that was not issued.
pub(super) fn read_token(token: &str) -> Option<(i64, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (start_ms, id) = text.split_once(':')?;
    Some((start_ms.parse().ok()?, id.to_owned()))
}

#[cfg(test)]
#[path = "collection/properties.rs"]
mod properties;
