//! Read-only SQL over the WHOOP views, within limits: one SELECT, these views, rows, bytes and steps.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::records::{Cell, QueryLimits, QueryOutput, SqlError};

use super::{ENDPOINT, ToolCall, ToolError};
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

const ROWS_MAX: usize = 1_000;
const ROWS_DEFAULT: usize = 100;
const BYTES_MAX: usize = 64 * 1024;
const LASTS_US_MAX: u64 = 2_000_000;
/// A fraction of a second for SQLite, where no function does much.
const STEPS_MAX: i32 = 20_000_000;
const VIEWS: &[&str] = &[
    "whoop_cycles",
    "whoop_recoveries",
    "whoop_sleeps",
    "whoop_workouts",
    "whoop_body_measurement",
    "whoop_journal",
];

#[derive(Deserialize, JsonSchema)]
pub(crate) struct QueryArgs {
    /// One SELECT over whoop_cycles, whoop_recoveries, whoop_sleeps, whoop_workouts, whoop_body_measurement, whoop_journal. `local_date` is the owner's day.
    sql: String,
    /// At most so many rows: 100 where it is missing, 1000 at most.
    #[serde(default)]
    limit: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct QueryResult {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// There were more rows, or they were too large.
    truncated: bool,
}

pub(crate) async fn query(
    call: ToolCall<'_>,
    args: QueryArgs,
) -> Result<Json<QueryResult>, ToolError> {
    let limit = args.limit.map_or(Some(ROWS_DEFAULT), |limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| (1..=ROWS_MAX).contains(limit));
    let limit =
        limit.ok_or_else(|| WhoopProblem::invalid(ENDPOINT, "`limit` must be from 1 to 1000"))?;
    let mut result = QueryResult { columns: Vec::new(), rows: Vec::new(), truncated: false };
    let mut bytes = 0;
    let limits = QueryLimits { views: VIEWS, steps_max: STEPS_MAX };
    let clock = call.ctx.clock.clone();
    let end_us = clock.now().steady_us.saturating_add(LASTS_US_MAX);
    let is_over = move || clock.now().steady_us >= end_us;
    let ran = call.ctx.records.sql_within(limits, is_over, &args.sql, |output| {
        match output {
            QueryOutput::Columns(columns) => result.columns = columns.to_vec(),
            QueryOutput::Row(cells) => {
                let row: Vec<Value> = cells.iter().map(value).collect();
                bytes += cells.iter().map(size).sum::<usize>();
                result.truncated = result.rows.len() == limit || bytes > BYTES_MAX;
                if result.truncated {
                    return Ok(ControlFlow::Break(()));
                }
                result.rows.push(row);
            }
        }
        Ok::<_, SqlError>(ControlFlow::Continue(()))
    });
    match ran {
        Ok(()) => Ok(Json(result)),
        Err(SqlError::Records(error)) => Err(WhoopProblem::cache(ENDPOINT, &error).into()),
        Err(SqlError::NotAQuery) => {
            let message = format!("only one SELECT over these views: {}", VIEWS.join(", "));
            Err(WhoopProblem::invalid(ENDPOINT, message).into())
        }
        Err(error) => {
            let message = error.to_string();
            let message = message.split("\nhint:").next().unwrap_or_default().to_owned();
            Err(WhoopProblem::invalid(ENDPOINT, message).into())
        }
    }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null | Cell::Blob(_) => Value::Null,
        Cell::Integer(number) => Value::from(*number),
        Cell::Real(number) => Value::from(*number),
        Cell::Text(text) => Value::from(text.as_str()),
    }
}

fn size(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) => text.len() + 2,
        _ => 8,
    }
}
