//! Means of blocks of days: the only numbers that leave where a policy says `aggregate_only`.

use insights::blocks::{BlockMean, block_means, block_series};
use insights::health::summary;
use insights::{BlockLength, Day, effective, sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ENDPOINT, Insight, MetricInfo, NOTE, SURVEY_DAYS, ShownValue, ToolCall, ToolError, data, days,
    metric, rounded, shown,
};
use crate::tool::Json;
use crate::whoop::problem::WhoopProblem;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct AggregatesArgs {
    /// Such as `recovery`, `hrv`, `resting_heart_rate`, `asleep`, `strain`, `workout_energy`.
    metric: String,
    /// How many days back, 365 where it is missing.
    #[serde(default)]
    days: Option<i64>,
    /// Days of a block at least: 7 where it is missing, then 14, 28, 56, 112, 224, 448. A policy may ask for more.
    #[serde(default)]
    block_days: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Aggregates {
    #[serde(flatten)]
    metric: MetricInfo,
    /// Blocks begin on Mondays and have a value on every day; others are left out.
    block_days: i32,
    blocks: Vec<ShownBlock>,
    /// Days in all blocks.
    n: usize,
    n_blocks: usize,
    /// How many independent blocks they are worth.
    n_eff: f64,
    /// The mean of the blocks.
    mean: Option<ShownValue>,
    /// The standard deviation of the blocks.
    deviation: Option<f64>,
    note: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct ShownBlock {
    from: Day,
    to: Day,
    n: usize,
    mean: ShownValue,
}

pub(crate) async fn aggregates(
    call: ToolCall<'_>,
    args: AggregatesArgs,
) -> Result<Json<Insight<Aggregates>>, ToolError> {
    let (metric, days) = (metric(&args.metric)?, days(args.days, SURVEY_DAYS)?);
    let asked = u32::try_from(args.block_days.unwrap_or(0));
    let asked = asked
        .map_err(|_| WhoopProblem::invalid(ENDPOINT, "`block_days` is not a number of days"))?;
    let length = BlockLength::at_least(asked);
    let length = call.bound.map_or(length, |bound| bound.max(length));
    // Everything is read, whatever the window: whether there is data at all would depend on single nights.
    let data = data(call.ctx, None)?;
    let metric = &data.metric(metric);
    let (from, until) = (data.today.plus(1 - days), data.today.plus(-1));
    let series = data.series(metric.name);
    let means = block_means(&series, length, from, until);
    // Of the means alone, as all that leaves under a bound.
    let n_eff = effective::of_mean(&block_series(&series, length, from, until));
    let values: Vec<f64> = means.iter().map(|block| block.mean).collect();
    let block = |block: &BlockMean| ShownBlock {
        from: block.from,
        to: block.to,
        n: block.n,
        mean: shown(metric, block.mean),
    };
    let summary = vec![summary::blocks(metric, length.days(), &values)];
    let aggregates = Aggregates {
        metric: metric.into(),
        block_days: length.days(),
        blocks: means.iter().map(block).collect(),
        n: means.iter().map(|block| block.n).sum(),
        n_blocks: means.len(),
        n_eff: if means.is_empty() { 0.0 } else { n_eff },
        mean: sample::mean(&values).map(|mean| shown(metric, mean)),
        deviation: sample::variance(&values).map(|variance| rounded(variance.sqrt())),
        note: NOTE,
    };
    Ok(Json(Insight::new(summary, aggregates)))
}
