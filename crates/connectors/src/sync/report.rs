//! The result of a sync as tools, commands and the history show it.

use serde_json::{Map, Value, json};

use super::Fault;
use super::turn::Turn;
use crate::when::utc_micros;

/// Nothing was fetched, because some names are none of the service's.
pub(super) fn refused(now_us: i64, unknown: &[String]) -> Value {
    let warnings: Vec<String> =
        unknown.iter().map(|name| format!("unknown resource: {name}")).collect();
    json!({
        "status": "error",
        "started_at": utc_micros(now_us),
        "completed_at": utc_micros(now_us),
        "resources": {},
        "warnings": warnings,
    })
}

pub(super) fn result(
    started_us: i64,
    completed_us: i64,
    turns: &[Turn<'_>],
    outcomes: &[Result<Option<String>, Fault>],
) -> Value {
    let mut resources = Map::new();
    let mut warnings = Vec::new();
    for (turn, outcome) in turns.iter().zip(outcomes) {
        let name = turn.resource.name;
        resources.insert(name.to_owned(), resource(turn, outcome));
        warnings.extend(turn.tally().warnings(name));
        warnings.extend(outcome.as_ref().err().map(|fault| format!("{name}: {}", fault.line())));
    }
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let status = match failed {
        0 => "success",
        all if all == outcomes.len() => "error",
        _ => "partial",
    };
    let mut out = Map::new();
    out.insert("status".into(), json!(status));
    out.insert("started_at".into(), json!(utc_micros(started_us)));
    out.insert("completed_at".into(), json!(utc_micros(completed_us)));
    out.insert("resources".into(), Value::Object(resources));
    if !warnings.is_empty() {
        out.insert("warnings".into(), json!(warnings));
    }
    Value::Object(out)
}

/// What came before a failure was kept, so it is counted also then.
fn resource(turn: &Turn<'_>, outcome: &Result<Option<String>, Fault>) -> Value {
    let tally = turn.tally();
    let mut out = Map::new();
    out.insert("records_fetched".into(), json!(tally.fetched));
    out.insert("records_upserted".into(), json!(tally.upserted));
    if tally.removed > 0 {
        out.insert("records_removed".into(), json!(tally.removed));
    }
    if tally.doubtful > 0 {
        out.insert("records_doubtful".into(), json!(tally.doubtful));
    }
    match outcome {
        Ok(cursor) => {
            out.insert("cursor_after".into(), json!(cursor));
            out.insert("status".into(), json!("success"));
        }
        Err(fault) => {
            out.insert("cursor_after".into(), Value::Null);
            out.insert("status".into(), json!("error"));
            out.insert("error".into(), json!(fault.line()));
        }
    }
    Value::Object(out)
}
