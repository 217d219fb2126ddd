//! The mirror as series by local day. A recovery, a night and a cycle belong to the day on which their owner
//! woke; a workout to the day on which it began. A day without a scored record is missing.

use std::collections::{BTreeMap, HashMap};

use insights::sleep::SleepSpan;
use insights::survey::{Behaviour, JET_LAG, Measured, jet_lag};
use insights::{Day, Metric, Series, Units};
use serde::Deserialize;
use store::records::{Records, RecordsError, RecordsSnapshot, StoredRecord, Window};

use super::metrics::{self, METRICS};
use crate::daily_metrics::LoadedMetrics;
use crate::when::{Here, local_date};
use crate::whoop::days::EVENING_US;
use crate::whoop::kind::Kind;
use crate::whoop::shape::INVALID;
use crate::whoop::takeout::journal;
use crate::whoop::{NAME, offset_s};

const DAY_US: i64 = 86_400_000_000;
const MINUTE_US: i64 = 60_000_000;
/// WHOOP's records have kilocalories that were made with this factor.
const KILOCALORIES_PER_KILOJOULE: f64 = 0.239_006;

/// Series by local day, with what does not fit into a series.
pub(crate) struct DailyData {
    pub(super) here: Here,
    /// The owner's current day.
    pub(crate) today: Day,
    /// In the units of `units`; as WHOOP stores them where there is none.
    series: BTreeMap<&'static str, Series>,
    units: Option<Units>,
    pub(crate) sleeps: Vec<SleepSpan>,
    pub(crate) behaviours: Vec<Behaviour>,
    /// Minutes east of Greenwich by day.
    pub(super) offsets: Series,
    /// When the records begin that WHOOP has not scored.
    unscored_us: Vec<i64>,
}

impl DailyData {
    pub(crate) fn series(&self, name: &str) -> Series {
        self.series.get(name).cloned().unwrap_or_default()
    }

    /// All series by the names of their metrics, and the offsets from UTC.
    pub(super) fn into_metrics(self) -> LoadedMetrics {
        LoadedMetrics { series: self.series, offsets: self.offsets }
    }

    /// Records that WHOOP has not scored.
    pub(crate) fn unscored(&self) -> usize {
        self.unscored_us.len()
    }

    /// The last days before `now_us`, or all of them.
    pub(super) fn recent(&self, now_us: i64, days: Option<i32>) -> DailyData {
        let here = Here { now_us, ..self.here };
        let today = local_date(now_us, here.offset_s).map_or(Day::default(), Day::from_date);
        let from = days.map_or(Day::from_number(0), |days| today.plus(-1 - days));
        DailyData { here, today, ..self.between(from, Day::from_number(i32::MAX)) }
    }

    /// What was known at the end of `to` about the days from `from`.
    pub(super) fn between(&self, from: Day, to: Day) -> DailyData {
        let cut = |series: &Series| series.between(from, to);
        let answered = self.behaviours.iter().filter(|own| own.name != JET_LAG);
        let answered = answered.map(|own| Behaviour { answers: cut(&own.answers), ..own.clone() });
        let mut behaviours: Vec<Behaviour> =
            answered.filter(|own| !own.answers.is_empty()).collect();
        let offsets = cut(&self.offsets);
        behaviours.extend(jet_lag(&offsets));
        let series = self.series.iter().map(|(name, own)| (*name, cut(own)));
        let began_inside = |start_us: &&i64| {
            let number = start_us.div_euclid(DAY_US);
            (i64::from(from.number())..=i64::from(to.number())).contains(&number)
        };
        DailyData {
            here: self.here,
            today: self.today.min(to),
            series: series.filter(|(_, own)| !own.is_empty()).collect(),
            units: self.units,
            sleeps: self
                .sleeps
                .iter()
                .filter(|own| (from..=to).contains(&own.woke()))
                .copied()
                .collect(),
            behaviours,
            offsets,
            unscored_us: self.unscored_us.iter().filter(began_inside).copied().collect(),
        }
    }

    /// All values in the units of the owner.
    pub(crate) fn in_units(self, units: Units) -> DailyData {
        let convert = |(name, series): (&'static str, Series)| {
            let Some(metric) = metrics::metric_of(name) else { return (name, series) };
            (name, Measured { metric: *metric, series }.in_units(units).series)
        };
        let series = self.series.into_iter().map(convert).collect();
        DailyData { series, units: Some(units), ..self }
    }

    /// A metric in the units of the series.
    pub(crate) fn metric(&self, metric: &Metric) -> Metric {
        self.units.map_or(*metric, |units| metric.in_units(units).0)
    }

