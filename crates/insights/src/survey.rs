//! All looks at a person's data at once. A look becomes a claim only if it is a discovery among all
//! looks that were made, so that a report does not fill with chance findings.

use schemars::JsonSchema;
use serde::Serialize;

use crate::anomaly::{Episode, anomalies};
use crate::change_point::changes;
use crate::correlation::correlation;
use crate::day::Day;
use crate::difference::behaviour_effect;
use crate::discovery::{FALSE_SHARE_MAX, adjust_among};
use crate::finding::{Finding, Interval, Shortfall};
use crate::metric::{Metric, Units};
use crate::sample::real;
use crate::series::Series;
use crate::trend::trend;

/// The window in which a trend is looked for.
const TREND_DAYS: i32 = 90;
/// Nights on which an episode that another vital supports may begin.
const NIGHTS_AROUND: f64 = 7.0;

/// A metric with its values.
#[derive(Clone, Debug)]
pub struct Measured {
    pub metric: Metric,
    pub series: Series,
}

impl Measured {
    /// The same in the units of the owner.
    #[must_use]
    pub fn in_units(self, units: Units) -> Measured {
        let (metric, conversion) = self.metric.in_units(units);
        let series = if metric == self.metric {
            self.series
        } else {
            self.series.map(|own| conversion.apply(own))
        };
        Measured { metric, series }
    }

    /// The values that tests use: logarithms where those are closer to normal.
    pub fn tested(&self) -> Series {
        if !self.metric.is_log {
            return self.series.clone();
        }
        let logs = self.series.points().filter(|(_, value)| *value > 0.0);
        Series::from_points(logs.map(|(day, value)| (day, value.ln())))
    }
}

/// A question that the owner answers by day, with 1 for yes and 0 for no.
#[derive(Clone, Debug)]
pub struct Behaviour {
    pub name: String,
    pub answers: Series,
    /// Days from the answer to the night that it may affect.
    pub lag_days: i32,
}

/// The behaviour that is derived from flights.
pub const JET_LAG: &str = "days after a change of time zone";
/// A change of the clock by less is daylight saving time or a short trip.
const JET_LAG_MINUTES_MIN: f64 = 180.0;
/// Nights after a flight that count.
const JET_LAG_NIGHTS: i32 = 5;

/// Nights within five days of a change of time zone, against all others. `offsets` has the minutes east
/// of Greenwich by day. None without a flight.
pub fn jet_lag(offsets: &Series) -> Option<Behaviour> {
    let points: Vec<(Day, f64)> = offsets.points().collect();
    let flights: Vec<Day> = points
        .iter()
        .zip(points.iter().skip(1))
        .filter(|(before, after)| (after.1 - before.1).abs() >= JET_LAG_MINUTES_MIN)
        .map(|(_, after)| after.0)
        .collect();
    let after_flight =
        |day: Day| flights.iter().any(|flight| (0..JET_LAG_NIGHTS).contains(&day.since(*flight)));
    let answers = offsets.points().map(|(day, _)| (day, f64::from(u8::from(after_flight(day)))));
    let answers = Series::from_points(answers);
    (!flights.is_empty()).then(|| Behaviour { name: JET_LAG.to_owned(), answers, lag_days: 0 })
}

/// A pair of metrics to correlate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLook {
    pub x: &'static str,
    pub y: &'static str,
    pub lag_days: i32,
}

/// What a survey looks at.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub measured: Vec<Measured>,
    pub behaviours: Vec<Behaviour>,
    /// Metrics that a behaviour may affect.
    pub outcomes: Vec<&'static str>,
    pub pairs: Vec<PairLook>,
    /// Metrics in which illness or strain shows as an episode.
    pub vitals: Vec<&'static str>,
}

/// What kind of look made a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    Anomaly,
    Behaviour,
    ChangePoint,
    Correlation,
    Trend,
}

/// Something that the data says.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Claim {
    pub kind: ClaimKind,
    /// The metric that changed or was affected.
    pub metric: &'static str,
    /// The other metric, or the behaviour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub other: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub lag_days: Option<i32>,
    pub from: Option<Day>,
    pub to: Option<Day>,
    /// In the unit of the metric, or in percent where `is_percent`; r for a correlation; per 30 days for a trend.
    pub size: f64,
    pub interval: Interval,
    pub is_percent: bool,
    pub n: usize,
    pub n_eff: f64,
    pub p: f64,
    /// The p-value adjusted for all looks.
    pub q: f64,
}

