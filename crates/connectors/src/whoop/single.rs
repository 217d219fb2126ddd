//! Single records: from the mirror by id, otherwise from WHOOP and into the mirror.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::records::StoredRecord;

use super::api::{self, ApiPath, WaitPolicy};
use super::kind::{CURRENT, Kind};
use super::problem::{WhoopCode, WhoopProblem};
use super::records::{Cycle, Record, Recovery, Sleep, Workout};
use super::shape::{INVALID, Shaped, shape_text};
use super::{NAME, ToolError, daily::pick, lists, mirror_writer, truncate};
use crate::tool::Json;
use crate::{ConnectorContext, ToolCall};

#[derive(Deserialize, JsonSchema)]
pub(super) struct FreshArgs {
    /// Ask WHOOP instead of the local mirror.
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct CycleArgs {
    cycle_id: i64,
    /// Ask WHOOP instead of the local mirror.
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SleepArgs {
    /// The sleep's UUID.
    sleep_id: String,
    /// Ask WHOOP instead of the local mirror.
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct WorkoutArgs {
    /// The workout's UUID.
    workout_id: String,
    /// Ask WHOOP instead of the local mirror.
    #[serde(default)]
    fresh: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct OneCycle {
    #[serde(flatten)]
    cycle: Cycle,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stale_since: Option<String>,
}

pub(super) async fn cycle(
    call: ToolCall<'_>,
    args: CycleArgs,
) -> Result<Json<OneCycle>, ToolError> {
    let id = args.cycle_id;
    let find = |ctx: &ConnectorContext| ctx.records.one(NAME, Kind::Cycles.name(), &id.to_string());
    let endpoint = ApiPath::Cycle(id);
    let known = if args.fresh { None } else { mirrored(call.ctx, endpoint, find)? };
    let flat = or_fetched(call.ctx, Kind::Cycles, endpoint, known).await?;
    let stale_since = lists::left_open_since(&flat, call.ctx.clock.now().wall_us);
    Ok(Json(OneCycle { cycle: typed(flat, endpoint)?, stale_since }))
}

/// The main sleep of the cycle; its newest nap if there is no other sleep.
pub(super) async fn cycle_sleep(
    call: ToolCall<'_>,
    args: CycleArgs,
) -> Result<Json<Sleep>, ToolError> {
    let id = args.cycle_id;
    let endpoint = ApiPath::CycleSleep(id);
    let find = |ctx: &ConnectorContext| {
        let rows = ctx.records.by_parent(NAME, Kind::Sleeps.name(), &id.to_string())?;
        let recovery = ctx.records.one(NAME, Kind::Recoveries.name(), &id.to_string())?;
        let recovery = recovery.and_then(|row| truncate::record(Kind::Recoveries, &row.flat).ok());
        let scored = recovery.and_then(|flat| Some(flat.get("sleep_id")?.as_str()?.to_owned()));
        Ok(pick::main_sleep(rows, scored.as_deref()))
    };
    let known = if args.fresh { None } else { mirrored(call.ctx, endpoint, find)? };
    record(call.ctx, endpoint, known).await
}

pub(super) async fn cycle_recovery(
    call: ToolCall<'_>,
    args: CycleArgs,
) -> Result<Json<Recovery>, ToolError> {
    let id = args.cycle_id;
    let endpoint = ApiPath::CycleRecovery(id);
    let find =
        |ctx: &ConnectorContext| ctx.records.one(NAME, Kind::Recoveries.name(), &id.to_string());
    let known = if args.fresh { None } else { mirrored(call.ctx, endpoint, find)? };
    record(call.ctx, endpoint, known).await
}

pub(super) async fn sleep(call: ToolCall<'_>, args: SleepArgs) -> Result<Json<Sleep>, ToolError> {
    let id = args.sleep_id.as_str();
    activity(call.ctx, "sleep_id", id, ApiPath::Sleep(id), args.fresh).await
}

pub(super) async fn workout(
    call: ToolCall<'_>,
    args: WorkoutArgs,
) -> Result<Json<Workout>, ToolError> {
    let id = args.workout_id.as_str();
    activity(call.ctx, "workout_id", id, ApiPath::Workout(id), args.fresh).await
}

/// A sleep or a workout by its own id.
async fn activity<T: Record>(
    ctx: &ConnectorContext,
    name: &str,
    id: &str,
    endpoint: ApiPath<'_>,
    fresh: bool,
) -> Result<Json<T>, ToolError> {
    check_id(id)
        .map_err(|message| WhoopProblem::invalid(endpoint.path(), format!("`{name}` {message}")))?;
    let find = |ctx: &ConnectorContext| ctx.records.one(NAME, T::KIND.name(), id);
    let known = if fresh { None } else { mirrored(ctx, endpoint, find)? };
    record(ctx, endpoint, known).await
}

/// An id must be one path segment; anything else is refused.
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

pub(super) async fn snapshot<T: Record>(
    call: ToolCall<'_>,
    args: FreshArgs,
) -> Result<Json<T>, ToolError> {
    let endpoint = if T::KIND == Kind::Profile { ApiPath::Profile } else { ApiPath::Body };
    let find = |ctx: &ConnectorContext| ctx.records.one(NAME, T::KIND.name(), CURRENT);
    let known = if args.fresh { None } else { mirrored(call.ctx, endpoint, find)? };
    record(call.ctx, endpoint, known).await
}

async fn record<T: Record>(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    known: Option<StoredRecord>,
) -> Result<Json<T>, ToolError> {
    let flat = or_fetched(ctx, T::KIND, endpoint, known).await?;
    Ok(Json(typed(flat, endpoint)?))
}

fn typed<T: Record>(flat: Map<String, Value>, endpoint: ApiPath<'_>) -> Result<T, WhoopProblem> {
    T::of(flat).ok_or_else(|| {
        let message =
            "the record in the mirror is damaged; `tollgate sync whoop --full` brings it again";
        WhoopProblem::new(WhoopCode::CacheError, endpoint.path(), message)
    })
}

/// The stored record, unless it is unreadable: then it is requested from WHOOP again.
fn mirrored(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    find: impl FnOnce(&ConnectorContext) -> Result<Option<StoredRecord>, store::records::RecordsError>,
) -> Result<Option<StoredRecord>, WhoopProblem> {
    let row = find(ctx).map_err(|error| WhoopProblem::cache(endpoint.path(), &error))?;
    Ok(row.filter(|row| row.state.as_deref() != Some(INVALID)))
}

async fn or_fetched(
    ctx: &ConnectorContext,
    kind: Kind,
    endpoint: ApiPath<'_>,
    known: Option<StoredRecord>,
) -> Result<Map<String, Value>, WhoopProblem> {
    match known {
        Some(row) => truncate::record(kind, &row.flat).map_err(|message| {
            WhoopProblem::new(WhoopCode::UpstreamError, endpoint.path(), message)
        }),
        None => fetched(ctx, kind, endpoint).await,
    }
}

/// Fetches one record from WHOOP, stores it and returns it flat.
pub(super) async fn fetched(
    ctx: &ConnectorContext,
    kind: Kind,
    endpoint: ApiPath<'_>,
) -> Result<Map<String, Value>, WhoopProblem> {
    let fetched = match api::get(ctx, endpoint, &[], WaitPolicy::PROMPT).await {
        Ok(fetched) => fetched,
        Err(problem) => {
            if problem.code == WhoopCode::NotFound {
                forget(ctx, kind, endpoint);
            }
            return Err(problem);
        }
    };
    let kept = if kind.is_snapshot() {
        mirror_writer::store_snapshot(ctx, kind, fetched.text()).map(drop)
    } else {
        mirror_writer::store_page(ctx, kind, &[fetched.text()]).map(drop)
    };
    if let Err(error) = kept {
        tracing::warn!(kind = kind.name(), %error, "an answer of WHOOP was not kept");
    }
    let shaped = shape_text(kind, fetched.text());
    if let Err(fault) = &shaped.flat {
        let message = format!("WHOOP sent a record that cannot be read: {fault}");
        return Err(WhoopProblem::new(WhoopCode::UpstreamError, endpoint.path(), message));
    }
    if kind == Kind::Recoveries {
        bring_cycle(ctx, &shaped).await;
    }
    Ok(truncate::record(kind, &dated_text(ctx, kind, &shaped)).unwrap_or_default())
}

/// A recovery takes its times from its cycle. A missing cycle is fetched; without it the
/// times stay empty.
async fn bring_cycle(ctx: &ConnectorContext, recovery: &Shaped) {
    if !is_undated(ctx, recovery) {
        return;
    }
    let id = recovery.id.as_deref().unwrap_or_default();
    let Some(endpoint) = ApiPath::of(Kind::Cycles, id) else { return };
    let Ok(fetched) = api::get(ctx, endpoint, &[], WaitPolicy::PROMPT).await else { return };
    if let Err(error) = mirror_writer::store_page(ctx, Kind::Cycles, &[fetched.text()]) {
        tracing::warn!(%error, "could not store the cycle of a recovery");
    }
}

/// Is it a recovery whose cycle is not in the mirror?
pub(super) fn is_undated(ctx: &ConnectorContext, recovery: &Shaped) -> bool {
    let id = recovery.id.as_deref().unwrap_or_default();
    matches!(ctx.records.one(NAME, Kind::Cycles.name(), id), Ok(None))
}

/// The derived form of a fetched record; a recovery as stored in the mirror, with its
/// times.
pub(super) fn dated_text(ctx: &ConnectorContext, kind: Kind, shaped: &Shaped) -> String {
    let id = shaped.id.as_deref().filter(|_| kind == Kind::Recoveries);
    let row = id.and_then(|id| ctx.records.one(NAME, kind.name(), id).ok().flatten());
    // A version that another process stored since is ignored; only this one is returned.
    let same = row.filter(|row| row.updated_us == shaped.updated_us);
    same.map_or_else(|| shaped.flat_text(), |row| row.flat)
}

/// Deletes a record that WHOOP no longer has.
fn forget(ctx: &ConnectorContext, kind: Kind, endpoint: ApiPath<'_>) {
    let id = match endpoint {
        ApiPath::Cycle(id) | ApiPath::CycleRecovery(id) => id.to_string(),
        ApiPath::Sleep(id) | ApiPath::Workout(id) => id.to_owned(),
        _ => return,
    };
    let now_us = ctx.clock.now().wall_us;
    if let Err(error) = ctx.records.remove(NAME, kind.name(), &[id], now_us) {
        tracing::warn!(kind = kind.name(), %error, "a deleted record stays in the mirror");
    }
}
