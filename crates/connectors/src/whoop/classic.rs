//! The 16 tools that older agents and policies name. Data is WHOOP's JSON as sent; the tools about
//! tokens work on the vault and never show one.

mod login;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::{self, ApiPath, Bounds, WaitPolicy};
use super::handler::ClassicFailure;
use super::kind::Kind;
use super::{here, mirror_writer, offset_s, single};
use crate::tool::Json;
use crate::when::{self, Span};
use crate::{ConnectorContext, ToolCall};

pub(super) use login::{authorization_url, exchange, refresh, revoke, set_access_token};

/// WHOOP's page limit.
const LIMIT_MAX: i64 = 25;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClassicCycleArgs {
    #[schemars(with = "f64")]
    cycle_id: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClassicSleepArgs {
    sleep_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClassicWorkoutArgs {
    workout_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClassicPageArgs {
    /// 1 to 25.
    #[schemars(with = "Option<f64>")]
    limit: Option<i64>,
    /// Inclusive: ISO-8601; a bare date begins at your midnight.
    start: Option<String>,
    /// Exclusive: ISO-8601; a bare date ends with your day.
    end: Option<String>,
    /// `next_token` of the page before.
    next_token: Option<String>,
}

/// A record as WHOOP sends it.
#[derive(Serialize)]
pub(super) struct RawRecord(Value);

impl JsonSchema for RawRecord {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawRecord".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "id": { "type": ["integer", "string"] },
                "user_id": { "type": ["integer", "null"] },
                "created_at": { "type": ["string", "null"] },
                "updated_at": { "type": ["string", "null"] },
                "start": { "type": ["string", "null"] },
                "end": { "type": ["string", "null"] },
                "score_state": { "type": ["string", "null"] },
                "score": { "type": ["object", "null"] },
            },
        })
    }
}

/// A page of records as WHOOP sends it.
#[derive(Serialize)]
pub(super) struct RawPage(Value);

impl JsonSchema for RawPage {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawPage".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "records": { "type": "array", "items": { "type": "object" } },
                "next_token": { "type": ["string", "null"] },
            },
        })
    }
}

pub(super) async fn record(
    call: ToolCall<'_>,
    endpoint: ApiPath<'_>,
) -> Result<Json<RawRecord>, ClassicFailure> {
    Ok(Json(RawRecord(as_sent(call.ctx, endpoint, &[]).await?)))
}

pub(super) async fn cycle(
    call: ToolCall<'_>,
    args: ClassicCycleArgs,
) -> Result<Json<RawRecord>, ClassicFailure> {
    record(call, ApiPath::Cycle(args.cycle_id)).await
}

pub(super) async fn cycle_sleep(
    call: ToolCall<'_>,
    args: ClassicCycleArgs,
) -> Result<Json<RawRecord>, ClassicFailure> {
    record(call, ApiPath::CycleSleep(args.cycle_id)).await
}

pub(super) async fn cycle_recovery(
    call: ToolCall<'_>,
    args: ClassicCycleArgs,
) -> Result<Json<RawRecord>, ClassicFailure> {
    record(call, ApiPath::CycleRecovery(args.cycle_id)).await
}

pub(super) async fn sleep(
    call: ToolCall<'_>,
    args: ClassicSleepArgs,
) -> Result<Json<RawRecord>, ClassicFailure> {
    check_id("sleepId", &args.sleep_id)?;
    record(call, ApiPath::Sleep(&args.sleep_id)).await
}

pub(super) async fn workout(
    call: ToolCall<'_>,
    args: ClassicWorkoutArgs,
) -> Result<Json<RawRecord>, ClassicFailure> {
    check_id("workoutId", &args.workout_id)?;
    record(call, ApiPath::Workout(&args.workout_id)).await
}

fn check_id(name: &str, id: &str) -> Result<(), ClassicFailure> {
    let invalid = |message| ClassicFailure::invalid(format!("argument `{name}` {message}"));
    single::check_id(id).map_err(invalid)
}

pub(super) async fn collection(
    call: ToolCall<'_>,
    args: ClassicPageArgs,
    kind: Kind,
) -> Result<Json<RawPage>, ClassicFailure> {
    learn_zone(call.ctx, &args).await;
    let query = query(call.ctx, args)?;
    let query: Vec<(&str, &str)> =
        query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok(Json(RawPage(as_sent(call.ctx, ApiPath::List(kind), &query).await?)))
}

fn query(
    ctx: &ConnectorContext,
    args: ClassicPageArgs,
) -> Result<Vec<(&'static str, String)>, ClassicFailure> {
    let mut query = Vec::new();
    if let Some(limit) = args.limit {
        if !(1..=LIMIT_MAX).contains(&limit) {
            let message = format!("argument `limit` must be between 1 and {LIMIT_MAX}");
            return Err(ClassicFailure::invalid(message));
        }
        query.push(("limit", limit.to_string()));
    }
    if let Some(text) = args.start {
        query.push(("start", when::utc_millis(widened(ctx, "start", &text)?.from_us)));
    }
    if let Some(text) = args.end {
        query.push(("end", when::utc_millis(widened(ctx, "end", &text)?.to_us)));
    }
    query.extend(args.next_token.filter(|token| !token.is_empty()).map(|t| ("nextToken", t)));
    Ok(query)
}

/// A day is in the owner's zone. These tools do not read the mirror, which may be empty, so WHOOP's
/// newest cycles give the offset. Without them it is UTC.
async fn learn_zone(ctx: &ConnectorContext, args: &ClassicPageArgs) {
    let is_instant =
        |text: &str| when::instant_us(text).is_some() && when::day(text, here(ctx)).is_none();
    let mut bounds = [&args.start, &args.end].into_iter().flatten();
    if bounds.all(|text| is_instant(text)) || offset_s(&ctx.records).is_some() {
        return;
    }
    let anytime = Bounds { start: None, end: None };
    if let Ok(page) = api::page(ctx, Kind::Cycles, anytime, None, WaitPolicy::PROMPT).await {
        let raws: Vec<&str> = page.records.iter().map(|raw| raw.get()).collect();
        if let Err(error) = mirror_writer::store_page(ctx, Kind::Cycles, &raws) {
            tracing::warn!(%error, "could not store the newest cycles");
        }
    }
}

/// A bare date is the whole day in the owner's zone: WHOOP itself answers 404 to one.
fn widened(ctx: &ConnectorContext, name: &str, text: &str) -> Result<Span, ClassicFailure> {
    let here = here(ctx);
    if let Some(span) = when::day(text, here).and_then(|date| when::day_span(date, here.offset_s)) {
        return Ok(span);
    }
    let wrong =
        |error: when::Unreadable| ClassicFailure::invalid(format!("argument `{name}` is {error}"));
    Ok(Span {
        from_us: when::start_us(text, here).map_err(wrong)?,
        to_us: when::end_us(text, here).map_err(wrong)?,
    })
}

/// WHOOP's complete response.
async fn as_sent(
    ctx: &ConnectorContext,
    endpoint: ApiPath<'_>,
    query: &[(&str, &str)],
) -> Result<Value, ClassicFailure> {
    let fetched = api::get(ctx, endpoint, query, WaitPolicy::PROMPT).await?;
    serde_json::from_str(fetched.text())
        .map_err(|_| ClassicFailure::new("UPSTREAM_ERROR", "WHOOP's answer is not JSON"))
}