/// The claims, with the number of looks they were selected from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Claims {
    pub looks: usize,
    /// The share of false claims that is accepted.
    pub false_share_max: f64,
    /// The strongest first.
    pub claims: Vec<Claim>,
    /// Behaviours and pairs that were looked at without a discovery: no effect was shown.
    pub unclear: Vec<Claim>,
    /// Looks that had too little data.
    pub short: Vec<ShortLook>,
}

/// A look that had too little data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShortLook {
    pub metric: &'static str,
    pub other: String,
    #[serde(flatten)]
    pub shortfall: Shortfall,
}

impl Survey {
    /// Looks everywhere and keeps the discoveries.
    pub fn claims(&self, from: Day, until: Day) -> Claims {
        let mut looks = Looks::default();
        for measured in &self.measured {
            look_at_levels(measured, from, until, &mut looks);
        }
        let is_vital = |own: &&Measured| self.vitals.contains(&own.metric.name);
        let vitals: Vec<&Measured> = self.measured.iter().filter(is_vital).collect();
        look_for_episodes(&vitals, from, until, &mut looks);
        for behaviour in &self.behaviours {
            for outcome in self.outcomes.iter().filter_map(|name| self.measured(name)) {
                look_at_behaviour(behaviour, outcome, from, until, &mut looks);
            }
        }
        for pair in &self.pairs {
            if let (Some(x), Some(y)) = (self.measured(pair.x), self.measured(pair.y)) {
                look_at_pair(pair, x, y, from, until, &mut looks);
            }
        }
        looks.discoveries()
    }

    pub fn measured(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.metric.name == name)
    }
}

/// All looks so far.
#[derive(Default)]
struct Looks {
    count: usize,
    candidates: Vec<Claim>,
    short: Vec<ShortLook>,
}

impl Looks {
    fn add(&mut self, claim: Claim) {
        self.count += 1;
        self.candidates.push(claim);
    }

    fn add_short(&mut self, metric: &'static str, other: &str, shortfall: Shortfall) {
        self.short.push(ShortLook { metric, other: other.to_owned(), shortfall });
    }

    fn discoveries(self) -> Claims {
        let p: Vec<f64> = self.candidates.iter().map(|claim| claim.p).collect();
        let q = adjust_among(&p, self.count);
        let adjusted = self.candidates.into_iter().zip(q).map(|(claim, q)| Claim { q, ..claim });
        let (mut claims, mut unclear): (Vec<Claim>, Vec<Claim>) =
            adjusted.partition(|claim| claim.q <= FALSE_SHARE_MAX);
        claims.sort_by(|a, b| a.p.total_cmp(&b.p));
        unclear.retain(|claim| claim.other.is_some());
        Claims {
            looks: self.count,
            false_share_max: FALSE_SHARE_MAX,
            claims,
            unclear,
            short: self.short,
        }
    }
}

/// A difference of logarithms as a change in percent.
fn percent(log: f64) -> f64 {
    100.0 * (log.exp() - 1.0)
}

/// Size and interval in the unit of the metric, or in percent.
fn sized(metric: &Metric, size: f64, interval: Interval) -> (f64, Interval) {
    if metric.is_log { (percent(size), interval.map(percent)) } else { (size, interval) }
}

fn look_at_levels(measured: &Measured, from: Day, until: Day, looks: &mut Looks) {
    let metric = &measured.metric;
    let series = measured.tested().between(from, until);
    let empty = Claim {
        kind: ClaimKind::Trend,
        metric: metric.name,
        other: None,
        lag_days: None,
        from: None,
        to: None,
        size: 0.0,
        interval: Interval { low: 0.0, high: 0.0 },
        is_percent: metric.is_log,
        n: 0,
        n_eff: 0.0,
        p: 1.0,
        q: 1.0,
    };
    if let Some(trend) = trend(&series.last_days(until, TREND_DAYS)).into_found() {
        let (size, interval) = sized(metric, trend.per_30_days, trend.per_30_days_interval);
        let (from, to) = (Some(trend.from), Some(trend.to));
        let (n, n_eff, p) = (trend.n, trend.n_eff, trend.p);
        looks.add(Claim { from, to, size, interval, n, n_eff, p, ..empty.clone() });
    }
    let Some(found) = changes(&series).into_found() else { return };
    if found.changes.is_empty() {
        looks.count += 1;
    }
    let share = found.n_eff / real(found.n.max(1));
    for change in found.changes {
        let (size, interval) = sized(metric, change.difference, change.interval);
        let n = change.n_before + change.n_after;
        looks.add(Claim {
            kind: ClaimKind::ChangePoint,
            from: Some(change.earliest),
            to: Some(change.latest),
            size,
            interval,
            n,
            n_eff: real(n) * share,
            p: change.p,
            ..empty.clone()
        });
    }
}

