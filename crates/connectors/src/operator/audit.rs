//! The audit log for an operator: search and single entries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::ledger::{Entry, Filter};

use super::{Operator, Refusal};

const ENTRIES_MAX: usize = 100;
/// Rows that one call searches. The next call goes on from there, so that no search keeps the gate busy.
const SEARCHED_ROWS_MAX: u64 = 20_000;

#[derive(Deserialize, JsonSchema)]
pub(super) struct AuditSearchArgs {
    /// Only this grant.
    grant: Option<String>,
    /// Only this server.
    server: Option<String>,
    /// Only this tool, resource, prompt or skill.
    subject: Option<String>,
    /// Only this decision: `admitted`, `denied`, `limited`, `asked`, `refused`, `unauthenticated`,
    /// `passed` or `own`.
    decision: Option<String>,
    /// Text that occurs anywhere in an entry.
    text: Option<String>,
    /// From this time on, such as `2026-11-18T09:00:00Z`.
    since: Option<String>,
    /// Before this time.
    until: Option<String>,
    /// Only entries with a lower number.
    before: Option<i64>,
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: i64,
}

fn usual_limit() -> i64 {
    20
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct EntryArgs {
    /// The number of the entry.
    seq: i64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Found {
    /// Newest first. Members without a value are left out.
    entries: Vec<Map<String, Value>>,
    /// The `before` of the next call; null where the log begins.
    next_before: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct One {
    entry: Map<String, Value>,
}

pub(super) fn search(operator: &Operator<'_>, args: &AuditSearchArgs) -> Result<Found, Refusal> {
    let log = operator.gate.audit().map_err(Refusal::unavailable)?;
    let newest = match args.before.map(u64::try_from) {
        Some(Ok(before)) => before.saturating_sub(1),
        Some(Err(_)) => return Err(Refusal::invalid("`before` is the number of an entry")),
        None => {
            let newest = log.newest_first(&Filter::default()).map_err(Refusal::unavailable)?.next();
            newest.transpose().map_err(Refusal::unavailable)?.map_or(0, |entry| entry.seq)
        }
    };
    let oldest = newest.saturating_sub(SEARCHED_ROWS_MAX);
    let filter = Filter {
        since_us: moment(args.since.as_deref(), "since")?,
        until_us: moment(args.until.as_deref(), "until")?,
        grant: args.grant.clone(),
        server: args.server.clone(),
        subject: args.subject.clone(),
        decision: args.decision.clone(),
        text: args.text.clone(),
        seq_min: Some(oldest),
        seq_max: Some(newest),
        ..Filter::default()
    };
    let limit = usize::try_from(args.limit).unwrap_or_default().clamp(1, ENTRIES_MAX);
    let mut entries = Vec::new();
    for entry in log.newest_first(&filter).map_err(Refusal::unavailable)? {
        let entry = entry.map_err(Refusal::unavailable)?;
        if entries.len() == limit {
            return Ok(Found { entries, next_before: Some(entry.seq + 1) });
        }
        entries.push(members(&entry)?);
    }
    Ok(Found { entries, next_before: (oldest > 0).then_some(oldest) })
}

pub(super) fn read(operator: &Operator<'_>, args: &EntryArgs) -> Result<One, Refusal> {
    let log = operator.gate.audit().map_err(Refusal::unavailable)?;
    let seq = u64::try_from(args.seq).unwrap_or_default();
    let entry = log.entry(seq).map_err(Refusal::unavailable)?;
    let entry = entry.ok_or_else(|| Refusal::not_found("there is no entry with this number"))?;
    Ok(One { entry: members(&entry)? })
}

fn moment(text: Option<&str>, name: &str) -> Result<Option<i64>, Refusal> {
    let parse = |text: &str| text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_microsecond);
    let moment = text.map(parse).transpose();
    moment.map_err(|_| Refusal::invalid(format!("`{name}` is a time such as 2026-11-18T09:00:00Z")))
}

fn members(entry: &Entry) -> Result<Map<String, Value>, Refusal> {
    match serde_json::to_value(entry) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(Refusal::unavailable("the entry cannot be shown")),
    }
}
