//! Records changed by hand: merged, added, removed. What was changed by hand stays so when time
//! passes and the rest is made anew.

use serde_json::{Map, Value};

use super::shelf::{Entry, Shelf};
use super::{Inner, Kind, Whoop};
use crate::chance::Chance;
use crate::control::Trouble;
use crate::moment;

impl Whoop {
    pub(crate) fn records(&self, kind: &str) -> Result<Vec<Value>, Trouble> {
        let kind = Kind::of(kind)?;
        let inner = self.lock();
        inner.shelves.of(kind).entries().iter().map(parsed).collect()
    }

    pub(crate) fn record(&self, kind: &str, id: &str) -> Result<Value, Trouble> {
        let kind = Kind::of(kind)?;
        parsed(self.lock().shelves.of(kind).one(id).ok_or_else(missing)?)
    }

    pub(crate) fn edit(
        &self,
        kind: &str,
        id: &str,
        patch: &Value,
        now_us: i64,
    ) -> Result<Value, Trouble> {
        let kind = Kind::of(kind)?;
        let mut inner = self.lock();
        let old = inner.shelves.of(kind).one(id).ok_or_else(missing)?.clone();
        let body = changed(&old, patch, now_us)?;
        let entry = rewritten(old, &body);
        inner.keep(kind, entry);
        Ok(body)
    }

    /// A record that names little is the newest of its kind with another id.
    pub(crate) fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, Trouble> {
        let kind = Kind::of(kind)?;
        let mut inner = self.lock();
        let newest = inner.shelves.of(kind).entries().last();
        let model = newest.ok_or_else(|| Trouble::Bad("no record to take after".to_owned()))?;
        let number = i64::try_from(inner.by_hand.len()).unwrap_or(0);
        let mut chance = Chance::of(self.seed, "by hand", number);
        let fresh = match kind {
            Kind::Cycle => Value::from(500_000_000 + number),
            _ => Value::from(chance.uuid()),
        };
        let key = if kind == Kind::Recovery { "sleep_id" } else { "id" };
        let mut patch = record.as_object().cloned().unwrap_or_default();
        patch.entry(key).or_insert(fresh);
        patch.entry("created_at").or_insert_with(|| Value::from(moment::text(now_us / 1_000)));
        let mut body = changed(model, &Value::Object(patch), now_us)?;
        if let Some(v1_id) = body.get_mut("v1_id") {
            *v1_id = Value::Null;
        }
        let id = match body.get(key) {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => return Err(Trouble::Bad(format!("`{key}` is a text or a number"))),
        };
        let entry = rewritten(Entry { id, v1: None, ..model.clone() }, &body);
        inner.keep(kind, entry);
        Ok(body)
    }

    pub(crate) fn remove(&self, kind: &str, id: &str) -> Result<(), Trouble> {
        let kind = Kind::of(kind)?;
        let mut inner = self.lock();
        if !inner.shelves.of_mut(kind).remove(id) {
            return Err(missing());
        }
        inner.by_hand.insert((kind, id.to_owned()), None);
        Ok(())
    }

    pub(crate) fn clear(&self, kind: &str) -> Result<(), Trouble> {
        let kind = Kind::of(kind)?;
        let mut inner = self.lock();
        let ids: Vec<String> =
            inner.shelves.of(kind).entries().iter().map(|entry| entry.id.clone()).collect();
        *inner.shelves.of_mut(kind) = Shelf::default();
        inner.by_hand.extend(ids.into_iter().map(|id| ((kind, id), None)));
        Ok(())
    }
}

impl Inner {
    fn keep(&mut self, kind: Kind, entry: Entry) {
        self.by_hand.insert((kind, entry.id.clone()), Some(entry.clone()));
        self.shelves.of_mut(kind).put(entry);
    }
}

fn parsed(entry: &Entry) -> Result<Value, Trouble> {
    serde_json::from_str(&entry.body).map_err(|error| Trouble::Failed(error.to_string()))
}

fn missing() -> Trouble {
    Trouble::Missing("no such record".to_owned())
}

fn changed(old: &Entry, patch: &Value, now_us: i64) -> Result<Value, Trouble> {
    let Value::Object(patch) = patch else {
        return Err(Trouble::Bad("a record is a JSON object".to_owned()));
    };
    let mut body = parsed(old)?;
    if let Some(body) = body.as_object_mut() {
        merge(body, patch);
        if !patch.contains_key("updated_at") {
            body.insert("updated_at".to_owned(), Value::from(moment::text(now_us / 1_000)));
        }
    }
    Ok(body)
}

/// Objects are merged, all else is replaced; a null stays a null.
fn merge(into: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (into.get_mut(name), value) {
            (Some(Value::Object(into)), Value::Object(patch)) => merge(into, patch),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The entry with its place on the shelf read from its body again. A recovery has no times of its
/// own and keeps its place.
fn rewritten(entry: Entry, body: &Value) -> Entry {
    let instant = |name: &str| body.get(name).and_then(Value::as_str).and_then(moment::read);
    let start_ms = instant("start").unwrap_or(entry.start_ms);
    let end_ms = if body.get("end").is_some() { instant("end") } else { entry.end_ms };
    let cycle = body.get("cycle_id").and_then(Value::as_i64).unwrap_or(entry.cycle);
    Entry { start_ms, end_ms, cycle, body: body.to_string(), ..entry }
}
