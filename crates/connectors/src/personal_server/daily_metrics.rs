//! Tools over the metrics of all sources: which there are, how two go together, and all pairs at once.

use insights::across::{
    Look, RelatedPair, RelatedPairs, ShortPair, SourceMetric, relate, relate_blocks,
};
use insights::blocks::{block_means, block_series};
use insights::correlation::{Correlation, correlation, correlation_of_blocks};
use insights::{Better, BlockLength, Day, Finding, Unit, sentences};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NAME;
use crate::ToolCall;
use crate::arguments::NoArgs;
use crate::daily_metrics::{AllMetrics, SourceSeries, known};
use crate::insight::Insight;
use crate::personal::{Code, Problem};
use crate::tool::Json;

const DAYS_DEFAULT: i32 = 365;
const DAYS_MAX: i64 = 36_500;
const LAG_DAYS_MAX: i64 = 14;
/// Pairs without a discovery that an answer shows.
const UNCLEAR_MAX: usize = 20;
/// What every answer is, and is not.
const NOTE: &str = "Statistics of the owner's own data, not medical advice. Two metrics that go together \
                    need not cause each other. State no number that is not in this answer.";

/// A metric with what is known about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SourceMetricInfo {
    /// The name for arguments, such as `spotify.late_listening`.
    metric: String,
    source: &'static str,
    title: &'static str,
    unit: Unit,
    /// Which direction is better.
    better: Better,
}

