//! Correlations: the survey of all pairs, and one pair of metrics.

use insights::best_nights::BestNights;
use insights::correlation::{Correlation, correlation};
use insights::survey::Claims;
use insights::{Day, Finding, sentences};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::health::health_data;
use super::{
    BEFORE_DAYS, ENDPOINT, Insight, MetricInfo, NOTE, SURVEY_DAYS, ToolCall, ToolError, data, days,
    metric,
};
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

const LAG_DAYS_MAX: i64 = 14;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DriversArgs {
    /// How many days back, 365 where it is missing.
    #[serde(default)]
    days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Drivers {
    from: Day,
    to: Day,
    /// Journal questions that have answers.
    behaviours: Vec<String>,
    #[serde(flatten)]
    claims: Claims,
    /// The quarter of the nights with the best recovery against the others. These are looks of their own.
    best_nights: Finding<BestNights>,
    note: &'static str,
}

pub(crate) async fn drivers(
    call: ToolCall<'_>,
    args: DriversArgs,
) -> Result<Json<Insight<Drivers>>, ToolError> {
    let days = days(args.days, SURVEY_DAYS)?;
    // Episodes are judged by the days before them.
    let data = data(call.ctx, Some(days.saturating_add(BEFORE_DAYS)))?;
    let (from, to) = (data.today.plus(1 - days), data.today);
    let health = health_data(&data);
    let (claims, best_nights) = (health.survey().claims(from, to), health.best_nights(from, to));
    let summary = health.drivers_summary(&claims, &best_nights);
    let drivers = Drivers {
        from,
        to,
        behaviours: data.behaviours.iter().map(|own| own.name.clone()).collect(),
        claims,
        best_nights,
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, drivers)))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct RelationArgs {
    /// The metric that may come first, such as `strain`.
    x: String,
    /// The metric that may follow, such as `recovery`.
    y: String,
    /// Days from `x` to `y`: 0 where it is missing, up to 14. A night and its recovery have the same day; strain and the next recovery are 1 apart.
    #[serde(default)]
    lag_days: Option<i64>,
    /// How many days back, 365 where it is missing.
    #[serde(default)]
    days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Relation {
    x: MetricInfo,
    y: MetricInfo,
    /// Without weekday means. HRV is the logarithm.
    relation: Finding<Correlation>,
    /// A single test. Of twenty pairs without a relation, one has a p below 5 %.
    looks: usize,
    note: &'static str,
}

pub(crate) async fn relation(
    call: ToolCall<'_>,
    args: RelationArgs,
) -> Result<Json<Insight<Relation>>, ToolError> {
    let (x, y) = (metric(&args.x)?, metric(&args.y)?);
    let lag = args.lag_days.unwrap_or(0);
    let lag = i32::try_from(lag).ok().filter(|_| (0..=LAG_DAYS_MAX).contains(&lag));
    let lag =
        lag.ok_or_else(|| WhoopProblem::invalid(ENDPOINT, "`lag_days` must be from 0 to 14"))?;
    let days = days(args.days, SURVEY_DAYS)?;
    let data = data(call.ctx, Some(days))?;
    let tested = |name: &str| {
        let measured = data.measured().into_iter().find(|own| own.metric.name == name);
        measured.map(|own| own.tested()).unwrap_or_default().last_days(data.today, days)
    };
    let (x, y) = (data.metric(x), data.metric(y));
    let relation = correlation(&tested(x.name), &tested(y.name), lag);
    let summary = vec![sentences::relation((x.title, y.title), lag, &relation, "days")];
    let relation = Relation { x: (&x).into(), y: (&y).into(), relation, looks: 1, note: NOTE };
    Ok(Json(Insight::new(summary, relation)))
}