    pub(crate) fn measured(&self) -> Vec<Measured> {
        let of =
            |own: &Metric| Measured { metric: self.metric(own), series: self.series(own.name) };
        METRICS.iter().map(of).filter(|measured| !measured.series.is_empty()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The newest day with any value.
    pub(crate) fn newest(&self) -> Option<Day> {
        self.series.values().filter_map(Series::last_day).max()
    }
}

#[derive(Deserialize)]
struct ScoredCycle {
    strain: Option<f64>,
    calories: Option<f64>,
}

#[derive(Deserialize)]
struct RecoveryRow {
    recovery_score: Option<f64>,
    resting_heart_rate_bpm: Option<f64>,
    hrv_rmssd_ms: Option<f64>,
    spo2_pct: Option<f64>,
    skin_temp_c: Option<f64>,
}

#[derive(Deserialize)]
struct SleepRow {
    nap: Option<bool>,
    respiratory_rate: Option<f64>,
    sleep_consistency_pct: Option<f64>,
    sleep_efficiency_pct: Option<f64>,
    sleep_performance_pct: Option<f64>,
    in_bed_seconds: Option<f64>,
    rem_sleep_seconds: Option<f64>,
    deep_sleep_seconds: Option<f64>,
    awake_seconds: Option<f64>,
    asleep_seconds: Option<f64>,
    sleep_need_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct WorkoutRow {
    calories: Option<f64>,
    distance_meter: Option<f64>,
    zone_durations_seconds: Option<Zones>,
}

#[derive(Deserialize)]
struct Zones {
    zone_one: Option<f64>,
    zone_two: Option<f64>,
    zone_three: Option<f64>,
    zone_four: Option<f64>,
    zone_five: Option<f64>,
}

impl Zones {
    /// Edwards' sum: minutes in a zone times its number.
    fn weighted_minutes(&self) -> f64 {
        let zones = [self.zone_one, self.zone_two, self.zone_three, self.zone_four, self.zone_five];
        let weighted =
            (1..).zip(zones).map(|(zone, seconds)| f64::from(zone) * seconds.unwrap_or(0.0));
        weighted.sum::<f64>() / 60.0
    }
}

#[derive(Deserialize)]
struct JournalRow {
    question: String,
    answered_yes: Option<bool>,
}

/// The records of one reading.
struct Stored {
    cycles: Vec<StoredRecord>,
    recoveries: Vec<StoredRecord>,
    sleeps: Vec<StoredRecord>,
    workouts: Vec<StoredRecord>,
    journal: Vec<StoredRecord>,
}

/// The last `days` days of the mirror, or all of it.
pub(crate) fn load(
    records: &Records,
    now_us: i64,
    days: Option<i32>,
) -> Result<DailyData, RecordsError> {
    let here = Here { now_us, offset_s: offset_s(records).unwrap_or(0) };
    // A night begins on the day before, and may have been in another time zone.
    let from_us = days.map(|days| here.now_us - (i64::from(days) + 2) * DAY_US);
    let window = Window { from_us, except_state: Some(INVALID), ..Window::default() };
    let stored = records.snapshot(|look| read(look, &window))?;
    Ok(Builder::new(here).build(&stored))
}

fn read(look: &RecordsSnapshot<'_>, window: &Window) -> Result<Stored, RecordsError> {
    let of = |kind: &str| look.window(NAME, kind, window);
    Ok(Stored {
        cycles: of(Kind::Cycles.name())?,
        recoveries: of(Kind::Recoveries.name())?,
        sleeps: of(Kind::Sleeps.name())?,
        workouts: of(Kind::Workouts.name())?,
        journal: of(journal::KIND)?,
    })
}

/// Collects points by metric.
struct Builder {
    here: Here,
    points: BTreeMap<&'static str, Vec<(Day, f64)>>,
    offsets: Vec<(Day, f64)>,
    sleeps: Vec<SleepSpan>,
    unscored_us: Vec<i64>,
}

impl Builder {
    fn new(here: Here) -> Builder {
        Builder {
            here,
            points: BTreeMap::new(),
            offsets: Vec::new(),
            sleeps: Vec::new(),
            unscored_us: Vec::new(),
        }
    }

    fn build(mut self, stored: &Stored) -> DailyData {
        let nights = main_nights(&stored.sleeps);
        for row in &stored.sleeps {
            self.sleep(row, &nights);
        }
        let days = cycle_days(&stored.cycles, &nights);
        for row in &stored.recoveries {
            let day = row.parent.as_deref().and_then(|cycle| days.get(cycle)).copied();
            if let (Some(day), Some(own)) = (day.or_else(|| morning(row)), self.scored(row)) {
                self.recovery(day, &own);
            }
        }
        let trained = self.workouts(&stored.workouts);
        for row in &stored.cycles {
            let day = days.get(row.id.as_str()).copied();
            // An open cycle is not complete: its strain and energy will rise.
            if let (Some(day), Some(_), Some(own)) = (day, row.end_us, self.scored(row)) {
                self.cycle(day, &own, trained.get(&day));
            }
        }
        let today =
            local_date(self.here.now_us, self.here.offset_s).map_or(Day::default(), Day::from_date);
        let mut behaviours = behaviours(&stored.journal);
        let offsets = Series::from_points(self.offsets);
        behaviours.extend(jet_lag(&offsets));
        let series =
            self.points.into_iter().map(|(name, points)| (name, Series::from_points(points)));
        DailyData {
            here: self.here,
            today,
            series: series.collect(),
            units: None,
            sleeps: self.sleeps,
            behaviours,
            offsets,
            unscored_us: self.unscored_us,
        }
    }

    /// The derived record, if WHOOP scored it.
    fn scored<T: for<'a> Deserialize<'a>>(&mut self, row: &StoredRecord) -> Option<T> {
        if row.state.as_deref().is_some_and(|state| state.contains("SCOR") && state != "SCORED") {
            self.unscored_us.extend(row.start_us);
            return None;
        }
        serde_json::from_str(&row.flat).ok()
    }

    fn push(&mut self, metric: &'static str, day: Day, value: Option<f64>) {
        if let Some(value) = value {
            self.points.entry(metric).or_default().push((day, value));
        }
    }

    fn recovery(&mut self, day: Day, row: &RecoveryRow) {
        self.push(metrics::RECOVERY, day, row.recovery_score);
        self.push(metrics::HRV, day, row.hrv_rmssd_ms);
        self.push(metrics::RESTING_HEART_RATE, day, row.resting_heart_rate_bpm);
        self.push("spo2", day, row.spo2_pct);
        self.push("skin_temperature", day, row.skin_temp_c);
    }

    fn sleep(&mut self, row: &StoredRecord, nights: &HashMap<String, ScoredNight>) {
        let Some(own) = self.scored::<SleepRow>(row) else { return };
        let is_nap = own.nap == Some(true);
        let (Some(start_us), Some(end_us), Some(offset_s)) =
            (row.start_us, row.end_us, row.offset_s)
        else {
            return;
        };
        self.sleeps.push(SleepSpan {
            start_min: start_us.div_euclid(MINUTE_US),
            end_min: end_us.div_euclid(MINUTE_US),
            offset_min: i64::from(offset_s / 60),
            is_nap,
        });
        let is_main = row
            .parent
            .as_ref()
            .and_then(|cycle| nights.get(cycle))
            .is_none_or(|night| night.id == row.id);
        let Some(day) = local_date(end_us, offset_s).map(Day::from_date) else { return };
        if is_nap || !is_main {
            return;
        }
        self.offsets.push((day, f64::from(offset_s) / 60.0));
        let minutes = |seconds: Option<f64>| seconds.map(|seconds| seconds / 60.0);
        self.push(metrics::ASLEEP, day, minutes(own.asleep_seconds));
        self.push("time_in_bed", day, minutes(own.in_bed_seconds));
        self.push("deep_sleep", day, minutes(own.deep_sleep_seconds));
        self.push("rem_sleep", day, minutes(own.rem_sleep_seconds));
        self.push("awake_in_bed", day, minutes(own.awake_seconds));
        self.push(metrics::SLEEP_NEED, day, minutes(own.sleep_need_seconds));
        self.push("sleep_efficiency", day, own.sleep_efficiency_pct);
        self.push("sleep_performance", day, own.sleep_performance_pct);
        self.push("sleep_consistency", day, own.sleep_consistency_pct);
        self.push(metrics::RESPIRATORY_RATE, day, own.respiratory_rate);
        self.push(metrics::BEDTIME, day, bedtime(start_us, offset_s));
    }

    fn cycle(&mut self, day: Day, row: &ScoredCycle, trained: Option<&Trained>) {
        self.push(metrics::STRAIN, day, row.strain);
        self.push("energy", day, row.calories.map(|kcal| kcal / KILOCALORIES_PER_KILOJOULE));
        // A day with a cycle and without a workout is a rest day.
        let trained = trained.copied().unwrap_or_default();
        self.push(metrics::WORKOUT_ENERGY, day, Some(trained.kilojoules));
        self.push(metrics::ZONE_MINUTES, day, Some(trained.zone_minutes));
        self.push("workout_time", day, Some(trained.minutes));
        self.push("workout_distance", day, Some(trained.kilometres));
    }

    fn workouts(&mut self, rows: &[StoredRecord]) -> HashMap<Day, Trained> {
        let mut days: HashMap<Day, Trained> = HashMap::new();
        for row in rows {
            let Some(own) = self.scored::<WorkoutRow>(row) else { continue };
            let (Some(start_us), Some(offset_s)) = (row.start_us, row.offset_s) else { continue };
            let Some(day) = local_date(start_us, offset_s).map(Day::from_date) else { continue };
            let sum = days.entry(day).or_default();
            sum.kilojoules += own.calories.unwrap_or(0.0) / KILOCALORIES_PER_KILOJOULE;
            sum.zone_minutes +=
                own.zone_durations_seconds.map_or(0.0, |zones| zones.weighted_minutes());
            sum.kilometres += own.distance_meter.unwrap_or(0.0) / 1000.0;
            let lasted_us = row.end_us.map_or(0, |end_us| (end_us - start_us).max(0));
            sum.minutes += f64::from(i32::try_from(lasted_us / MINUTE_US).unwrap_or(0));
        }
        days
    }
}

/// The workouts of a day, added up.
#[derive(Clone, Copy, Default)]
struct Trained {
    kilojoules: f64,
    zone_minutes: f64,
    minutes: f64,
    kilometres: f64,
}

/// The main sleep of a cycle.
struct ScoredNight {
    id: String,
    lasted_us: i64,
    woke: Day,
}

/// The longest sleep of each cycle that is not a nap.
fn main_nights(sleeps: &[StoredRecord]) -> HashMap<String, ScoredNight> {
    let mut nights: HashMap<String, ScoredNight> = HashMap::new();
    for row in sleeps {
        let is_nap = row.flat.contains("\"nap\":true");
        let (Some(cycle), Some(start_us), Some(end_us)) = (&row.parent, row.start_us, row.end_us)
        else {
            continue;
        };
        let woke =
            row.offset_s.and_then(|offset_s| local_date(end_us, offset_s)).map(Day::from_date);
        let (false, Some(woke)) = (is_nap, woke) else { continue };
        let lasted_us = end_us - start_us;
        if nights.get(cycle).is_none_or(|other| other.lasted_us <= lasted_us) {
            nights.insert(cycle.clone(), ScoredNight { id: row.id.clone(), lasted_us, woke });
        }
    }
    nights
}

/// The day of each cycle, by its id: as in `whoop/days.rs`.
fn cycle_days<'a>(
    cycles: &'a [StoredRecord],
    nights: &HashMap<String, ScoredNight>,
) -> HashMap<&'a str, Day> {
    let day =
        |row: &StoredRecord| nights.get(&row.id).map(|night| night.woke).or_else(|| morning(row));
    cycles.iter().filter_map(|row| Some((row.id.as_str(), day(row)?))).collect()
}

/// The day of a cycle without a night, by its evening.
fn morning(row: &StoredRecord) -> Option<Day> {
    local_date(row.start_us? + EVENING_US, row.offset_s?).map(Day::from_date)
}

/// Minutes after noon, as minutes after midnight: 22:30 is −90 and 00:30 is 30, so that means work.
fn bedtime(start_us: i64, offset_s: i32) -> Option<f64> {
    let local_min = (start_us + i64::from(offset_s) * 1_000_000).div_euclid(MINUTE_US);
    let after_noon = (local_min - 720).rem_euclid(1440);
    i32::try_from(after_noon - 720).ok().map(f64::from)
}

/// The journal's questions, each with its answers by day. An answer is about the day, so it may affect the
/// night that follows.
fn behaviours(journal: &[StoredRecord]) -> Vec<Behaviour> {
    let mut answers: BTreeMap<String, Vec<(Day, f64)>> = BTreeMap::new();
    for row in journal {
        let Ok(own) = serde_json::from_str::<JournalRow>(&row.flat) else { continue };
        if let (Some(day), Some(yes)) = (morning(row), own.answered_yes) {
            answers.entry(own.question).or_default().push((day, f64::from(u8::from(yes))));
        }
    }
    let behaviour =
        |(name, points)| Behaviour { name, answers: Series::from_points(points), lag_days: 1 };
    answers.into_iter().map(behaviour).collect()
}
