//! Episodes in which a metric left its usual range: runs of nights that are far from the trailing
//! baseline, with the evidence of the whole run.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::finding::{Finding, Interval};
use crate::sample::{self, p_of_t, real};
use crate::series::Series;

/// The trailing window that a night is compared with, and the nights it needs.
const WINDOW_DAYS: i32 = 90;
pub const NIGHTS_MIN: usize = 30;
/// A night counts as far when it is this many robust deviations away.
const FAR_DEVIATIONS: f64 = 2.0;
/// Nights that may be missing or ordinary inside an episode.
const GAP_DAYS_MAX: i32 = 2;
/// The efficiency of the MAD against the standard deviation, as a share of the degrees of freedom.
const MAD_EFFICIENCY: f64 = 0.37;
/// The variance of a median of normal values, compared with that of the mean.
const MEDIAN_VARIANCE: f64 = 1.57;
/// A longer episode is a change of level, not an anomaly; the baseline follows it.
const EPISODE_NIGHTS_MAX: usize = 21;

/// The anomalies of a series.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Anomalies {
    /// Nights that were compared.
    pub n: usize,
    pub n_eff: f64,
    /// The robust deviation of the nights from their baselines.
    pub spread: f64,
    pub episodes: Vec<Episode>,
}

/// A run of unusual nights in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Episode {
    pub from: Day,
    pub to: Day,
    /// Nights of the episode.
    pub n: usize,
    /// Nights of the baseline.
    pub n_baseline: usize,
    pub n_eff_baseline: f64,
    pub mean: f64,
    pub baseline: f64,
    /// The mean of the nights minus the baseline.
    pub deviation: f64,
    pub interval: Interval,
    /// The same in robust deviations of the baseline.
    pub deviations: f64,
    /// For nights that were chosen without looking at this metric.
    pub p_alone: f64,
    /// Corrected for the number of nights that could have begun an episode.
    pub p: f64,
}

/// One night, compared.
#[derive(Clone, Copy)]
struct Night {
    day: Day,
    value: f64,
    baseline: f64,
    n_baseline: usize,
}

impl Night {
    fn away(&self) -> f64 {
        self.value - self.baseline
    }
}

/// Episodes whose first night is from `from` to `until`. Weekday means are removed first.
pub fn anomalies(series: &Series, from: Day, until: Day) -> Finding<Anomalies> {
    let flat = series.without_weekday_means();
    let points: Vec<(Day, f64)> = flat.points().collect();
    let span = points.iter().enumerate().filter(|(_, (day, _))| (from..=until).contains(day));
    let nights: Vec<Night> = span.filter_map(|(at, _)| compared(&points, at)).collect();
    if nights.is_empty() {
        let before = points.iter().filter(|(day, _)| *day <= until).count();
        return Finding::not_enough("nights before", before.saturating_sub(1), NIGHTS_MIN);
    }
    let memory = flat.memory();
    let Some(noise) = EpisodeNoise::of(&nights, memory) else {
        return Finding::not_enough("nights with different values", 0, NIGHTS_MIN);
    };
    let runs = runs(&nights, noise.spread);
    let episodes = runs.iter().filter(|run| run.len() <= EPISODE_NIGHTS_MAX);
    let episodes = episodes.filter_map(|run| episode(run, &noise, nights.len())).collect();
    let n_eff = real(nights.len()) * (1.0 - memory) / (1.0 + memory);
    Finding::Found(Anomalies { n: nights.len(), n_eff, spread: noise.spread, episodes })
}

/// How far nights usually are from their baseline.
struct EpisodeNoise {
    /// The robust deviation of all compared nights from their baselines.
    spread: f64,
    freedom: f64,
    memory: f64,
}

impl EpisodeNoise {
    fn of(nights: &[Night], memory: f64) -> Option<EpisodeNoise> {
        let away: Vec<f64> = nights.iter().map(|night| night.value - night.baseline).collect();
        let spread = sample::robust_deviation(&away).filter(|spread| *spread > 1e-9)?;
        // A spread suffers less from memory than a mean does.
        let n_eff = real(nights.len()) * (1.0 - memory * memory) / (1.0 + memory * memory);
        let freedom = (MAD_EFFICIENCY * (n_eff - 1.0)).max(2.0);
        Some(EpisodeNoise { spread, freedom, memory })
    }
}