fn info(own: &SourceSeries) -> SourceMetricInfo {
    SourceMetricInfo {
        metric: own.name(),
        source: own.connector.title(),
        title: own.metric.title,
        unit: own.metric.unit,
        better: own.metric.better,
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MetricList {
    today: Day,
    metrics: Vec<CoveredMetric>,
    /// Days are the owner's local days, by the time zone of the WHOOP records; UTC days without them.
    days_are_local: bool,
    note: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct CoveredMetric {
    #[serde(flatten)]
    info: SourceMetricInfo,
    /// Days with a value. None: the source is not connected, not synced, or has no such entries.
    n: usize,
    from: Option<Day>,
    to: Option<Day>,
}

pub(crate) async fn list(call: ToolCall<'_>, _: NoArgs) -> Result<Json<MetricList>, Problem> {
    let found = load(call, None, |_| true)?;
    let covered = |own: &SourceSeries| match call.bound {
        None => CoveredMetric {
            info: info(own),
            n: own.series.n(),
            from: own.series.first_day(),
            to: own.series.last_day(),
        },
        Some(bound) => {
            let (begin, until) = (Day::from_number(0), own.settled_until(found.today));
            let blocks = block_means(&own.series, bound, begin, until);
            CoveredMetric {
                info: info(own),
                n: blocks.iter().map(|block| block.n).sum(),
                from: blocks.first().map(|block| block.from),
                to: blocks.last().map(|block| block.to),
            }
        }
    };
    Ok(Json(MetricList {
        today: found.today,
        metrics: found.all.iter().map(covered).collect(),
        days_are_local: found.has_zone,
        note: NOTE,
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct RelateArgs {
    /// The metric that may come first, such as `spotify.late_listening`.
    x: String,
    /// The metric that may follow, such as `whoop.asleep`.
    y: String,
    /// Days from `x` to `y`: 0 where it is missing, up to 14. An evening meets the night of the next day: 1.
    #[serde(default)]
    lag_days: Option<i64>,
    /// How many days back, 365 where it is missing.
    #[serde(default)]
    days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct RelatedMetrics {
    x: SourceMetricInfo,
    y: SourceMetricInfo,
    /// Without weekday means. HRV is the logarithm.
    relation: Finding<Correlation>,
    /// Where only aggregates may leave, `n` counts blocks of so many days instead of days.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    block_days: Option<i32>,
    /// A single test. Of twenty pairs without a relation, one has a p below 5 %.
    looks: usize,
    days_are_local: bool,
    note: &'static str,
}

pub(crate) async fn relate_two(
    call: ToolCall<'_>,
    args: RelateArgs,
) -> Result<Json<Insight<RelatedMetrics>>, Problem> {
    let lag = args.lag_days.unwrap_or(0);
    let lag = i32::try_from(lag).ok().filter(|_| (0..=LAG_DAYS_MAX).contains(&lag));
    let lag = lag.ok_or_else(|| invalid("`lag_days` must be from 0 to 14"))?;
    let days = days(args.days)?;
    for name in [&args.x, &args.y] {
        if !known().any(|(own, ..)| own == *name) {
            let message = format!("`{name}` is no metric");
            return Err(Problem::invalid(NAME, message, "list_daily_metrics names them"));
        }
    }
    let found = load(call, Some(days), |name| name == args.x || name == args.y)?;
    let of = |name: &str| found.all.iter().find(|own| own.name() == name);
    let (Some(x), Some(y)) = (of(&args.x), of(&args.y)) else {
        return Err(invalid("a metric is missing"));
    };
    if call.bound.is_some() && lag != 0 {
        return Err(invalid("`lag_days` must be 0, because only aggregates may leave"));
    }
    let (x_values, y_values) = (tested(call, &found, x, days), tested(call, &found, y, days));
    let relation = match call.bound {
        None => correlation(&x_values.tested, &y_values.tested, lag),
        Some(_) => correlation_of_blocks(&x_values.tested, &y_values.tested, 0),
    };
    let title = |own: &SourceSeries| format!("{} ({})", own.metric.title, own.connector.title());
    let summary = vec![sentences::relation((&title(x), &title(y)), lag, &relation, counted(call))];
    let related = RelatedMetrics {
        x: info(x),
        y: info(y),
        relation,
        block_days: call.bound.map(BlockLength::days),
        looks: 1,
        days_are_local: found.has_zone,
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, related)))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct SurveyArgs {
    /// How many days back, 365 where it is missing.
    #[serde(default)]
    days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct SourceSurvey {
    from: Day,
    to: Day,
    /// Each pair of metrics of two sources, on the same day and with either of them a day before the other.
    looks: usize,
    /// The share of false claims that is accepted.
    false_share_max: f64,
    /// The strongest first. `q` is `p` after all looks.
    claims: Vec<RelatedPair>,
    /// Pairs for which no relation was shown: those with the smallest p, 20 at most.
    unclear: Vec<RelatedPair>,
    /// Pairs with too few days on the same day, with how many are missing.
    short: Vec<ShortPair>,
    /// Where only aggregates may leave, `n` counts blocks of so many days instead of days.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    block_days: Option<i32>,
    days_are_local: bool,
    note: &'static str,
}

pub(crate) async fn survey(
    call: ToolCall<'_>,
    args: SurveyArgs,
) -> Result<Json<Insight<SourceSurvey>>, Problem> {
    let days = days(args.days)?;
    let found = load(call, Some(days), |_| true)?;
    let from = found.today.plus(1 - days);
    let metrics: Vec<(&str, SourceMetric)> = found
        .all
        .iter()
        .filter(|own| own.is_surveyed && !own.series.is_empty())
        .map(|own| (own.connector.name(), tested(call, &found, own, days)))
        .collect();
    let mut looks = Vec::new();
    for (at, (source, x)) in metrics.iter().enumerate() {
        for (_, y) in metrics.iter().skip(at + 1).filter(|(other, _)| other != source) {
            looks.push(Look { x, y, lag_days: 0 });
            if call.bound.is_none() {
                looks.push(Look { x, y, lag_days: 1 });
                looks.push(Look { x: y, y: x, lag_days: 1 });
            }
        }
    }
    let found_pairs = if call.bound.is_some() { relate_blocks(looks) } else { relate(looks) };
    let RelatedPairs { looks, false_share_max, claims, mut unclear, mut short } = found_pairs;
    unclear.truncate(UNCLEAR_MAX);
    short.retain(|pair| pair.lag_days == 0);
    let mut summary = vec![format!(
        "{} of {looks} looks are findings, {from} to {}; at most {:.0} % of findings are expected to be false.",
        claims.len(),
        found.today,
        false_share_max * 100.0
    )];
    let sentence = |own: &RelatedPair| {
        let relation = Finding::Found(own.correlation.clone());
        sentences::relation((&own.x, &own.y), own.correlation.lag_days, &relation, counted(call))
    };
    summary.extend(claims.iter().map(sentence));
    let survey = SourceSurvey {
        from,
        to: found.today,
        looks,
        false_share_max,
        claims,
        unclear,
        short,
        block_days: call.bound.map(BlockLength::days),
        days_are_local: found.has_zone,
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, survey)))
}

/// What `n` counts.
fn counted(call: ToolCall<'_>) -> &'static str {
    if call.bound.is_some() { "blocks" } else { "days" }
}

/// The values that tests use, within the last days: by day, or by block where only aggregates may leave.
fn tested(call: ToolCall<'_>, found: &AllMetrics, own: &SourceSeries, days: i32) -> SourceMetric {
    let from = found.today.plus(1 - days);
    match call.bound {
        None => {
            let metric = own.tested();
            SourceMetric { tested: metric.tested.between(from, found.today), ..metric }
        }
        Some(bound) => {
            let until = own.settled_until(found.today);
            own.with(block_series(&own.series, bound, from, until)).tested()
        }
    }
}

fn load(
    call: ToolCall<'_>,
    days: Option<i32>,
    wanted: impl Fn(&str) -> bool,
) -> Result<AllMetrics, Problem> {
    let now_us = call.ctx.clock.now().wall_us;
    // With a bound everything is read: where a window begins must not show which days have an entry.
    let days = days.filter(|_| call.bound.is_none());
    AllMetrics::load(&call.ctx.records, now_us, days, call.ctx.units, wanted).map_err(|error| {
        tracing::warn!(%error, "could not read the mirror");
        let message = "the mirror cannot be read";
        Problem::new(Code::UpstreamError, NAME, message, "the owner can run `tollgate doctor`")
    })
}

fn days(value: Option<i64>) -> Result<i32, Problem> {
    match value {
        None => Ok(DAYS_DEFAULT),
        Some(days) if (1..=DAYS_MAX).contains(&days) => {
            i32::try_from(days).map_err(|_| invalid("`days` is too large"))
        }
        Some(_) => Err(invalid("`days` must be from 1 to 36500")),
    }
}

fn invalid(message: &str) -> Problem {
    Problem::invalid(NAME, message, "call again with another value")
}