/// Looks for episodes in all vitals. An episode that another vital shows on the same nights needs less
/// evidence of its own, because those nights were chosen by the other.
fn look_for_episodes(vitals: &[&Measured], from: Day, until: Day, looks: &mut Looks) {
    let found: Vec<(&Metric, Vec<Episode>)> = vitals
        .iter()
        .filter_map(|vital| {
            let found = anomalies(&vital.tested(), from, until).into_found()?;
            Some((&vital.metric, found.episodes))
        })
        .collect();
    for (metric, episodes) in &found {
        if episodes.is_empty() {
            looks.count += 1;
        }
        for episode in episodes {
            let others = found.iter().filter(|(other, _)| other.name != metric.name);
            let p = supported(episode, others.flat_map(|(_, episodes)| episodes));
            looks.add(of_episode(metric, episode, p));
        }
    }
}

/// The better of the evidence alone and the evidence with the support of another vital.
fn supported<'a>(own: &Episode, others: impl Iterator<Item = &'a Episode>) -> f64 {
    let overlaps = |other: &&Episode| other.from <= own.to && own.from <= other.to;
    let support = others.filter(overlaps).map(|other| other.p).fold(1.0, f64::min);
    let with_support = support.max(own.p_alone * NIGHTS_AROUND);
    (2.0 * own.p.min(with_support)).min(1.0)
}

fn of_episode(metric: &Metric, episode: &Episode, p: f64) -> Claim {
    let (size, interval) = sized(metric, episode.deviation, episode.interval);
    Claim {
        kind: ClaimKind::Anomaly,
        metric: metric.name,
        other: None,
        lag_days: None,
        from: Some(episode.from),
        to: Some(episode.to),
        size,
        interval,
        is_percent: metric.is_log,
        n: episode.n,
        n_eff: episode.n_eff_baseline,
        p,
        q: 1.0,
    }
}

fn look_at_behaviour(
    behaviour: &Behaviour,
    outcome: &Measured,
    from: Day,
    until: Day,
    looks: &mut Looks,
) {
    let series = outcome.tested().between(from, until);
    let effect = behaviour_effect(&series, &behaviour.answers, behaviour.lag_days);
    let effect = match effect {
        Finding::Found(effect) => effect,
        Finding::NotEnoughData(shortfall) => {
            return looks.add_short(outcome.metric.name, &behaviour.name, shortfall);
        }
    };
    let (size, interval) = sized(&outcome.metric, effect.difference, effect.interval);
    looks.add(Claim {
        kind: ClaimKind::Behaviour,
        metric: outcome.metric.name,
        other: Some(behaviour.name.clone()),
        lag_days: Some(behaviour.lag_days),
        from: series.first_day(),
        to: series.last_day(),
        size,
        interval,
        is_percent: outcome.metric.is_log,
        n: effect.n,
        n_eff: effect.n_eff,
        p: effect.p,
        q: 1.0,
    });
}

fn look_at_pair(
    pair: &PairLook,
    x: &Measured,
    y: &Measured,
    from: Day,
    until: Day,
    looks: &mut Looks,
) {
    let (own, other) = (x.tested().between(from, until), y.tested().between(from, until));
    let found = match correlation(&own, &other, pair.lag_days) {
        Finding::Found(found) => found,
        Finding::NotEnoughData(shortfall) => return looks.add_short(pair.y, pair.x, shortfall),
    };
    looks.add(Claim {
        kind: ClaimKind::Correlation,
        metric: pair.y,
        other: Some(pair.x.to_owned()),
        lag_days: Some(pair.lag_days),
        from: own.first_day(),
        to: own.last_day(),
        size: found.r,
        interval: found.r_interval,
        is_percent: false,
        n: found.n,
        n_eff: found.n_eff,
        p: found.p,
        q: 1.0,
    });
}
