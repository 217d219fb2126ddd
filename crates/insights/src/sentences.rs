//! Sentences for people. Each has its numbers, its interval, its dates and its sample size.

use crate::correlation::Correlation;
use crate::finding::{Finding, Shortfall};
use crate::metric::{Metric, Unit};
use crate::survey::{Claim, ClaimKind, Measured, ShortLook};

/// A single relation is called one up to this p.
const LEVEL: f64 = 0.05;

/// A claim as one sentence.
pub fn claim(claim: &Claim, measured: &[Measured]) -> String {
    let metric = metric_of(measured, claim.metric);
    let title = metric.map_or(claim.metric, |metric| metric.title);
    let size = |value: f64| sized(claim, metric, value);
    let interval =
        format!("95 % interval {} to {}", size(claim.interval.low), size(claim.interval.high));
    let worth = format!("{} days, worth {:.0}", claim.n, claim.n_eff);
    let dates = match (claim.from, claim.to) {
        (Some(from), Some(to)) if from != to => format!("{from} to {to}"),
        (Some(day), _) | (_, Some(day)) => day.to_string(),
        _ => String::new(),
    };
    let other = claim.other.as_deref().unwrap_or_default();
    let other_title = metric_of(measured, other).map_or(other, |metric| metric.title);
    match claim.kind {
        ClaimKind::Anomaly => {
            let (nights, change) = (claim.n, size(claim.size));
            format!(
                "{title} was unusual from {dates}: {change} from its baseline ({interval}; {nights} nights)."
            )
        }
        ClaimKind::Behaviour => {
            let change = size(claim.size);
            format!(
                "{title} differs by {change} with “{other}” ({interval}; {worth} independent ones; {dates})."
            )
        }
        ClaimKind::ChangePoint => {
            let change = size(claim.size);
            format!(
                "{title} changed its level by {change} between {dates} ({interval}; {worth} independent ones)."
            )
        }
        ClaimKind::Trend => {
            let change = size(claim.size);
            format!(
                "{title} moved by {change} per 30 days, {dates} ({interval}; {worth} independent ones)."
            )
        }
        ClaimKind::Correlation => {
            let when = if claim.lag_days == Some(0) { "" } else { " of the day before" };
            let (r, low, high) = (claim.size, claim.interval.low, claim.interval.high);
            format!(
                "{title} goes with {other_title}{when}: r {r:.2} (95 % interval {low:.2} to {high:.2}; {worth} independent ones)."
            )
        }
    }
}

fn metric_of<'a>(measured: &'a [Measured], name: &str) -> Option<&'a Metric> {
    measured.iter().map(|own| &own.metric).find(|metric| metric.name == name)
}

/// A size with its sign and unit.
fn sized(claim: &Claim, metric: Option<&Metric>, value: f64) -> String {
    match metric {
        Some(metric) if !claim.is_percent => signed(metric.unit, value),
        // Plus zero, so that a small change is not minus nothing.
        _ => format!("{:+.0} %", value.round() + 0.0).replace('-', "−").replace("+0 %", "0 %"),
    }
}

/// A difference with its sign and unit.
pub fn signed(unit: Unit, value: f64) -> String {
    let text = unit.show_difference(value);
    let is_positive = value > 0.0 && text.chars().any(|c| ('1'..='9').contains(&c));
    if is_positive { format!("+{text}") } else { text }
}

/// A look without a discovery: no effect was shown, which is not the same as no effect.
pub fn unclear(claim: &Claim, measured: &[Measured]) -> String {
    let metric = metric_of(measured, claim.metric);
    let title = metric.map_or(claim.metric, |metric| metric.title);
    let other = claim.other.as_deref().unwrap_or_default();
    let other = metric_of(measured, other).map_or(other, |metric| metric.title);
    let worth = format!("{} days, worth {:.0} independent ones", claim.n, claim.n_eff);
    if claim.kind == ClaimKind::Correlation {
        let when = if claim.lag_days == Some(0) { "" } else { " of the day before" };
        let (r, low, high) = (claim.size, claim.interval.low, claim.interval.high);
        return format!(
            "{title} and {other}{when}: r {r:.2} (95 % interval {low:.2} to {high:.2}; {worth})."
        )
        .replace('-', "−");
    }
    let size = |value: f64| sized(claim, metric, value);
    format!(
        "{title} with “{other}”: {} (95 % interval {} to {}; {worth}).",
        size(claim.size),
        size(claim.interval.low),
        size(claim.interval.high)
    )
}

/// Two metrics as one sentence: whether they go together, or what is missing to say it.
/// `counted` is what n counts: days, or blocks of days.
pub fn relation(
    (x, y): (&str, &str),
    lag_days: i32,
    found: &Finding<Correlation>,
    counted: &str,
) -> String {
    let when = match lag_days {
        0 => String::new(),
        1 => " of the next day".to_owned(),
        days => format!(" {days} days later"),
    };
    let found = match found {
        Finding::Found(found) => found,
        Finding::NotEnoughData(short) => {
            return format!("{x} and {y}{when}: {}.", shortfall(short));
        }
    };
    let shown = if found.p <= LEVEL { "go together" } else { "were not shown to go together" };
    let (r, low, high) = (found.r, found.r_interval.low, found.r_interval.high);
    format!(
        "{x} and {y}{when} {shown}: r {r:.2} (95 % interval {low:.2} to {high:.2}; {} {counted}, worth {:.0} independent ones; p {:.3}).",
        found.n, found.n_eff, found.p
    )
    .replace('-', "−")
}

/// How much is missing, as one clause.
pub fn shortfall(own: &Shortfall) -> String {
    format!("not enough data: {} {}, {} more needed", own.have, own.of, own.missing)
}

/// A look that had too little data.
pub fn short_series(short: &ShortLook, measured: &[Measured]) -> String {
    let title = metric_of(measured, short.metric).map_or(short.metric, |metric| metric.title);
    let other =
        metric_of(measured, &short.other).map_or(short.other.as_str(), |metric| metric.title);
    format!("{title} and “{other}”: {}", shortfall(&short.shortfall))
}
