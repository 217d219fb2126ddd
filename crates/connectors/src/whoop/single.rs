//! Single records: from the mirror by id, otherwise from WHOOP and into the mirror.

use serde_json::Value;
use store::records::Row;

use super::api::{self, Endpoint, Patience};
use super::kind::{CURRENT, Kind};
use super::problem::{Code, Problem};
use super::shape::{INVALID, Shaped, shape_text};
use super::{NAME, Outcome, daily::pick, fit, keep, lists};
use crate::coerce::Arguments;
use crate::{Ask, Desk};

pub(super) async fn cycle(ask: Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let id = arguments.required_int("cycle_id")?;
    let fresh = arguments.flag("fresh", false)?;
    let find = |desk: &Desk| desk.records.one(NAME, Kind::Cycles.name(), &id.to_string());
    let endpoint = Endpoint::Cycle(id);
    let known = if fresh { None } else { mirrored(ask.desk, endpoint, find)? };
    let mut cycle = or_fetched(ask.desk, Kind::Cycles, endpoint, known).await?;
    if let Some(cycle) = cycle.as_object_mut()
        && let Some(since) = lists::left_open_since(cycle, ask.desk.clock.now().wall_us)
    {
        cycle.insert("stale_since".into(), since.into());
    }
    Ok(cycle)
}

/// The main sleep of the cycle; its newest nap when there is nothing else.
pub(super) async fn cycle_sleep(ask: Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let id = arguments.required_int("cycle_id")?;
    let fresh = arguments.flag("fresh", false)?;
    let endpoint = Endpoint::CycleSleep(id);
    let find = |desk: &Desk| {
        let rows = desk.records.by_parent(NAME, Kind::Sleeps.name(), &id.to_string())?;
        let recovery = desk.records.one(NAME, Kind::Recoveries.name(), &id.to_string())?;
        let recovery = recovery.and_then(|row| fit::record(Kind::Recoveries, &row.flat).ok());
        let scored = recovery.and_then(|flat| Some(flat.get("sleep_id")?.as_str()?.to_owned()));
        Ok(pick::main_sleep(rows, scored.as_deref()))
    };
    let known = if fresh { None } else { mirrored(ask.desk, endpoint, find)? };
    Ok(or_fetched(ask.desk, Kind::Sleeps, endpoint, known).await?)
}

pub(super) async fn cycle_recovery(ask: Ask<'_>) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let id = arguments.required_int("cycle_id")?;
    let fresh = arguments.flag("fresh", false)?;
    let endpoint = Endpoint::CycleRecovery(id);
    let find = |desk: &Desk| desk.records.one(NAME, Kind::Recoveries.name(), &id.to_string());
    let known = if fresh { None } else { mirrored(ask.desk, endpoint, find)? };
    Ok(or_fetched(ask.desk, Kind::Recoveries, endpoint, known).await?)
}

/// A sleep or a workout by its own id.
pub(super) async fn activity(ask: Ask<'_>, kind: Kind) -> Outcome {
    let arguments = Arguments(ask.arguments);
    let name = if kind == Kind::Sleeps { "sleep_id" } else { "workout_id" };
    let id = arguments.required_text(name)?;
    let fresh = arguments.flag("fresh", false)?;
    let endpoint = if kind == Kind::Sleeps { Endpoint::Sleep(id) } else { Endpoint::Workout(id) };
    check_id(id).map_err(|words| Problem::invalid(endpoint.path(), format!("`{name}` {words}")))?;
    let find = |desk: &Desk| desk.records.one(NAME, kind.name(), id);
    let known = if fresh { None } else { mirrored(ask.desk, endpoint, find)? };
    Ok(or_fetched(ask.desk, kind, endpoint, known).await?)
}

/// An id is one segment of a path: whatever could be read as more than that is refused.
pub(super) fn check_id(id: &str) -> Result<(), &'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    if id.is_empty() {
        Err("is empty")
    } else if id.len() > 128 || !id.chars().all(is_plain) || id.starts_with('.') {
        Err("is not the id of a record")
    } else {
        Ok(())
    }
}

pub(super) async fn snapshot(ask: Ask<'_>, kind: Kind) -> Outcome {
    let fresh = Arguments(ask.arguments).flag("fresh", false)?;
    let endpoint = if kind == Kind::Profile { Endpoint::Profile } else { Endpoint::Body };
    let find = |desk: &Desk| desk.records.one(NAME, kind.name(), CURRENT);
    let known = if fresh { None } else { mirrored(ask.desk, endpoint, find)? };
    Ok(or_fetched(ask.desk, kind, endpoint, known).await?)
}

