//! The records of a personal service, by kind: made from the seed, changed by hand, read by its API.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::chance::Chance;
use crate::control::Trouble;
use crate::moment;

/// One kind of records. Both pointers are JSON pointers into a record.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    /// The moment that orders them, oldest first; without one they stay as they were made.
    pub(crate) at: Option<&'static str>,
}

impl Kind {
    pub(crate) const fn new(name: &'static str, key: &'static str) -> Kind {
        Kind { name, key, at: None }
    }

    pub(crate) const fn at(name: &'static str, key: &'static str, at: &'static str) -> Kind {
        Kind { name, key, at: Some(at) }
    }

    fn key_of(&self, record: &Value) -> String {
        match record.pointer(self.key) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// What a generator made: kinds with their records.
pub(crate) type World = Vec<(&'static str, Vec<Value>)>;

#[derive(Debug)]
pub(crate) struct Shelves {
    kinds: &'static [Kind],
    lists: HashMap<&'static str, Vec<Value>>,
    /// What was changed by hand, in order: the record that stands now, or none where it is gone.
    by_hand: Vec<(&'static str, String, Option<Value>)>,
}

impl Shelves {
    pub(crate) fn new(kinds: &'static [Kind]) -> Shelves {
        Shelves { kinds, lists: HashMap::new(), by_hand: Vec::new() }
    }

    /// Replaces what was made, and puts over it what was changed by hand.
    pub(crate) fn fill(&mut self, world: World) {
        self.lists = world.into_iter().collect();
        let changes = self.by_hand.clone();
        for (name, key, record) in changes {
            if let Ok(kind) = self.kind(name) {
                self.put_down(kind, &key, record);
            }
        }
        for kind in self.kinds {
            self.sort(kind);
        }
    }

    /// All records of a kind, oldest first; none of a kind that is not there.
    pub(crate) fn all(&self, name: &str) -> &[Value] {
        self.lists.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn one(&self, name: &str, key: &str) -> Option<&Value> {
        let kind = self.kind(name).ok()?;
        self.all(name).iter().find(|record| kind.key_of(record) == key)
    }

    pub(crate) fn known(&self, name: &str) -> Result<(), Trouble> {
        self.kind(name).map(|_| ())
    }

    /// Merges into a record.
    pub(crate) fn edit(&mut self, name: &str, key: &str, patch: &Value) -> Result<Value, Trouble> {
        let kind = self.kind(name)?;
        let patch = object(patch)?;
        let mut record = self.one(name, key).cloned().ok_or_else(missing)?;
        if let Some(record) = record.as_object_mut() {
            merge(record, patch);
        }
        self.keep(kind, key.to_owned(), Some(record.clone()));
        Ok(record)
    }

    /// Adds a record; what it does not name is that of the newest, with a key and a moment of its own.
    pub(crate) fn add(
        &mut self,
        name: &str,
        patch: &Value,
        seed: u64,
        now_us: i64,
    ) -> Result<Value, Trouble> {
        let kind = self.kind(name)?;
        let patch = object(patch)?;
        let mut record = self.all(name).last().cloned().unwrap_or(Value::Object(Map::new()));
        let number = i64::try_from(self.by_hand.len()).unwrap_or(0);
        let mut chance = Chance::of(seed, "by hand", number);
        let model = record.clone();
        if let Some(at) = kind.at.and_then(|at| record.pointer_mut(at)) {
            *at = at_now(at, now_us);
        }
        if let Some(key) = record.pointer_mut(kind.key).filter(|_| kind.at != Some(kind.key)) {
            *key = fresh_key(key, &mut chance);
        }
        if let Some(record) = record.as_object_mut() {
            merge(record, patch);
        }
        let key = kind.key_of(&record);
        if key.is_empty() || (record == model && self.one(name, &key).is_some()) {
            return Err(Trouble::Bad(format!("say `{}`, the key of a `{name}`", kind.key)));
        }
        self.keep(kind, key, Some(record.clone()));
        Ok(record)
    }

    /// Puts a record there as it is, in place of the one with its key.
    pub(crate) fn put(&mut self, name: &str, record: Value) {
        if let Ok(kind) = self.kind(name) {
            self.keep(kind, kind.key_of(&record), Some(record));
        }
    }

    pub(crate) fn remove(&mut self, name: &str, key: &str) -> Result<(), Trouble> {
        let kind = self.kind(name)?;
        self.one(name, key).ok_or_else(missing)?;
        self.keep(kind, key.to_owned(), None);
        Ok(())
    }

    /// Removes what there is of a kind; time may bring more.
    pub(crate) fn clear(&mut self, name: &str) -> Result<(), Trouble> {
        let kind = self.kind(name)?;
        let gone = self.lists.remove(kind.name).unwrap_or_default();
        self.by_hand.extend(gone.iter().map(|record| (kind.name, kind.key_of(record), None)));
        Ok(())
    }

    fn keep(&mut self, kind: &'static Kind, key: String, record: Option<Value>) {
        self.put_down(kind, &key, record.clone());
        self.by_hand.push((kind.name, key, record));
        self.sort(kind);
    }

    fn put_down(&mut self, kind: &'static Kind, key: &str, record: Option<Value>) {
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

    fn sort(&mut self, kind: &Kind) {
        let (Some(at), Some(list)) = (kind.at, self.lists.get_mut(kind.name)) else { return };
        list.sort_by(|a, b| in_time(a.pointer(at), b.pointer(at)));
    }

    fn kind(&self, name: &str) -> Result<&'static Kind, Trouble> {
        self.kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name).collect();
            Trouble::Bad(format!("kinds are `{}`", names.join("`, `")))
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

/// Now, written as the model writes its moment.
fn at_now(model: &Value, now_us: i64) -> Value {
    match model {
        Value::String(text) if text.contains('.') => Value::from(moment::text(now_us / 1_000)),
        Value::String(_) => Value::from(moment::seconds(now_us / 1_000)),
        _ => Value::from(now_us / 1_000_000),
    }
}

/// A key of the same length and kind.
fn fresh_key(model: &Value, chance: &mut Chance) -> Value {
    match model {
        Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Value::from(chance.whole(100_000_000, 999_999_999).to_string())
        }
        Value::String(text) => match text.split_once('_') {
            Some((prefix, rest)) if prefix.len() == 2 => {
                Value::from(format!("{prefix}_{}", chance.word(rest.len()).to_lowercase()))
            }
            _ => Value::from(chance.word(text.len())),
        },
        _ => Value::from(chance.whole(100_000_000, 999_999_999)),
    }
}

fn object(patch: &Value) -> Result<&Map<String, Value>, Trouble> {
    patch.as_object().ok_or_else(|| Trouble::Bad("a record is a JSON object".to_owned()))
}

fn missing() -> Trouble {
    Trouble::Missing("no such record".to_owned())
}

/// Objects are merged, all else is replaced; a null stays a null.
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

    use super::{Kind, Shelves};
    use serde_json::json;

    const KINDS: &[Kind] = &[Kind::at("play", "/id", "/at"), Kind::new("friend", "/id")];

    fn shelves() -> Shelves {
        let mut shelves = Shelves::new(KINDS);
        let plays =
            [3, 1, 2].map(|at| json!({ "id": format!("p{at}"), "at": at, "of": { "a": 1 } }));
        shelves.fill(vec![("play", plays.to_vec())]);
        shelves
    }

    #[test]
    fn records_lie_in_the_order_of_their_moments() {
        let ids: Vec<String> =
            shelves().all("play").iter().map(|play| play["id"].to_string()).collect();
        assert_eq!(ids, ["\"p1\"", "\"p2\"", "\"p3\""]);
    }

    #[test]
    fn what_was_changed_by_hand_stays_when_the_rest_is_made_anew() {
        let mut shelves = shelves();
        shelves.edit("play", "p2", &json!({ "of": { "b": 2 } })).unwrap();
        shelves.remove("play", "p1").unwrap();
        let added = shelves.add("play", &json!({ "of": null }), 1, 9_000_000).unwrap();
        assert_eq!((added["at"].clone(), added["of"].clone()), (json!(9), json!(null)));
        shelves.fill(vec![(
            "play",
            vec![json!({ "id": "p1", "at": 1 }), json!({ "id": "p4", "at": 4 })],
        )]);
        let ats: Vec<i64> =
            shelves.all("play").iter().filter_map(|play| play["at"].as_i64()).collect();
        assert_eq!(ats, [2, 4, 9]);
        assert_eq!(shelves.one("play", "p2").unwrap()["of"], json!({ "a": 1, "b": 2 }));
    }

    #[test]
    fn unknown_kinds_and_keys_are_told() {
        let mut shelves = shelves();
        assert!(shelves.remove("play", "p9").is_err());
        assert!(shelves.edit("walk", "p1", &json!({})).unwrap_err().to_string().contains("`play`"));
        assert!(shelves.add("friend", &json!({}), 1, 0).is_err());
        assert!(shelves.add("friend", &json!({ "id": "f" }), 1, 0).is_ok());
        assert!(shelves.edit("play", "p1", &json!([])).is_err());
    }
}
