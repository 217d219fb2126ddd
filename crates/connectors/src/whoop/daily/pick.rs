//! Selects the records of a day.

use jiff::civil::Date;
use serde_json::{Map, Value};
use store::records::StoredRecord;

use crate::when::{Span, local_date};
use crate::whoop::days::{self, Night, Turning};
use crate::whoop::kind::Kind;
use crate::whoop::shape::Shaped;
use crate::whoop::{NAME, truncate};

type FlatRecord = Map<String, Value>;

const DAY_US: i64 = 86_400_000_000;

/// The parts of a day.
#[derive(Debug, Default)]
pub(super) struct Picked {
    pub(super) cycle: Option<FlatRecord>,
    /// Start and end of the cycle; no end while it is open.
    pub(super) cycle_times: Option<(i64, Option<i64>)>,
    pub(super) recovery: Option<FlatRecord>,
    pub(super) sleep: Option<FlatRecord>,
    pub(super) workouts: Vec<FlatRecord>,
    /// Further parts of a local day.
    pub(super) naps: Vec<FlatRecord>,
    /// The other parts of a split night.
    pub(super) other_sleeps: Vec<FlatRecord>,
    pub(super) other_cycles: Vec<FlatRecord>,
}

impl Picked {
    pub(super) fn cycle_id(&self) -> Option<i64> {
        self.cycle.as_ref()?.get("id")?.as_i64()
    }

    /// Warnings about the numbers.
    pub(super) fn notes(&self, is_today: bool) -> Vec<String> {
        let parts = [("cycle", &self.cycle), ("recovery", &self.recovery), ("sleep", &self.sleep)];
        let mut notes = Vec::new();
        for (name, part) in parts {
            let state =
                part.as_ref().and_then(|part| part.get("score_state")).and_then(Value::as_str);
            match state {
                Some("PENDING_SCORE") => notes.push(format!("the {name} is not scored yet")),
                Some("UNSCORABLE") => notes.push(format!("WHOOP could not score the {name}")),
                _ => {}
            }
        }
        if is_today {
            notes.extend(self.still_to_come());
        }
        notes
    }

    fn still_to_come(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.cycle.is_none() {
            notes.push("WHOOP has sent no cycle for today yet; sync_whoop looks again".to_owned());
        } else if matches!(self.cycle_times, Some((_, None))) {
            notes.push("the cycle is still open; its strain and energy will rise".to_owned());
        }
        if self.cycle.is_some() && self.recovery.is_none() {
            notes.push(
                "there is no recovery yet; it comes after the main sleep is processed".into(),
            );
        }
        notes
    }

    fn set_cycle(&mut self, row: &StoredRecord) {
        self.cycle = flat(Kind::Cycles, row);
        self.cycle_times = row.start_us.map(|start_us| (start_us, row.end_us));
    }
}

/// The UTC day as documented: the cycle that starts on it, or the newest that touches it, with the
/// longest of its sleeps that touch the day.
pub(super) fn utc(
    cycles: &[StoredRecord],
    sleeps: &[StoredRecord],
    workouts: &[StoredRecord],
    span: Span,
) -> Picked {
    let starts_here = |row: &&StoredRecord| {
        row.start_us.is_some_and(|start_us| (span.from_us..span.to_us).contains(&start_us))
    };
    let cycles: Vec<&StoredRecord> =
        cycles.iter().filter(|row| flat(Kind::Cycles, row).is_some()).collect();
    let mut picked = Picked::default();
    // A cycle that was left open counts for the day after its start, not for later ones.
    let is_left = |row: &&&StoredRecord| {
        row.end_us.is_none() && row.start_us.is_none_or(|us| us < span.from_us - DAY_US)
    };
    let latest = || cycles.iter().find(|row| !is_left(row));
    let chosen = cycles.iter().find(|row| starts_here(row)).or_else(latest);
    if let Some(row) = chosen {
        picked.set_cycle(row);
        picked.sleep =
            longest(sleeps.iter().filter(|sleep| sleep.parent.as_ref() == Some(&row.id)));
    }
    picked.workouts = workouts.iter().filter(starts_here).filter_map(shown_workout).collect();
    picked
}

/// The day the owner woke: the cycle whose main sleep ended on it, on the sleeper's own clock.
pub(super) fn local(
    cycles: &[StoredRecord],
    sleeps: &[StoredRecord],
    workouts: &[StoredRecord],
    date: Date,
) -> Picked {
    let turnings: Vec<Turning> = cycles.iter().filter_map(turning).collect();
    let nights: Vec<Night> = sleeps.iter().filter_map(night).collect();
    let mut of_day = days::cycles_of(date, &turnings, &nights)
        .into_iter()
        .filter_map(|turning| cycles.iter().find(|row| row.id == turning.cycle_id));
    let mut picked = Picked::default();
    if let Some(row) = of_day.next() {
        picked.set_cycle(row);
        let own: Vec<&StoredRecord> =
            sleeps.iter().filter(|s| s.parent.as_ref() == Some(&row.id)).collect();
        picked.sleep = longest(own.iter().copied());
        picked.put_other_sleeps(&own);
    }
    picked.other_cycles = of_day.filter_map(|row| flat(Kind::Cycles, row)).collect();
    let is_here = |row: &&StoredRecord| match (row.start_us, row.offset_s) {
        (Some(start_us), offset_s) => local_date(start_us, offset_s.unwrap_or(0)) == Some(date),
        _ => false,
    };
    picked.workouts = workouts.iter().filter(is_here).filter_map(shown_workout).collect();
    picked
}

