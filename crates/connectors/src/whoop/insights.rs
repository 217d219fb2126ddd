//! Tools that say what the mirrored data says, with the evidence: computed here, never guessed by a model.
//! They read the mirror only and send nothing.

mod aggregates;
mod apps;
pub(crate) mod daily;
mod daily_cache;
mod drivers;
mod glance;
mod health;
pub(crate) mod metrics;
mod query;
mod single_metric;
mod sleep_and_load;

use insights::{Day, Metric};
use schemars::JsonSchema;
use serde::Serialize;

use super::ToolError;
use super::problem::{WhoopCode, WhoopProblem};
use crate::insight::Insight;
use crate::when;
use crate::{ConnectorContext, ToolCall};
use daily::DailyData;

use crate::daily_metrics::{Metrics, WholeMetrics};
pub(super) use apps::APPS;

pub(super) use aggregates::aggregates;
pub(super) use drivers::{drivers, relation};
pub(super) use glance::{comparison, review, today};
pub(super) use health::load_health;
pub(super) use query::query;
pub(super) use single_metric::{baseline, records, trend};
pub(super) use sleep_and_load::{sleep_report, training_load};

/// WHOOP's metrics for comparisons with those of other services.
pub(super) const DAILY_METRICS: Metrics = Metrics::Whole(WholeMetrics {
    table: metrics::METRICS,
    surveyed: metrics::SURVEYED,
    load: |records, now_us, days| Ok(daily::load(records, now_us, days)?.into_metrics()),
});

const ENDPOINT: &str = "/insights";
/// The history that a survey looks at.
const SURVEY_DAYS: i32 = 365;
/// Baselines and episodes need the days before a window.
const BEFORE_DAYS: i32 = 130;
const DAYS_MAX: i32 = 36_500;
/// What every answer is, and is not.
const NOTE: &str =
    "Statistics of your own data, not medical advice. State no number that is not in this answer.";

/// A metric in an answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct MetricInfo {
    metric: &'static str,
    title: &'static str,
    unit: insights::Unit,
    /// Which direction is better.
    better: insights::Better,
}

impl From<&Metric> for MetricInfo {
    fn from(own: &Metric) -> MetricInfo {
        MetricInfo { metric: own.name, title: own.title, unit: own.unit, better: own.better }
    }
}

/// A value with its text for people.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ShownValue {
    value: f64,
    text: String,
}

fn shown(metric: &Metric, value: f64) -> ShownValue {
    ShownValue { value: rounded(value), text: metric.unit.show(value) }
}

/// Three decimals are more than WHOOP measures.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The last days of the mirror, or a failure that says to sync.
fn data(ctx: &ConnectorContext, days: Option<i32>) -> Result<DailyData, WhoopProblem> {
    let loaded = daily_cache::recent(ctx, days);
    let data = loaded.map_err(|error| WhoopProblem::cache(ENDPOINT, &error))?;
    let data = data.in_units(ctx.units);
    if data.is_empty() {
        let message = "the mirror has no scored records for this; run sync_whoop first";
        return Err(WhoopProblem::new(WhoopCode::CacheEmpty, ENDPOINT, message));
    }
    Ok(data)
}

fn metric(name: &str) -> Result<&'static Metric, WhoopProblem> {
    metrics::metric_of(name.trim()).ok_or_else(|| {
        let known: Vec<&str> = metrics::METRICS.iter().map(|metric| metric.name).collect();
        WhoopProblem::invalid(ENDPOINT, format!("`metric` must be one of {}", known.join(", ")))
    })
}

/// A number of days, within what a calendar can show.
fn days(value: Option<i64>, default: i32) -> Result<i32, WhoopProblem> {
    match value.map(i32::try_from) {
        None => Ok(default),
        Some(Ok(days)) if (1..=DAYS_MAX).contains(&days) => Ok(days),
        Some(_) => Err(WhoopProblem::invalid(ENDPOINT, "`days` must be from 1 to 36500")),
    }
}

/// A local day in words or as a date.
fn day(data: &DailyData, name: &str, text: &str) -> Result<Day, WhoopProblem> {
    when::day(text, data.here).map(Day::from_date).ok_or_else(|| {
        let message = format!(
            "`{name}` is not a day; write it as YYYY-MM-DD, or `today`, `yesterday`, a weekday"
        );
        WhoopProblem::invalid(ENDPOINT, message)
    })
}
