//! Sleep and training load in depth.

use insights::load::{TrainingLoad, fitness_by_day, training_load as load_at};
use insights::sleep::{Regularity, SleepNeed, SleepSpan, regularity};
use insights::{Day, Finding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::daily::DailyData;
use super::metrics::{WORKOUT_ENERGY, ZONE_MINUTES};
use super::{
    BEFORE_DAYS, ENDPOINT, NOTE, SURVEY_DAYS, ToolCall, ToolError, data, days, glance, rounded,
};
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

const REPORT_DAYS: i32 = 30;
const HISTORY_DAYS: usize = 42;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct LoadArgs {
    /// `kj`: energy of workouts in kilojoules, the default. `zone_minutes`: minutes in heart rate zone i times i.
    #[serde(default)]
    unit: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Load {
    /// What the load is measured in. Day strain is not used: it does not add up.
    unit: &'static str,
    load: Finding<TrainingLoad>,
    /// Day, CTL and ATL of the last 42 days.
    history: Vec<(Day, f64, f64)>,
    note: &'static str,
}

pub(crate) async fn training_load(
    call: ToolCall<'_>,
    args: LoadArgs,
) -> Result<Json<Load>, ToolError> {
    let (unit, name) = match args.unit.as_deref() {
        None | Some("kj") => ("kj", WORKOUT_ENERGY),
        Some("zone_minutes") => ("zone_minutes", ZONE_MINUTES),
        Some(_) => {
            let message = "`unit` must be `kj` or `zone_minutes`";
            return Err(WhoopProblem::invalid(ENDPOINT, message).into());
        }
    };
    let data = data(call.ctx, Some(SURVEY_DAYS))?;
    let by_day = fitness_by_day(&data.series(name));
    let skip = by_day.len().saturating_sub(HISTORY_DAYS);
    let last = by_day.into_iter().skip(skip);
    Ok(Json(Load {
        unit,
        load: load_of(&data, name),
        history: last.map(|(day, ctl, atl)| (day, rounded(ctl), rounded(atl))).collect(),
        note: NOTE,
    }))
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
    /// On the clock of the newest record; nights in other time zones count by absolute time.
    regularity: Finding<Regularity>,
    need: Finding<SleepNeed>,
    need_7_days: Finding<SleepNeed>,
    note: &'static str,
}

pub(crate) async fn sleep_report(
    call: ToolCall<'_>,
    args: SleepReportArgs,
) -> Result<Json<SleepReport>, ToolError> {
    let days = days(args.days, REPORT_DAYS)?;
    let data = data(call.ctx, Some(days.saturating_add(BEFORE_DAYS)))?;
    let (from, to) = (data.today.plus(1 - days), data.today);
    Ok(Json(SleepReport {
        from,
        to,
        regularity: regularity_of(&data, from, to),
        need: glance::need(&data, to, days),
        need_7_days: glance::need(&data, to, 7),
        note: NOTE,
    }))
}

pub(super) fn regularity_of(data: &DailyData, from: Day, to: Day) -> Finding<Regularity> {
    let minute = |day: Day| i64::from(day.number()) * 1440;
    let inside = |span: &&SleepSpan| (minute(from)..minute(to.plus(1))).contains(&span.end_min);
    regularity(&data.sleeps.iter().filter(inside).copied().collect::<Vec<SleepSpan>>())
}