impl Picked {
    fn put_other_sleeps(&mut self, own: &[&StoredRecord]) {
        let main = self.sleep.as_ref().and_then(|sleep| sleep.get("id")).cloned();
        for sleep in own.iter().filter_map(|row| flat(Kind::Sleeps, row)) {
            if is_nap(&sleep) {
                self.naps.push(sleep);
            } else if sleep.get("id") != main.as_ref() {
                self.other_sleeps.push(sleep);
            }
        }
    }
}

/// A received record in the form of a mirror row.
pub(super) fn row(kind: Kind, shaped: Shaped) -> StoredRecord {
    StoredRecord {
        service: NAME.to_owned(),
        kind: kind.name().to_owned(),
        flat: shaped.flat_text(),
        id: shaped.id.unwrap_or_default(),
        start_us: shaped.start_us,
        end_us: shaped.end_us,
        offset_s: shaped.offset_s,
        updated: shaped.updated.unwrap_or_default(),
        updated_us: shaped.updated_us,
        parent: shaped.parent,
        state: shaped.state,
        raw: String::new(),
        seq: 0,
    }
}

fn flat(kind: Kind, row: &StoredRecord) -> Option<FlatRecord> {
    truncate::record(kind, &row.flat).ok()
}

fn shown_workout(row: &StoredRecord) -> Option<FlatRecord> {
    flat(Kind::Workouts, row)
}

fn is_nap(sleep: &FlatRecord) -> bool {
    sleep.get("nap") == Some(&Value::Bool(true))
}

fn in_bed_s(sleep: &FlatRecord) -> f64 {
    sleep.get("in_bed_seconds").and_then(Value::as_f64).unwrap_or(0.0)
}

/// The main sleep among those of one cycle, newest first: the one its recovery is based on, or
/// else the longest. Naps count only without another sleep.
pub(in crate::whoop) fn main_sleep(
    rows: Vec<StoredRecord>,
    scored: Option<&str>,
) -> Option<StoredRecord> {
    let readable: Vec<(StoredRecord, FlatRecord)> = rows
        .into_iter()
        .filter_map(|row| flat(Kind::Sleeps, &row).map(|sleep| (row, sleep)))
        .collect();
    let nights = || readable.iter().filter(|(_, sleep)| !is_nap(sleep));
    let main = nights().find(|(row, _)| Some(row.id.as_str()) == scored).or_else(|| {
        nights().reduce(|best, next| if lasted_s(next) > lasted_s(best) { next } else { best })
    });
    main.or(readable.first()).map(|(row, _)| row.clone())
}

/// An unscored sleep has no time in bed; its duration is used instead.
fn lasted_s((row, sleep): &(StoredRecord, FlatRecord)) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a night in microseconds is far below 2^53")]
    let clock_s = row.start_us.zip(row.end_us).map(|(start, end)| (end - start) as f64 / 1e6);
    sleep.get("in_bed_seconds").and_then(Value::as_f64).or(clock_s).unwrap_or(0.0)
}

/// The longest sleep that is not a nap; rows are newest first, so on a tie the newest wins.
fn longest<'a>(rows: impl Iterator<Item = &'a StoredRecord>) -> Option<FlatRecord> {
    let mut best: Option<FlatRecord> = None;
    for sleep in rows.filter_map(|row| flat(Kind::Sleeps, row)).filter(|sleep| !is_nap(sleep)) {
        if best.as_ref().is_none_or(|best| in_bed_s(&sleep) > in_bed_s(best)) {
            best = Some(sleep);
        }
    }
    best
}

fn turning(row: &StoredRecord) -> Option<Turning> {
    flat(Kind::Cycles, row)?;
    Some(Turning {
        cycle_id: row.id.clone(),
        start_us: row.start_us?,
        offset_s: row.offset_s.unwrap_or(0),
    })
}

/// An unscored night has no time in bed; its duration is used instead.
fn night(row: &StoredRecord) -> Option<Night> {
    let sleep = flat(Kind::Sleeps, row)?;
    if is_nap(&sleep) {
        return None;
    }
    let (start_us, end_us) = (row.start_us?, row.end_us?);
    #[expect(clippy::cast_precision_loss, reason = "a night in microseconds is far below 2^53")]
    let lasted_s = (end_us - start_us) as f64 / 1e6;
    Some(Night {
        cycle_id: row.parent.clone()?,
        start_us,
        end_us,
        offset_s: row.offset_s.unwrap_or(0),
        in_bed_s: sleep.get("in_bed_seconds").and_then(Value::as_f64).unwrap_or(lasted_s),
    })
}
