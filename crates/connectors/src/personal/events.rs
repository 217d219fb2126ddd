//! The changes of a mirror since a time or a cursor, in the order they were stored, so that a reader
//! with a cursor does not miss records that arrive late.

use serde_json::{Value, json};
use store::records::{DeletedRecord, RecordsError, StoredRecord};

use super::mirror::List;
use crate::ConnectorContext;
use crate::sync::{EventsRequest, ResourceError};
use crate::when::{self, Here};

const LIMIT_MAX: i64 = 5_000;
const BATCH_MAX: usize = 1_000;
const CURSOR: &str = "after";

/// A reader's position: changes after this one, and not older than this time.
struct ReaderPosition {
    seq: i64,
    since_us: i64,
}

impl ReaderPosition {
    fn read(text: &str, here: Here) -> Option<ReaderPosition> {
        let mut fields = text.split('.');
        if fields.next() == Some(CURSOR) {
            let (seq, since_us) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            return Some(ReaderPosition { seq, since_us });
        }
        let since_us = when::instant_us(text).or_else(|| when::start_us(text, here).ok())?;
        Some(ReaderPosition { seq: 0, since_us })
    }

    fn text(&self) -> String {
        format!("{CURSOR}.{}.{}", self.seq, self.since_us)
    }
}

pub(crate) fn events(
    ctx: &ConnectorContext,
    service: &str,
    lists: &[&List],
    asked: &EventsRequest<'_>,
) -> Result<Value, ResourceError> {
    let here = Here { now_us: ctx.clock.now().wall_us, offset_s: 0 };
    let mut position = ReaderPosition::read(asked.since, here).ok_or_else(|| {
        invalid(format!("`since` is neither a cursor nor a time: {}", when::Unreadable))
    })?;
    let until_us = match asked.until.filter(|text| !text.is_empty()) {
        None => here.now_us,
        Some(text) => {
            when::end_us(text, here).map_err(|error| invalid(format!("`until` is {error}")))?
        }
    };
    if !(1..=LIMIT_MAX).contains(&asked.limit) {
        return Err(invalid(format!("`limit` must be between 1 and {LIMIT_MAX}")));
    }
    let limit = usize::try_from(asked.limit).unwrap_or(1);
    let kinds: Vec<&'static str> = lists.iter().map(|list| list.kind).collect();
    let kinds = chosen(&kinds, asked.resources)?;
    let mut found: Vec<Value> = Vec::new();
    let mut has_more = true;
    while has_more && found.len() < limit {
        let batch = batch(ctx, service, &kinds, position.seq)?;
        has_more = batch.len() >= BATCH_MAX;
        for (at, (seq, at_us, event)) in batch.iter().enumerate() {
            position.seq = *seq;
            if *at_us > position.since_us && *at_us < until_us {
                found.push(event.clone());
            }
            if found.len() == limit {
                has_more |= at + 1 < batch.len();
                break;
            }
        }
    }
    Ok(json!({
        "status": "success",
        "count": found.len(),
        "since": asked.since,
        "until": when::utc_micros(until_us),
        "events": found,
        "next_cursor": has_more.then(|| position.text()),
    }))
}

/// The next changes and removals, in their order. A batch has no gaps: it ends where the shorter of
/// the two may have been cut.
fn batch(
    ctx: &ConnectorContext,
    service: &str,
    kinds: &[&str],
    seq: i64,
) -> Result<Vec<(i64, i64, Value)>, RecordsError> {
    let rows = ctx.records.changes_since(service, kinds, seq, BATCH_MAX)?;
    let gone = ctx.records.deleted_since(service, kinds, seq, BATCH_MAX)?;
    let mut batch: Vec<(i64, i64, Value)> = rows.iter().map(changed).collect();
    batch.extend(gone.iter().map(removed));
    batch.sort_by_key(|(seq, ..)| *seq);
    batch.truncate(BATCH_MAX);
    Ok(batch)
}

fn changed(row: &StoredRecord) -> (i64, i64, Value) {
    let record: Value = serde_json::from_str(&row.flat).unwrap_or_default();
    let event = json!({
        "resource": row.kind, "id": row.id, "updated_at": row.updated, "record": record,
    });
    (row.seq, row.updated_us, event)
}

fn removed(gone: &DeletedRecord) -> (i64, i64, Value) {
    let event = json!({
        "resource": gone.kind,
        "id": gone.id,
        "updated_at": when::utc_micros(gone.at_us),
        "removed": true,
    });
    (gone.seq, gone.at_us, event)
}

fn chosen(
    kinds: &[&'static str],
    names: Option<&[String]>,
) -> Result<Vec<&'static str>, ResourceError> {
    let Some(names) = names else { return Ok(kinds.to_vec()) };
    let find = |name: &String| kinds.iter().copied().find(|kind| kind == name);
    let chosen: Option<Vec<&'static str>> = names.iter().map(find).collect();
    chosen
        .filter(|chosen| !chosen.is_empty())
        .ok_or_else(|| invalid(format!("unknown resource; there are {}", kinds.join(", "))))
}

fn invalid(message: String) -> ResourceError {
    ResourceError { code: "invalid_argument", message }
}
