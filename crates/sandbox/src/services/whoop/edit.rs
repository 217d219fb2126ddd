//! Manual edits of records: merge, add, remove. They survive when time passes and the rest is regenerated.

use serde_json::Value;

use super::collection::{Collection, Entry};
use super::{Kind, Whoop, WhoopState};
use crate::error::ControlError;
use crate::record_store::merge;
use crate::rng::Rng;
use crate::timestamp;

pub(super) fn records(whoop: &Whoop, kind: &str) -> Result<Vec<Value>, ControlError> {
    let kind = Kind::of(kind)?;
    let state = whoop.lock();
    state.collections.of(kind).entries().iter().map(parsed).collect()
}

pub(super) fn record(whoop: &Whoop, kind: &str, id: &str) -> Result<Value, ControlError> {
    let kind = Kind::of(kind)?;
    parsed(whoop.lock().collections.of(kind).get(id).ok_or_else(missing)?)
}

pub(super) fn edit(
    whoop: &Whoop,
    kind: &str,
    id: &str,
    patch: &Value,
    now_us: i64,
) -> Result<Value, ControlError> {
    let kind = Kind::of(kind)?;
    let mut state = whoop.lock();
    let old = state.collections.of(kind).get(id).ok_or_else(missing)?.clone();
    let body = changed(&old, patch, now_us)?;
    let entry = rewritten(old, &body);
    state.keep(kind, entry);
    Ok(body)
}

/// Missing fields are copied from the newest record of the kind, with a new id.
pub(super) fn add(
    whoop: &Whoop,
    kind: &str,
    record: &Value,
    now_us: i64,
) -> Result<Value, ControlError> {
    let kind = Kind::of(kind)?;
    let mut state = whoop.lock();
    let newest = state.collections.of(kind).entries().last();
    let model = newest.ok_or_else(|| ControlError::Bad("no record to copy from".to_owned()))?;
    let number = i64::try_from(state.by_hand.len()).unwrap_or(0);
    let mut rng = Rng::stream(whoop.seed, "by hand", number);
    let fresh = match kind {
        Kind::Cycle => Value::from(500_000_000 + number),
        _ => Value::from(rng.uuid()),
    };
    let key = if kind == Kind::Recovery { "sleep_id" } else { "id" };
    let mut patch = record.as_object().cloned().unwrap_or_default();
    patch.entry(key).or_insert(fresh);
    patch.entry("created_at").or_insert_with(|| Value::from(timestamp::text(now_us / 1_000)));
    let mut body = changed(model, &Value::Object(patch), now_us)?;
    if let Some(v1_id) = body.get_mut("v1_id") {
        *v1_id = Value::Null;
    }
    let id = match body.get(key) {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => return Err(ControlError::Bad(format!("`{key}` is a text or a number"))),
    };
    let entry = rewritten(Entry { id, v1: None, ..model.clone() }, &body);
    state.keep(kind, entry);
    Ok(body)
}

pub(super) fn remove(whoop: &Whoop, kind: &str, id: &str) -> Result<(), ControlError> {
    let kind = Kind::of(kind)?;
    let mut state = whoop.lock();
    if !state.collections.of_mut(kind).remove(id) {
        return Err(missing());
    }
    state.by_hand.insert((kind, id.to_owned()), None);
    Ok(())
}

pub(super) fn clear(whoop: &Whoop, kind: &str) -> Result<(), ControlError> {
    let kind = Kind::of(kind)?;
    let mut state = whoop.lock();
    let ids: Vec<String> =
        state.collections.of(kind).entries().iter().map(|entry| entry.id.clone()).collect();
    *state.collections.of_mut(kind) = Collection::default();
    state.by_hand.extend(ids.into_iter().map(|id| ((kind, id), None)));
    Ok(())
}

impl WhoopState {
    fn keep(&mut self, kind: Kind, entry: Entry) {
        self.by_hand.insert((kind, entry.id.clone()), Some(entry.clone()));
        self.collections.of_mut(kind).put(entry);
    }
}

fn parsed(entry: &Entry) -> Result<Value, ControlError> {
    serde_json::from_str(&entry.body).map_err(|error| ControlError::Failed(error.to_string()))
}

fn missing() -> ControlError {
    ControlError::Missing("no such record".to_owned())
}

fn changed(old: &Entry, patch: &Value, now_us: i64) -> Result<Value, ControlError> {
    let Value::Object(patch) = patch else {
        return Err(ControlError::Bad("a record is a JSON object".to_owned()));
    };
    let mut body = parsed(old)?;
    if let Some(body) = body.as_object_mut() {
        merge(body, patch);
        if !patch.contains_key("updated_at") {
            body.insert("updated_at".to_owned(), Value::from(timestamp::text(now_us / 1_000)));
        }
    }
    Ok(body)
}

/// The entry with its times read from the edited body. A recovery has no own times and keeps its position.
fn rewritten(entry: Entry, body: &Value) -> Entry {
    let instant = |name: &str| body.get(name).and_then(Value::as_str).and_then(timestamp::read);
    let start_ms = instant("start").unwrap_or(entry.start_ms);
    let end_ms = if body.get("end").is_some() { instant("end") } else { entry.end_ms };
    let cycle = body.get("cycle_id").and_then(Value::as_i64).unwrap_or(entry.cycle);
    Entry { start_ms, end_ms, cycle, body: body.to_string(), ..entry }
}
