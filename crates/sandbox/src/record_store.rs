//! The records of a simulated service, by kind: generated from the seed, edited through the control
//! interface, read by its API.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::ControlError;
use crate::rng::Rng;
use crate::timestamp;

/// One kind of records. Both pointers are JSON pointers into a record.
#[derive(Debug)]
pub(crate) struct RecordKind {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    /// The timestamp that orders them, oldest first; without one they keep their generated order.
    pub(crate) at: Option<&'static str>,
}

impl RecordKind {
    pub(crate) const fn new(name: &'static str, key: &'static str) -> RecordKind {
        RecordKind { name, key, at: None }
    }

    pub(crate) const fn at(name: &'static str, key: &'static str, at: &'static str) -> RecordKind {
        RecordKind { name, key, at: Some(at) }
    }

    fn key_of(&self, record: &Value) -> String {
        match record.pointer(self.key) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// Generated records by kind.
pub(crate) type GeneratedRecords = Vec<(&'static str, Vec<Value>)>;

#[derive(Debug)]
pub(crate) struct RecordStore {
    kinds: &'static [RecordKind],
    lists: HashMap<&'static str, Vec<Value>>,
    /// Manual edits in order: the new record, or none where it was removed.
    manual_edits: Vec<(&'static str, String, Option<Value>)>,
}

impl RecordStore {
    pub(crate) fn new(kinds: &'static [RecordKind]) -> RecordStore {
        RecordStore { kinds, lists: HashMap::new(), manual_edits: Vec::new() }
    }

    /// Replaces the generated records and applies the manual edits on top.
    pub(crate) fn fill(&mut self, generate: GeneratedRecords) {
        self.lists = generate.into_iter().collect();
        let changes = self.manual_edits.clone();
        for (name, key, record) in changes {
            if let Ok(kind) = self.kind(name) {
                self.apply(kind, &key, record);
            }
        }
        for kind in self.kinds {
            self.sort(kind);
        }
    }

    /// All records of a kind, oldest first; empty for an unknown kind.
    pub(crate) fn all(&self, name: &str) -> &[Value] {
        self.lists.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn get(&self, name: &str, key: &str) -> Option<&Value> {
        let kind = self.kind(name).ok()?;
        self.all(name).iter().find(|record| kind.key_of(record) == key)
    }

    pub(crate) fn check_kind(&self, name: &str) -> Result<(), ControlError> {
        self.kind(name).map(|_| ())
    }

    /// Merges into a record.
    pub(crate) fn edit(
        &mut self,
        name: &str,
        key: &str,
        patch: &Value,
    ) -> Result<Value, ControlError> {
        let kind = self.kind(name)?;
        let patch = object(patch)?;
        let mut record = self.get(name, key).cloned().ok_or_else(missing)?;
        if let Some(record) = record.as_object_mut() {
            merge(record, patch);
        }
        self.keep(kind, key.to_owned(), Some(record.clone()));
        Ok(record)
    }

    /// Adds a record; missing fields are copied from the newest, with a new key and timestamp.
    pub(crate) fn add(
        &mut self,
        name: &str,
        patch: &Value,
        seed: u64,
        now_us: i64,
    ) -> Result<Value, ControlError> {
        let kind = self.kind(name)?;
        let patch = object(patch)?;
        let mut record = self.all(name).last().cloned().unwrap_or(Value::Object(Map::new()));
        let number = i64::try_from(self.manual_edits.len()).unwrap_or(0);
        let mut rng = Rng::stream(seed, "by hand", number);
        let model = record.clone();
        if let Some(at) = kind.at.and_then(|at| record.pointer_mut(at)) {
            *at = at_now(at, now_us);
        }
        if let Some(key) = record.pointer_mut(kind.key).filter(|_| kind.at != Some(kind.key)) {
            *key = fresh_key(key, &mut rng);
        }
        if let Some(record) = record.as_object_mut() {
            merge(record, patch);
        }
        let key = kind.key_of(&record);
        if key.is_empty() || (record == model && self.get(name, &key).is_some()) {
            return Err(ControlError::Bad(format!(
                "`{}` is required, the key of a `{name}`",
                kind.key
            )));
        }
        self.keep(kind, key, Some(record.clone()));
        Ok(record)
    }

    /// Inserts a record as it is, replacing the one with its key.
    pub(crate) fn put(&mut self, name: &str, record: Value) {
        if let Ok(kind) = self.kind(name) {
            self.keep(kind, kind.key_of(&record), Some(record));
        }
    }

    pub(crate) fn remove(&mut self, name: &str, key: &str) -> Result<(), ControlError> {
        let kind = self.kind(name)?;
        self.get(name, key).ok_or_else(missing)?;
        self.keep(kind, key.to_owned(), None);
        Ok(())
    }

    /// Removes all records of a kind; later ones may be generated.
    pub(crate) fn clear(&mut self, name: &str) -> Result<(), ControlError> {
        let kind = self.kind(name)?;
        let gone = self.lists.remove(kind.name).unwrap_or_default();
        self.manual_edits.extend(gone.iter().map(|record| (kind.name, kind.key_of(record), None)));
        Ok(())
    }

    fn keep(&mut self, kind: &'static RecordKind, key: String, record: Option<Value>) {
        self.apply(kind, &key, record.clone());
        self.manual_edits.push((kind.name, key, record));
        self.sort(kind);
    }

    fn apply(&mut self, kind: &'static RecordKind, key: &str, record: Option<Value>) {
        let list = self.lists.entry(kind.name).or_default();
        let place = list.iter().position(|old| kind.key_of(old) == key);
        match (place, record) {
            (Some(place), Some(record)) => {
                if let Some(old) = list.get_mut(place) {
                    *old = record;
                }
            }
            (Some(place), None) => drop(list.remove(place)),
            (None, Some(record)) => list.push(record),
            (None, None) => {}
        }
    }

    fn sort(&mut self, kind: &RecordKind) {
        let (Some(at), Some(list)) = (kind.at, self.lists.get_mut(kind.name)) else { return };
        list.sort_by(|a, b| in_time(a.pointer(at), b.pointer(at)));
    }

    fn kind(&self, name: &str) -> Result<&'static RecordKind, ControlError> {
        self.kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name).collect();
            ControlError::Bad(format!("the kinds are `{}`", names.join("`, `")))
        })
    }
}

fn in_time(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        (Some(a), Some(b)) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        _ => Ordering::Equal,
    }
}

