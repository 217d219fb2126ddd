//! Several metrics at once: today, a week or a month, two periods.

use insights::baseline::{Baseline, HrvStatus, Position, baseline, hrv_status};
use insights::difference::{Difference, compare_periods};
use insights::load::TrainingLoad;
use insights::sleep::{Regularity, SleepNeed, sleep_need};
use insights::survey::{Claim, Claims};
use insights::{Day, Finding, Metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::daily::DailyData;
use super::metrics::{ASLEEP, HRV, MAIN, SLEEP_NEED, WORKOUT_ENERGY, metric_of};
use super::{
    ENDPOINT, MetricInfo, NOTE, SURVEY_DAYS, ShownValue, ToolCall, ToolError, data, day, drivers,
    shown, sleep_and_load,
};
use crate::arguments::NoArgs;
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

const GLANCE_BASELINE_DAYS: i32 = 30;
const DEBT_DAYS: i32 = 14;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Today {
    date: Day,
    /// The newest day with data, if that is not today.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Day")]
    newest_day: Option<Day>,
    metrics: Vec<Glance>,
    hrv: Finding<HrvStatus>,
    training_load: Finding<TrainingLoad>,
    sleep_need: Finding<SleepNeed>,
    note: &'static str,
}

/// A metric of today against its baseline.
#[derive(Serialize, JsonSchema)]
struct Glance {
    #[serde(flatten)]
    metric: MetricInfo,
    today: Option<ShownValue>,
    /// Compared with the usual range of 30 days.
    position: Option<Position>,
    baseline: Finding<Baseline>,
}

pub(crate) async fn today(call: ToolCall<'_>, _: NoArgs) -> Result<Json<Today>, ToolError> {
    let data = data(call.ctx, Some(SURVEY_DAYS))?;
    let date = data.today;
    let newest_day = data.newest().filter(|newest| *newest != date);
    Ok(Json(Today {
        date,
        newest_day,
        metrics: MAIN.iter().filter_map(|name| Some(glance(&data, metric_of(name)?))).collect(),
        hrv: hrv_status(&data.series(HRV), date),
        training_load: sleep_and_load::load_of(&data, WORKOUT_ENERGY),
        sleep_need: need(&data, date, DEBT_DAYS),
        note: NOTE,
    }))
}

fn glance(data: &DailyData, metric: &Metric) -> Glance {
    let series = data.series(metric.name);
    // Today is compared with the days before it.
    let baseline =
        baseline(&series, data.today.plus(-1), GLANCE_BASELINE_DAYS).map(|found| found.of(metric));
    let today = series.get(data.today);
    let position = today.zip(baseline.found()).map(|(value, own)| Position::of(value, own.usual));
    Glance {
        metric: metric.into(),
        today: today.map(|value| shown(metric, value)),
        position,
        baseline,
    }
}

pub(super) fn need(data: &DailyData, until: Day, days: i32) -> Finding<SleepNeed> {
    sleep_need(&data.series(ASLEEP), &data.series(SLEEP_NEED), until, days)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReviewArgs {
    /// `week` (the last 7 days, the default) or `month` (the last 30 days).
    #[serde(default)]
    period: Option<String>,
    /// The last day of the period: YYYY-MM-DD, or `today`, `yesterday`. Yesterday where it is missing.
    #[serde(default)]
    until: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct PeriodReview {
    from: Day,
    to: Day,
    /// Each metric of the period against the same number of days before it.
    metrics: Vec<Compared>,
    /// Discoveries of the survey of the last year that touch the period.
    claims: Vec<Claim>,
    /// How many looks the survey made.
    looks: usize,
    sleep: Finding<Regularity>,
    sleep_need: Finding<SleepNeed>,
    training_load: Finding<TrainingLoad>,
    /// Records without a score, which are left out.
    unscored: usize,
    note: &'static str,
}

/// A metric of one period against another.
#[derive(Serialize, JsonSchema)]
struct Compared {
    #[serde(flatten)]
    metric: MetricInfo,
    first_mean: Option<ShownValue>,
    second_mean: Option<ShownValue>,
    #[serde(flatten)]
    difference: Finding<Difference>,
}

pub(crate) async fn review(
    call: ToolCall<'_>,
    args: ReviewArgs,
) -> Result<Json<PeriodReview>, ToolError> {
    let length = match args.period.as_deref() {
        None | Some("week") => 7,
        Some("month") => 30,
        Some(_) => {
            return Err(
                WhoopProblem::invalid(ENDPOINT, "`period` must be `week` or `month`").into()
            );
        }
    };
    let data = data(call.ctx, Some(SURVEY_DAYS))?;
    let to = match args.until.as_deref() {
        Some(text) => day(&data, "until", text)?,
        None => data.today.plus(-1),
    };
    let from = to.plus(1 - length);
    let before = (from.plus(-length), from.plus(-1));
    let Claims { looks, claims, .. } = drivers::survey(&data).claims(to.plus(-SURVEY_DAYS), to);
    let touches = |claim: &Claim| {
        claim.to.is_none_or(|own| own >= from) && claim.from.is_none_or(|own| own <= to)
    };
    let main = MAIN.iter().filter_map(|name| metric_of(name));
    Ok(Json(PeriodReview {
        from,
        to,
        metrics: main.map(|metric| compared(&data, metric, (from, to), before)).collect(),
        claims: claims.into_iter().filter(touches).collect(),
        looks,
        sleep: sleep_and_load::regularity_of(&data, from, to),
        sleep_need: need(&data, to, length),
        training_load: sleep_and_load::load_of(&data, WORKOUT_ENERGY),
        unscored: data.unscored,
        note: NOTE,
    }))
}

fn compared(data: &DailyData, metric: &Metric, first: (Day, Day), second: (Day, Day)) -> Compared {
    let series = data.series(metric.name);
    let mean = |(from, to): (Day, Day)| insights::sample::mean(&series.between(from, to).values());
    Compared {
        metric: metric.into(),
        first_mean: mean(first).map(|value| shown(metric, value)),
        second_mean: mean(second).map(|value| shown(metric, value)),
        difference: compare_periods(&series, first, second),
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ComparisonArgs {
    /// First day of the first period: YYYY-MM-DD.
    first_from: String,
    /// Last day of the first period.
    first_to: String,
    /// First day of the second period.
    second_from: String,
    /// Last day of the second period.
    second_to: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Comparison {
    first: [Day; 2],
    second: [Day; 2],
    /// The first period minus the second.
    metrics: Vec<Compared>,
    note: &'static str,
}

pub(crate) async fn comparison(
    call: ToolCall<'_>,
    args: ComparisonArgs,
) -> Result<Json<Comparison>, ToolError> {
    let data = data(call.ctx, None)?;
    let first =
        (day(&data, "first_from", &args.first_from)?, day(&data, "first_to", &args.first_to)?);
    let second =
        (day(&data, "second_from", &args.second_from)?, day(&data, "second_to", &args.second_to)?);
    if first.0 > first.1 || second.0 > second.1 {
        return Err(
            WhoopProblem::invalid(ENDPOINT, "a period must not end before it begins").into()
        );
    }
    let main = MAIN.iter().filter_map(|name| metric_of(name));
    Ok(Json(Comparison {
        first: [first.0, first.1],
        second: [second.0, second.1],
        metrics: main.map(|metric| compared(&data, metric, first, second)).collect(),
        note: NOTE,
    }))
}
