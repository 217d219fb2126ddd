//! Rules of the owner about a metric: whether it has left its usual range, with the evidence.

use insights::baseline::Position;
use insights::crossing::{Run, newest_run};
use insights::{Finding, Metric, Units};
use store::records::{Records, RecordsError};
use store::settings::{NoticeRule, RuleSide};

use super::{AllMetrics, SourceSeries};

/// The run, the 30 days before it, and a few more.
const DAYS_BEFORE: i32 = 40;

/// What a rule says now.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleOutcome {
    /// The service has no such metric.
    UnknownMetric,
    /// Too little data, or no new data: neither a notice nor the end of one.
    Unclear,
    /// The metric was outside on some of the days only.
    Partly,
    /// The newest day is not where the rule says.
    Usual,
    Crossed(CrossedRule),
}

/// A rule that applies, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossedRule {
    pub title: String,
    /// The days and how many nights they are compared with; no values.
    pub evidence: String,
    /// The values, for an owner who wants them in the message.
    pub values: String,
}

/// Compares the newest days with the days before them.
pub fn check_rule(
    records: &Records,
    now_us: i64,
    units: Units,
    service: &str,
    rule: &NoticeRule,
) -> Result<RuleOutcome, RecordsError> {
    let name = format!("{service}.{}", rule.metric);
    let days = DAYS_BEFORE + rule.days;
    let found = AllMetrics::load(records, now_us, Some(days), units, |own| own == name)?;
    let Some(own) = found.all.first() else { return Ok(RuleOutcome::UnknownMetric) };
    Ok(match newest_run(&own.tested().tested, found.today, rule.days) {
        Finding::NotEnoughData(_) => RuleOutcome::Unclear,
        Finding::Found(run) => outcome(own, rule, &run),
    })
}

fn outcome(own: &SourceSeries, rule: &NoticeRule, run: &Run) -> RuleOutcome {
    let applies = |position: Position| match rule.side {
        RuleSide::Below => position == Position::Below,
        RuleSide::Above => position == Position::Above,
        RuleSide::Outside => position != Position::Within,
    };
    match run.position {
        Some(position) if applies(position) => {
            RuleOutcome::Crossed(crossed(own, run, position == Position::Below))
        }
        _ if applies(run.newest) => RuleOutcome::Partly,
        _ => RuleOutcome::Usual,
    }
}

fn crossed(own: &SourceSeries, run: &Run, is_below: bool) -> CrossedRule {
    let metric = &own.metric;
    let days = run.days.len();
    let (side, unit) =
        (if is_below { "below" } else { "above" }, if days == 1 { "day" } else { "days" });
    let (from, to) = (run.days.first().map(|day| day.0), run.days.last().map(|day| day.0));
    let span = match (from, to) {
        (Some(from), Some(to)) if from != to => format!("From {from} to {to}"),
        (_, Some(to)) => format!("On {to}"),
        _ => String::new(),
    };
    let usual = metric.cut(run.baseline.usual).map(|value| plain(metric, value));
    let show = |value: f64| metric.unit.show(value);
    let values =
        run.days.iter().map(|(day, value)| format!("{day}: {}", show(plain(metric, *value))));
    CrossedRule {
        title: format!(
            "{}: {} {side} the usual range for {days} {unit}",
            own.connector.title(),
            metric.title
        ),
        evidence: format!(
            "{span}, compared with {} of the 30 days before. This is not medical advice.",
            run.baseline.n
        ),
        values: format!(
            "usual: {} to {}\n{}",
            show(usual.low),
            show(usual.high),
            values.collect::<Vec<_>>().join("\n")
        ),
    }
}

/// The value that is shown, of one that tests use.
fn plain(metric: &Metric, value: f64) -> f64 {
    if metric.is_log { value.exp() } else { value }
}