/// What the mirror has, unless it could not be read: then WHOOP is asked again.
fn mirrored(
    desk: &Desk,
    endpoint: Endpoint<'_>,
    find: impl FnOnce(&Desk) -> Result<Option<Row>, store::records::RecordsError>,
) -> Result<Option<Row>, Problem> {
    let row = find(desk).map_err(|error| Problem::cache(endpoint.path(), &error))?;
    Ok(row.filter(|row| row.state.as_deref() != Some(INVALID)))
}

async fn or_fetched(
    desk: &Desk,
    kind: Kind,
    endpoint: Endpoint<'_>,
    known: Option<Row>,
) -> Result<Value, Problem> {
    match known {
        Some(row) => fit::record(kind, &row.flat)
            .map(Value::Object)
            .map_err(|words| Problem::new(Code::UpstreamError, endpoint.path(), words)),
        None => fetched(desk, kind, endpoint).await,
    }
}

/// Asks WHOOP for one record, keeps it and answers it flat.
pub(super) async fn fetched(
    desk: &Desk,
    kind: Kind,
    endpoint: Endpoint<'_>,
) -> Result<Value, Problem> {
    let fetched = match api::get(desk, endpoint, &[], Patience::PROMPT).await {
        Ok(fetched) => fetched,
        Err(problem) => {
            if problem.code == Code::NotFound {
                forget(desk, kind, endpoint);
            }
            return Err(problem);
        }
    };
    let kept = if kind.is_snapshot() {
        keep::keep_snapshot(desk, kind, fetched.text()).map(drop)
    } else {
        keep::keep(desk, kind, &[fetched.text()]).map(drop)
    };
    if let Err(error) = kept {
        tracing::warn!(kind = kind.name(), %error, "an answer of WHOOP was not kept");
    }
    let shaped = shape_text(kind, fetched.text());
    if let Err(fault) = &shaped.flat {
        let words = format!("WHOOP sent a record that cannot be read: {fault}");
        return Err(Problem::new(Code::UpstreamError, endpoint.path(), words));
    }
    if kind == Kind::Recoveries {
        bring_cycle(desk, &shaped).await;
    }
    Ok(fit::record(kind, &dated_text(desk, kind, &shaped)).map_or(Value::Null, Value::Object))
}

/// A recovery takes its times from its cycle. One that is not here yet is asked for; without it the
/// times stay empty.
async fn bring_cycle(desk: &Desk, recovery: &Shaped) {
    if !is_undated(desk, recovery) {
        return;
    }
    let id = recovery.id.as_deref().unwrap_or_default();
    let Some(endpoint) = Endpoint::of(Kind::Cycles, id) else { return };
    let Ok(fetched) = api::get(desk, endpoint, &[], Patience::PROMPT).await else { return };
    if let Err(error) = keep::keep(desk, Kind::Cycles, &[fetched.text()]) {
        tracing::warn!(%error, "the cycle of a recovery was not kept");
    }
}

/// Is it a recovery whose cycle is not in the mirror?
pub(super) fn is_undated(desk: &Desk, recovery: &Shaped) -> bool {
    let id = recovery.id.as_deref().unwrap_or_default();
    matches!(desk.records.one(NAME, Kind::Cycles.name(), id), Ok(None))
}

/// The derived form of a record that WHOOP has just sent; a recovery as the mirror has it, with its
/// times.
pub(super) fn dated_text(desk: &Desk, kind: Kind, shaped: &Shaped) -> String {
    let id = shaped.id.as_deref().filter(|_| kind == Kind::Recoveries);
    let row = id.and_then(|id| desk.records.one(NAME, kind.name(), id).ok().flatten());
    // What came a moment later from elsewhere is another version; only this one is answered.
    let same = row.filter(|row| row.updated_us == shaped.updated_us);
    same.map_or_else(|| shaped.flat_text(), |row| row.flat)
}

/// WHOOP does not have it any more, so neither does the mirror.
fn forget(desk: &Desk, kind: Kind, endpoint: Endpoint<'_>) {
    let id = match endpoint {
        Endpoint::Cycle(id) | Endpoint::CycleRecovery(id) => id.to_string(),
        Endpoint::Sleep(id) | Endpoint::Workout(id) => id.to_owned(),
        _ => return,
    };
    let now_us = desk.clock.now().wall_us;
    if let Err(error) = desk.records.remove(NAME, kind.name(), &[id], now_us) {
        tracing::warn!(kind = kind.name(), %error, "a deleted record stays in the mirror");
    }
}
