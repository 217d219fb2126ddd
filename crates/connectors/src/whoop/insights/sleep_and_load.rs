//! Sleep and training load in depth.

use insights::health::load_facts;
use insights::load::{TrainingLoad, fitness_by_day, training_load as load_at};
use insights::sleep::{Regularity, SleepNeed, regularity};
use insights::week::WeekStatus;
use insights::{Day, Finding, Metric, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::daily::DailyData;
use super::health::health_data;
use super::metrics::{WORKOUT_ENERGY, ZONE_MINUTES};
use super::{
    BEFORE_DAYS, ENDPOINT, Insight, MetricInfo, NOTE, SURVEY_DAYS, ToolCall, ToolError, data, days,
    glance, metric, rounded,
};
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

const REPORT_DAYS: i32 = 30;
const HISTORY_DAYS: usize = 42;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct LoadArgs {
    /// `energy`: energy of workouts, the default. `zone_minutes`: minutes in heart rate zone i times i.
    #[serde(default)]
    unit: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Load {
    /// What the load is measured in. Day strain is not used: it does not add up.
    unit: Unit,
    load: Finding<TrainingLoad>,
    /// Whether recovery suffers: the last week of each metric against its range of 60 days.
    signs: Vec<Sign>,
    /// Day, CTL and ATL of the last 42 days.
    history: Vec<(Day, f64, f64)>,
    note: &'static str,
}

/// One metric of recovery.
#[derive(Serialize, JsonSchema)]
struct Sign {
    #[serde(flatten)]
    metric: MetricInfo,
    week: Finding<WeekStatus>,
}

pub(crate) async fn training_load(
    call: ToolCall<'_>,
    args: LoadArgs,
) -> Result<Json<Insight<Load>>, ToolError> {
    let name = match args.unit.as_deref() {
        None | Some("energy" | "kj") => WORKOUT_ENERGY,
        Some("zone_minutes") => ZONE_MINUTES,
        Some(_) => {
            let words = "`unit` must be `energy` or `zone_minutes`";
            return Err(WhoopProblem::invalid(ENDPOINT, words).into());
        }
    };
    let data = data(call.ctx, Some(SURVEY_DAYS))?;
    let by_day = fitness_by_day(&data.series(name));
    let skip = by_day.len().saturating_sub(HISTORY_DAYS);
    let last = by_day.into_iter().skip(skip);
    let (health, load) = (health_data(&data), load_of(&data, name));
    let metric = data.metric(metric(name)?);
    let sign =
        |(metric, week): (Metric, Finding<WeekStatus>)| Sign { metric: (&metric).into(), week };
    let summary = health.load_summary(&load_facts(&metric, &load));
    let answer = Load {
        unit: metric.unit,
        load,
        signs: health.recovery_signs().into_iter().map(sign).collect(),
        history: last.map(|(day, ctl, atl)| (day, rounded(ctl), rounded(atl))).collect(),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, answer)))
}

/// The load of the last complete day.
pub(super) fn load_of(data: &DailyData, name: &str) -> Finding<TrainingLoad> {
    load_at(&data.series(name), data.today)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct SleepReportArgs {
    /// How many days back, 30 where it is missing.
    #[serde(default)]
    days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct SleepReport {
    from: Day,
    to: Day,
    /// On the clock of the first night; nights in other time zones count by absolute time.
    regularity: Finding<Regularity>,
    need: Finding<SleepNeed>,
    need_7_days: Finding<SleepNeed>,
    note: &'static str,
}

pub(crate) async fn sleep_report(
    call: ToolCall<'_>,
    args: SleepReportArgs,
) -> Result<Json<Insight<SleepReport>>, ToolError> {
    let days = days(args.days, REPORT_DAYS)?;
    let data = data(call.ctx, Some(days.saturating_add(BEFORE_DAYS)))?;
    let (from, to) = (data.today.plus(1 - days), data.today);
    let summary = health_data(&data).sleep_summary(from, to);
    let report = SleepReport {
        from,
        to,
        regularity: regularity_of(&data, from, to),
        need: glance::need(&data, to, days),
        need_7_days: glance::need(&data, to, 7),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, report)))
}

pub(super) fn regularity_of(data: &DailyData, from: Day, to: Day) -> Finding<Regularity> {
    regularity(&data.sleeps, from, to)
}
