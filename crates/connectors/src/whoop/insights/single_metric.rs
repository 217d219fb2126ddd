//! One metric: its baselines and episodes, its trend, its records.

use insights::anomaly::{Anomalies, anomalies};
use insights::baseline::{Baseline, WINDOWS_DAYS, baseline as baseline_of};
use insights::change_point::{Changes, changes};
use insights::health::summary;
use insights::records::{PersonalRecords, Streaks, records as records_of, streaks};
use insights::trend::{Trend, trend as trend_of};
use insights::{Better, Day, Finding, Metric, Series};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::daily::DailyData;
use super::health::health_data;
use super::metrics::{self, MAIN, METRICS};
use super::{BEFORE_DAYS, Insight, MetricInfo, NOTE, ToolCall, ToolError, data, days, metric};
use crate::tool::Json;

pub(super) const BASELINE_DAYS: i32 = 90;
/// More daily values than this would not be a compact answer.
const VALUES_MAX: usize = 400;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct MetricArgs {
    /// Such as `recovery`, `hrv`, `resting_heart_rate`, `asleep`, `strain`, `workout_energy`.
    metric: String,
    /// How many days back, 90 where it is missing.
    #[serde(default)]
    days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MetricBaseline {
    #[serde(flatten)]
    metric: MetricInfo,
    until: Day,
    /// Over 14, 30 and 90 days.
    baselines: Vec<Finding<Baseline>>,
    /// Runs of unusual nights; `p` is corrected for the search, so that most runs are chance.
    anomalies: Finding<Anomalies>,
    changes: Finding<Changes>,
    note: &'static str,
}

pub(crate) async fn baseline(
    call: ToolCall<'_>,
    args: MetricArgs,
) -> Result<Json<Insight<MetricBaseline>>, ToolError> {
    let (metric, days) = (metric(&args.metric)?, days(args.days, BASELINE_DAYS)?);
    let data = data(call.ctx, Some(days.saturating_add(BEFORE_DAYS)))?;
    let metric = &data.metric(metric);
    let (series, until) = (data.series(metric.name), data.today);
    let baselines = WINDOWS_DAYS
        .map(|window| baseline_of(&series, until, window).map(|found| found.of(metric)));
    let from = until.plus(1 - days);
    let summary = health_data(&data).baseline_summary(metric.name, from, until);
    let baseline = MetricBaseline {
        metric: metric.into(),
        until,
        baselines: baselines.into(),
        anomalies: anomalies(&series, from, until),
        changes: changes(&series.between(from, until)),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, baseline)))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MetricTrend {
    #[serde(flatten)]
    metric: MetricInfo,
    trend: Finding<Trend>,
    /// The trend is in the better direction; none where no direction is, or where there is no trend at 5 %.
    is_better: Option<bool>,
    /// Days and values, the last 400 at most.
    values: Vec<(Day, f64)>,
    note: &'static str,
}

pub(crate) async fn trend(
    call: ToolCall<'_>,
    args: MetricArgs,
) -> Result<Json<Insight<MetricTrend>>, ToolError> {
    let (metric, days) = (metric(&args.metric)?, days(args.days, BASELINE_DAYS)?);
    let data = data(call.ctx, Some(days))?;
    let metric = &data.metric(metric);
    let series = data.series(metric.name).last_days(data.today, days);
    let trend = trend_of(&series);
    let words = health_data(&data).trend_sentence(metric, &trend);
    let dates = trend.found().map(|own| format!("{} to {}: ", own.from, own.to));
    let summary = vec![format!("{}{words}", dates.unwrap_or_default())];
    let answer = MetricTrend {
        metric: metric.into(),
        is_better: trend.found().and_then(|own| is_better(metric, own)),
        trend,
        values: last_values(&series),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, answer)))
}

fn is_better(metric: &Metric, trend: &Trend) -> Option<bool> {
    match metric.better {
        _ if trend.p > 0.05 => None,
        Better::Higher => Some(trend.per_day > 0.0),
        Better::Lower => Some(trend.per_day < 0.0),
        Better::Neither => None,
    }
}

fn last_values(series: &Series) -> Vec<(Day, f64)> {
    let skip = series.n().saturating_sub(VALUES_MAX);
    series.points().skip(skip).map(|(day, value)| (day, super::rounded(value))).collect()
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct RecordsArgs {
    /// One metric; the main ones where it is missing.
    #[serde(default)]
    metric: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Records {
    records: Vec<MetricRecords>,
    note: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct MetricRecords {
    #[serde(flatten)]
    metric: MetricInfo,
    #[serde(flatten)]
    records: Finding<PersonalRecords>,
    /// Days in a row that were better than the median of all days; none where no direction is better.
    streaks: Option<Streaks>,
}

pub(crate) async fn records(
    call: ToolCall<'_>,
    args: RecordsArgs,
) -> Result<Json<Insight<Records>>, ToolError> {
    let wanted: Vec<&Metric> = match args.metric.as_deref() {
        Some(name) => vec![metric(name)?],
        None => METRICS.iter().filter(|metric| MAIN.contains(&metric.name)).collect(),
    };
    let data = data(call.ctx, None)?;
    let records: Vec<MetricRecords> =
        wanted.into_iter().map(|metric| of_metric(&data, metric)).collect();
    let sentence = |own: &MetricRecords| {
        let metric = data.metric(metrics::metric_of(own.metric.metric)?);
        Some(summary::records(&metric, &own.records, own.streaks.as_ref()))
    };
    let summary = records.iter().filter_map(sentence).collect();
    Ok(Json(Insight::new(summary, Records { records, note: NOTE })))
}

fn of_metric(data: &DailyData, metric: &Metric) -> MetricRecords {
    let metric = &data.metric(metric);
    let series = data.series(metric.name);
    let middle = insights::sample::median(&series.values());
    let until = series.last_day().unwrap_or(data.today);
    let streaks = middle.and_then(|middle| match metric.better {
        Better::Higher => Some(streaks(&series, until, |value| value > middle)),
        Better::Lower => Some(streaks(&series, until, |value| value < middle)),
        Better::Neither => None,
    });
    MetricRecords { metric: metric.into(), records: records_of(&series, metric.better), streaks }
}
