//! The mirror as MCP resources: snapshots, windows of records, the history of syncs, changes.
//! Nothing is fetched here.

use serde_json::{Value, json};
use store::records::Window;

use super::kind::{CURRENT, Kind};
use super::lists::OPEN_LASTS_US_MAX;
use super::problem::{WhoopCode, WhoopProblem};
use super::shape::INVALID;
use super::{NAME, events, truncate};
use crate::sync::EventsRequest;
use crate::{Caller, ConnectorContext, Contents, Reading, Resource, Template, when};

const JSON: &str = "application/json";
const RUNS_MAX: i64 = 500;

pub(super) const RESOURCES: &[Resource] = &[
    Resource {
        uri: "whoop://db/profile",
        name: "profile",
        title: "Profile",
        description: "Name and e-mail as last synced.",
        mime: JSON,
        read: |ctx, _, _| at_once(snapshot(ctx, Kind::Profile)),
    },
    Resource {
        uri: "whoop://db/body_measurement",
        name: "body_measurement",
        title: "Body measurements",
        description: "Height, weight and maximum heart rate as last synced.",
        mime: JSON,
        read: |ctx, _, _| at_once(snapshot(ctx, Kind::BodyMeasurement)),
    },
];

pub(super) const TEMPLATES: &[Template] = &[
    Template {
        uri: "whoop://db/cycles/{start}/{end}",
        name: "cycles",
        title: "Cycles of a window",
        description: "Mirrored cycles between two UTC dates, the second excluded.",
        mime: JSON,
        read: |ctx, _, values| at_once(window(ctx, Kind::Cycles, values)),
    },
    Template {
        uri: "whoop://db/recoveries/{start}/{end}",
        name: "recoveries",
        title: "Recoveries of a window",
        description: "Mirrored recoveries between two UTC dates, the second excluded.",
        mime: JSON,
        read: |ctx, _, values| at_once(window(ctx, Kind::Recoveries, values)),
    },
    Template {
        uri: "whoop://db/sleeps/{start}/{end}",
        name: "sleeps",
        title: "Sleeps of a window",
        description: "Mirrored sleeps between two UTC dates, the second excluded.",
        mime: JSON,
        read: |ctx, _, values| at_once(window(ctx, Kind::Sleeps, values)),
    },
    Template {
        uri: "whoop://db/workouts/{start}/{end}",
        name: "workouts",
        title: "Workouts of a window",
        description: "Mirrored workouts between two UTC dates, the second excluded.",
        mime: JSON,
        read: |ctx, _, values| at_once(window(ctx, Kind::Workouts, values)),
    },
    Template {
        uri: "whoop://db/sync_runs/{limit}",
        name: "sync_runs",
        title: "History of syncs",
        description: "The newest runs, 1 to 500 of them.",
        mime: JSON,
        read: |ctx, _, values| at_once(runs(ctx, values)),
    },
    Template {
        uri: "whoop://db/events/{since}",
        name: "events",
        title: "Changes",
        description: "What changed in the mirror since a time or a cursor.",
        mime: JSON,
        read: |ctx, caller, values| at_once(Ok(changes(ctx, caller, values))),
    },
    Template {
        uri: "whoop://db/events/{since}/{until}",
        name: "events_until",
        title: "Changes between two times",
        description: "What changed in the mirror after one time and before another.",
        mime: JSON,
        read: |ctx, caller, values| at_once(Ok(changes(ctx, caller, values))),
    },
];

fn at_once<'a>(found: Result<Value, WhoopProblem>) -> Reading<'a> {
    let value = found.unwrap_or_else(|problem| problem.bare_envelope());
    Box::pin(std::future::ready(Contents::Text(value.to_string())))
}

fn snapshot(ctx: &ConnectorContext, kind: Kind) -> Result<Value, WhoopProblem> {
    let row = ctx
        .records
        .one(NAME, kind.name(), CURRENT)
        .map_err(|error| WhoopProblem::cache(kind.path(), &error))?;
    let record = row.and_then(|row| truncate::record(kind, &row.flat).ok());
    record.map(Value::Object).ok_or_else(|| {
        WhoopProblem::new(
            WhoopCode::NotFound,
            kind.path(),
            "nothing is mirrored yet; run sync_whoop first",
        )
    })
}

fn window(ctx: &ConnectorContext, kind: Kind, values: &[String]) -> Result<Value, WhoopProblem> {
    let bound = |at: usize| {
        let text = values.get(at).map_or("", String::as_str);
        let date = when::strict_date(text).and_then(|date| when::day_span(date, 0));
        date.map(|span| span.from_us).ok_or_else(|| {
            WhoopProblem::invalid(kind.path(), "dates are written YYYY-MM-DD and must exist")
        })
    };
    let window = Window {
        from_us: Some(bound(0)?),
        to_us: Some(bound(1)?),
        newest_first: true,
        overlap: true,
        open_end_us: Some(ctx.clock.now().wall_us),
        open_lasts_us_max: Some(OPEN_LASTS_US_MAX),
        limit: None,
        except_state: Some(INVALID),
    };
    let texts = ctx
        .records
        .window_flat(NAME, kind.name(), &window)
        .map_err(|error| WhoopProblem::cache(kind.path(), &error))?;
    let records = texts.iter().filter_map(|text| truncate::record(kind, text).ok());
    Ok(Value::Array(records.map(Value::Object).collect()))
}

fn runs(ctx: &ConnectorContext, values: &[String]) -> Result<Value, WhoopProblem> {
    let limit = values.first().and_then(|text| text.trim().parse::<i64>().ok());
    let limit = limit.filter(|limit| (1..=RUNS_MAX).contains(limit)).ok_or_else(|| {
        WhoopProblem::invalid("sync_runs", format!("the limit must be between 1 and {RUNS_MAX}"))
    })?;
    let runs = ctx
        .records
        .runs(NAME, usize::try_from(limit).unwrap_or(1))
        .map_err(|error| WhoopProblem::cache("sync_runs", &error))?;
    let rows: Vec<Value> = runs
        .iter()
        .map(|run| {
            json!({
                "id": run.id,
                "started_at": when::utc_micros(run.started_us),
                "completed_at": run.completed_us.map(when::utc_micros),
                "resource": run.resource,
                "records_fetched": run.fetched,
                "records_upserted": run.upserted,
                "status": run.status,
                "error_message": run.error,
                "since_cursor": run.since,
                "until_cursor": run.until,
            })
        })
        .collect();
    Ok(Value::Array(rows))
}

fn changes(ctx: &ConnectorContext, caller: &Caller, values: &[String]) -> Value {
    let asked = EventsRequest {
        since: values.first().map_or("", String::as_str),
        until: values.get(1).map(String::as_str),
        resources: None,
        limit: events::LIMIT_DEFAULT,
    };
    let found = events::find(ctx, caller, &asked, true);
    found.map_or_else(|problem| problem.envelope(), |events| events.value())
}