/// The current time in the format of the model.
fn at_now(model: &Value, now_us: i64) -> Value {
    match model {
        Value::String(text) if text.contains('.') => Value::from(timestamp::text(now_us / 1_000)),
        Value::String(_) => Value::from(timestamp::seconds(now_us / 1_000)),
        _ => Value::from(now_us / 1_000_000),
    }
}

/// A new key in the format of the model.
fn fresh_key(model: &Value, rng: &mut Rng) -> Value {
    match model {
        Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Value::from(rng.whole(100_000_000, 999_999_999).to_string())
        }
        Value::String(text) => match text.split_once('_') {
            Some((prefix, rest)) if prefix.len() == 2 => {
                Value::from(format!("{prefix}_{}", rng.word(rest.len()).to_lowercase()))
            }
            _ => Value::from(rng.word(text.len())),
        },
        _ => Value::from(rng.whole(100_000_000, 999_999_999)),
    }
}

fn object(patch: &Value) -> Result<&Map<String, Value>, ControlError> {
    patch.as_object().ok_or_else(|| ControlError::Bad("a record must be a JSON object".to_owned()))
}

fn missing() -> ControlError {
    ControlError::Missing("no such record".to_owned())
}

/// Merges objects and replaces everything else; a null stays a null.
pub(crate) fn merge(into: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (into.get_mut(name), value) {
            (Some(Value::Object(into)), Value::Object(patch)) => merge(into, patch),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test stops at the first surprise"
    )]

    use super::{RecordKind, RecordStore};
    use serde_json::json;

    const KINDS: &[RecordKind] =
        &[RecordKind::at("play", "/id", "/at"), RecordKind::new("friend", "/id")];

    fn records() -> RecordStore {
        let mut records = RecordStore::new(KINDS);
        let plays =
            [3, 1, 2].map(|at| json!({ "id": format!("p{at}"), "at": at, "of": { "a": 1 } }));
        records.fill(vec![("play", plays.to_vec())]);
        records
    }

    #[test]
    fn records_are_ordered_by_their_timestamps() {
        let ids: Vec<String> =
            records().all("play").iter().map(|play| play["id"].to_string()).collect();
        assert_eq!(ids, ["\"p1\"", "\"p2\"", "\"p3\""]);
    }

    #[test]
    fn manual_edits_survive_a_regeneration() {
        let mut records = records();
        records.edit("play", "p2", &json!({ "of": { "b": 2 } })).unwrap();
        records.remove("play", "p1").unwrap();
        let added = records.add("play", &json!({ "of": null }), 1, 9_000_000).unwrap();
        assert_eq!((added["at"].clone(), added["of"].clone()), (json!(9), json!(null)));
        records.fill(vec![(
            "play",
            vec![json!({ "id": "p1", "at": 1 }), json!({ "id": "p4", "at": 4 })],
        )]);
        let ats: Vec<i64> =
            records.all("play").iter().filter_map(|play| play["at"].as_i64()).collect();
        assert_eq!(ats, [2, 4, 9]);
        assert_eq!(records.get("play", "p2").unwrap()["of"], json!({ "a": 1, "b": 2 }));
    }

    #[test]
    fn unknown_kinds_and_keys_are_errors() {
        let mut records = records();
        assert!(records.remove("play", "p9").is_err());
        assert!(records.edit("walk", "p1", &json!({})).unwrap_err().to_string().contains("`play`"));
        assert!(records.add("friend", &json!({}), 1, 0).is_err());
        assert!(records.add("friend", &json!({ "id": "f" }), 1, 0).is_ok());
        assert!(records.edit("play", "p1", &json!([])).is_err());
    }
}