/// The night at `at` with the baseline of the days before it; none without enough of them.
fn compared(points: &[(Day, f64)], at: usize) -> Option<Night> {
    let (day, value) = points.get(at).copied()?;
    let before = points.get(..at)?.iter().rev();
    let window: Vec<f64> = before
        .take_while(|(other, _)| day.since(*other) <= WINDOW_DAYS)
        .map(|(_, value)| *value)
        .collect();
    let baseline = sample::median(&window)?;
    let enough = window.len() >= NIGHTS_MIN;
    enough.then_some(Night { day, value, baseline, n_baseline: window.len() })
}

/// Far nights in one direction, joined over short gaps.
fn runs(nights: &[Night], spread: f64) -> Vec<Vec<Night>> {
    let mut runs: Vec<Vec<Night>> = Vec::new();
    for night in nights.iter().filter(|night| night.away().abs() >= FAR_DEVIATIONS * spread) {
        let joins = |run: &Vec<Night>| {
            run.last().is_some_and(|last| {
                let same = last.away() * night.away() > 0.0;
                same && night.day.since(last.day) <= GAP_DAYS_MAX
            })
        };
        match runs.last_mut().filter(|run| joins(run)) {
            Some(run) => run.push(*night),
            None => runs.push(vec![*night]),
        }
    }
    runs
}

fn episode(run: &[Night], noise: &EpisodeNoise, nights: usize) -> Option<Episode> {
    let (first, last) = (run.first()?, run.last()?);
    let mean = sample::mean(&run.iter().map(|night| night.value).collect::<Vec<f64>>())?;
    // The baseline before the episode: later ones contain its nights.
    let deviation = mean - first.baseline;
    let n_baseline = real(first.n_baseline);
    let memory = noise.memory;
    let n_eff_baseline = n_baseline * (1.0 - memory) / (1.0 + memory);
    let of_nights = variance_of_mean(run.len(), memory);
    let error = noise.spread * (of_nights + MEDIAN_VARIANCE / n_eff_baseline).sqrt();
    let p_alone = p_of_t(deviation / error, noise.freedom);
    Some(Episode {
        from: first.day,
        to: last.day,
        n: run.len(),
        n_baseline: first.n_baseline,
        n_eff_baseline,
        mean,
        baseline: first.baseline,
        deviation,
        interval: Interval::of_t(deviation, error, noise.freedom),
        deviations: deviation / noise.spread,
        p_alone,
        p: (p_alone * real(nights)).min(1.0),
    })
}

/// The variance of the mean of consecutive nights, in variances of one night.
fn variance_of_mean(nights: usize, memory: f64) -> f64 {
    let n = real(nights);
    let lags = (1..nights).map(|lag| {
        let power = i32::try_from(lag).unwrap_or(i32::MAX);
        2.0 * (n - real(lag)) * memory.powi(power)
    });
    (n + lags.sum::<f64>()) / (n * n)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn noise(n: i32) -> f64 {
        f64::from((n * 7919 + n * n * 31).rem_euclid(101)) / 50.0 - 1.0
    }

    #[test]
    fn four_feverish_nights_are_one_episode() {
        let ill = |n: i32| if (100..104).contains(&n) { 8.0 } else { 0.0 };
        let days = (0..130).map(|n| (Day::from_number(n), 55.0 + noise(n) + ill(n)));
        let series = Series::from_points(days);
        let found =
            anomalies(&series, Day::from_number(60), Day::from_number(129)).into_found().unwrap();
        let strong: Vec<&Episode> = found.episodes.iter().filter(|own| own.p < 1e-2).collect();
        assert_eq!(strong.len(), 1, "{found:?}");
        assert_eq!(
            (strong[0].from, strong[0].to, strong[0].n),
            (Day::from_number(100), Day::from_number(103), 4)
        );
        assert!(strong[0].interval.contains(8.0), "{:?}", strong[0]);
    }

    #[test]
    fn without_thirty_nights_before_there_is_no_answer() {
        let series = Series::from_points((0..20).map(|n| (Day::from_number(n), noise(n))));
        let found = anomalies(&series, Day::from_number(0), Day::from_number(19));
        let Finding::NotEnoughData(shortfall) = found else {
            unreachable!("twenty nights are too few")
        };
        assert_eq!((shortfall.have, shortfall.missing), (19, 11));
    }
}
