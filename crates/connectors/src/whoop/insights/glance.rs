//! Several metrics at once: today, a week or a month, two periods.

use insights::baseline::{Baseline, HrvStatus, Position, baseline, hrv_status};
use insights::difference::{Difference, compare_periods};
use insights::discovery::adjust;
use insights::load::TrainingLoad;
use insights::sleep::{Regularity, SleepNeed, sleep_need};
use insights::survey::{Claim, Claims};
use insights::{Day, Finding, Metric, sentences};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::daily::DailyData;
use super::health::health_data;
use super::metrics::{ASLEEP, HRV, MAIN, SLEEP_NEED, WORKOUT_ENERGY, metric_of};
use super::{
    BEFORE_DAYS, ENDPOINT, Insight, MetricInfo, NOTE, SURVEY_DAYS, ShownValue, ToolCall, ToolError,
    data, day, shown, sleep_and_load,
};
use crate::arguments::NoArgs;
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

const GLANCE_BASELINE_DAYS: i32 = 30;
const DEBT_DAYS: i32 = 14;
/// An older value says nothing about today.
const RECENT_DAYS: i32 = 7;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Today {
    date: Day,
    /// The newest day with data, where that is not today.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Day")]
    newest_day: Option<Day>,
    metrics: Vec<Glance>,
    hrv: Finding<HrvStatus>,
    training_load: Finding<TrainingLoad>,
    sleep_need: Finding<SleepNeed>,
    note: &'static str,
}

/// The newest value of a metric against its baseline.
#[derive(Serialize, JsonSchema)]
struct Glance {
    #[serde(flatten)]
    metric: MetricInfo,
    /// The day of the newest value, today or in the six days before.
    day: Option<Day>,
    value: Option<ShownValue>,
    /// Compared with the usual range of the 30 days before.
    position: Option<Position>,
    baseline: Finding<Baseline>,
}

pub(crate) async fn today(
    call: ToolCall<'_>,
    _: NoArgs,
) -> Result<Json<Insight<Today>>, ToolError> {
    let data = data(call.ctx, Some(SURVEY_DAYS))?;
    let date = data.today;
    let newest_day = data.newest().filter(|newest| *newest != date);
    let today = Today {
        date,
        newest_day,
        metrics: MAIN.iter().filter_map(|name| Some(glance(&data, metric_of(name)?))).collect(),
        hrv: hrv_status(&data.series(HRV), date),
        training_load: sleep_and_load::load_of(&data, WORKOUT_ENERGY),
        sleep_need: need(&data, date, DEBT_DAYS),
        note: NOTE,
    };
    Ok(Json(Insight::new(health_data(&data).today_summary(), today)))
}

fn glance(data: &DailyData, metric: &Metric) -> Glance {
    let metric = &data.metric(metric);
    let series = data.series(metric.name);
    let newest = series.last_days(data.today, RECENT_DAYS).points().next_back();
    let day = newest.map(|(day, _)| day);
    // A day is compared with the days before it.
    let until = day.unwrap_or(data.today).plus(-1);
    let baseline = baseline(&series, until, GLANCE_BASELINE_DAYS).map(|found| found.of(metric));
    let value = newest.map(|(_, value)| value);
    let position = value.zip(baseline.found()).map(|(value, own)| Position::of(value, own.usual));
    Glance {
        metric: metric.into(),
        day,
        value: value.map(|value| shown(metric, value)),
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
    /// The p-value adjusted for all metrics of the comparison.
    q: Option<f64>,
}

/// The main metrics of two periods, with `q` over all of them.
fn all_compared(data: &DailyData, first: (Day, Day), second: (Day, Day)) -> Vec<Compared> {
    let main = MAIN.iter().filter_map(|name| metric_of(name));
    let mut all: Vec<Compared> = main.map(|metric| compared(data, metric, first, second)).collect();
    let p: Vec<f64> = all.iter().filter_map(|own| Some(own.difference.found()?.p)).collect();
    let mut q = adjust(&p).into_iter();
    for own in &mut all {
        own.q = own.difference.found().and_then(|_| q.next());
    }
    all
}

pub(crate) async fn review(
    call: ToolCall<'_>,
    args: ReviewArgs,
) -> Result<Json<Insight<PeriodReview>>, ToolError> {
    let length = match args.period.as_deref() {
        None | Some("week") => 7,
        Some("month") => 30,
        Some(_) => {
            return Err(
                WhoopProblem::invalid(ENDPOINT, "`period` must be `week` or `month`").into()
            );
        }
    };
    let whole = data(call.ctx, None)?;
    let to = match args.until.as_deref() {
        Some(text) => day(&whole, "until", text)?,
        None => whole.today.plus(-1),
    };
    // A review of a past month has the survey, the load and the signs of that month.
    let data = whole.between(to.plus(-SURVEY_DAYS - BEFORE_DAYS), to);
    let from = to.plus(1 - length);
    let before = (from.plus(-length), from.plus(-1));
    let health = health_data(&data);
    let Claims { looks, claims, .. } = health.survey().claims(to.plus(-SURVEY_DAYS), to);
    let touches = |claim: &Claim| {
        claim.to.is_none_or(|own| own >= from) && claim.from.is_none_or(|own| own <= to)
    };
    let claims: Vec<Claim> = claims.into_iter().filter(touches).collect();
    let mut summary = health.periods_summary(&health.periods_view((from, to), before));
    summary.extend(claims.iter().map(|claim| sentences::claim(claim, &health.measured)));
    summary.extend(health.sleep_summary(from, to));
    summary.extend(health.load_summary(&health.load_view().facts));
    let review = PeriodReview {
        from,
        to,
        metrics: all_compared(&data, (from, to), before),
        claims,
        looks,
        sleep: sleep_and_load::regularity_of(&data, from, to),
        sleep_need: need(&data, to, length),
        training_load: sleep_and_load::load_of(&data, WORKOUT_ENERGY),
        unscored: data.unscored(),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, review)))
}

fn compared(data: &DailyData, metric: &Metric, first: (Day, Day), second: (Day, Day)) -> Compared {
    let metric = &data.metric(metric);
    let series = data.series(metric.name);
    let mean = |(from, to): (Day, Day)| insights::sample::mean(&series.between(from, to).values());
    Compared {
        metric: metric.into(),
        first_mean: mean(first).map(|value| shown(metric, value)),
        second_mean: mean(second).map(|value| shown(metric, value)),
        difference: compare_periods(&series, first, second),
        q: None,
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
) -> Result<Json<Insight<Comparison>>, ToolError> {
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
    if first.0 <= second.1 && second.0 <= first.1 {
        let words = "the periods must not overlap: a shared day would be on both sides";
        return Err(WhoopProblem::invalid(ENDPOINT, words).into());
    }
    let health = health_data(&data);
    let summary = health.periods_summary(&health.periods_view(first, second));
    let comparison = Comparison {
        first: [first.0, first.1],
        second: [second.0, second.1],
        metrics: all_compared(&data, first, second),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, comparison)))
}
