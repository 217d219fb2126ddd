//! Turns generated days into the records that WHOOP would have at one time: no future events, an open cycle,
//! pending scores.

use serde::Serialize;

use super::body::{Cycle, CycleScore, Recovery, ScoreState, Sleep, SleepScore, Workout};
use super::collection::Entry;
use super::days::{Day, Night, days};
use super::person::Person;
use super::scores::{self, Form};
use super::zones::{Whereabouts, Zone};
use crate::rng::{Rng, real};
use crate::timestamp::{DAY_MS, MINUTE_MS, SECOND_MS, day_of, text};

/// Sleeps and workouts before this day also have an id of API v1.
const V1_ENDED: (i64, i64, i64) = (2025, 9, 1);
/// How often the strain of an open cycle is recomputed.
const STRAIN_EVERY_MS: i64 = 15 * MINUTE_MS;

/// Parameters of the generator. The same parameters give the same bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WhoopParams {
    pub(super) seed: u64,
    /// The first day, by its number since 1970.
    pub(super) first_day: i64,
    pub(super) now_ms: i64,
    /// The newest sleep, its recovery, the newest workout and the open cycle have no score yet.
    pub(super) pending_newest: bool,
}

impl WhoopParams {
    /// The day that is `days` days before the owner's today.
    pub(super) fn first_day(whereabouts: Whereabouts, days: u32, now_ms: i64) -> i64 {
        let today = whereabouts.zone_on(now_ms.div_euclid(DAY_MS)).day(now_ms);
        today - i64::from(days) + 1
    }
}

#[derive(Debug, Default)]
pub(super) struct WhoopRecords {
    pub(super) cycles: Vec<Entry>,
    pub(super) sleeps: Vec<Entry>,
    pub(super) recoveries: Vec<Entry>,
    pub(super) workouts: Vec<Entry>,
}

pub(super) fn generate(person: &Person, params: WhoopParams) -> WhoopRecords {
    let last_day = params.now_ms.div_euclid(DAY_MS) + 2;
    let days = days(params.seed, person, params.first_day, last_day);
    // A sleep is recorded when it is over; until then the previous day continues.
    let begun: Vec<&Day> =
        days.iter().take_while(|day| appears_ms(params, day) <= params.now_ms).collect();
    let newest_night = begun.iter().rposition(|day| day.night != Night::Missed);
    let newest_workout = begun
        .iter()
        .flat_map(|day| &day.sessions)
        .map(|session| session.start_ms)
        .take_while(|start_ms| *start_ms < params.now_ms)
        .last();
    let mut maker = Maker { person, params, newest_workout, generate: WhoopRecords::default() };
    let mut form = Form::start();
    for (nth, day) in begun.iter().enumerate() {
        let newest = params.pending_newest && newest_night == Some(nth);
        form = maker.day(day, begun.get(nth + 1).copied(), form, newest);
    }
    maker.generate
}

/// When WHOOP has recorded a day's sleep.
fn appears_ms(params: WhoopParams, day: &Day) -> i64 {
    let mut rng = Rng::stream(params.seed, "appears", day.number);
    day.wake_ms + rng.whole(60, 360) * SECOND_MS
}

struct Maker<'a> {
    person: &'a Person,
    params: WhoopParams,
    newest_workout: Option<i64>,
    generate: WhoopRecords,
}

/// When a record was created and scored, and its state at the requested time.
struct Stamps {
    created_ms: i64,
    updated_ms: i64,
    state: ScoreState,
}

/// One sleep to be recorded.
struct Span {
    from_ms: i64,
    to_ms: i64,
    nap: bool,
    main: bool,
}

impl Maker<'_> {
    fn day(&mut self, day: &Day, next: Option<&Day>, form: Form, pending: bool) -> Form {
        let cycle_id = cycle_id(self.params.seed, day.number);
        let mut asleep_ms = None;
        for (nth, span) in spans(day).iter().enumerate() {
            let slept = self.sleep(day, span, nth, cycle_id, form, pending);
            asleep_ms = Some(asleep_ms.unwrap_or(0) + slept);
        }
        self.nap(day, cycle_id, form);
        for nth in 0..day.sessions.len() {
            self.workout(day, nth);
        }
        let strain = self.cycle(day, next, cycle_id);
        let napped_ms = day.nap.map_or(0, |(from_ms, to_ms)| to_ms - from_ms);
        form.after(strain, asleep_ms, self.person.need_ms, napped_ms)
    }

    /// Records a cycle and returns its final strain.
    fn cycle(&mut self, day: &Day, next: Option<&Day>, id: i64) -> f64 {
        let seed = self.params.seed;
        let score = |done: &[super::days::Session], share: f64| -> CycleScore {
            let mut rng = Rng::stream(seed, "cycle", day.number);
            let length_ms = day.next_bed_ms - day.bed_ms;
            scores::cycle(&mut rng, self.person, day, done, length_ms, share)
        };
        let whole = score(&day.sessions, 1.0);
        let strain = whole.strain;
        let created_ms = appears_ms(self.params, day);
        let mut rng = Rng::stream(seed, "cycle state", day.number);
        let unscorable = rng.happens(if day.night == Night::Missed { 0.3 } else { 0.002 });
        let (updated_ms, state, score) = if let Some(next) = next {
            let closed_ms = appears_ms(self.params, next);
            let later_ms = closed_ms + rng.whole(30, 400) * SECOND_MS;
            let updated_ms = if later_ms <= self.params.now_ms { later_ms } else { closed_ms };
            (updated_ms, ScoreState::Scored, whole)
        } else {
            let now_ms = self.params.now_ms;
            let reckoned_ms = now_ms - now_ms.rem_euclid(STRAIN_EVERY_MS);
            let share = real(now_ms - day.bed_ms) / real(day.next_bed_ms - day.bed_ms);
            let done: Vec<_> =
                day.sessions.iter().filter(|s| s.end_ms <= now_ms).cloned().collect();
            let early = now_ms < created_ms + STRAIN_EVERY_MS || self.params.pending_newest;
            let state = if early { ScoreState::PendingScore } else { ScoreState::Scored };
            (created_ms.max(reckoned_ms), state, score(&done, share.clamp(0.05, 1.0)))
        };
        let state = if unscorable && next.is_some() { ScoreState::Unscorable } else { state };
        let end_ms = next.map(|next| next.bed_ms);
        let body = Cycle {
            id,
            user_id: self.person.user_id,
            created_at: text(created_ms),
            updated_at: text(updated_ms),
            start: text(day.bed_ms),
            end: end_ms.map(text),
            timezone_offset: day.zone.offset_text(day.bed_ms),
            score_state: state,
            score: (state == ScoreState::Scored).then_some(score),
        };
        self.generate.cycles.push(Entry {
            id: id.to_string(),
            cycle: id,
            start_ms: day.bed_ms,
            end_ms,
            v1: None,
            main: true,
            body: written(&body),
        });
        strain
    }

    /// Records one part of a night, with the recovery of the main part.
    fn sleep(
        &mut self,
        day: &Day,
        span: &Span,
        nth: usize,
        cycle_id: i64,
        form: Form,
        pending: bool,
    ) -> i64 {
        let mut rng = Rng::stream(self.params.seed, "night", day.number * 4 + number(nth));
        let id = rng.uuid();
        let score =
            scores::sleep(&mut rng, self.person, day, form, span.to_ms - span.from_ms, span.nap);
        let created_ms = appears_ms(self.params, day);
        let stamps = self.stamps(&mut rng, created_ms, 0.007, pending);
        let asleep_ms = score.stage_summary.asleep_ms();
        let performance = score.sleep_performance_percentage.unwrap_or(80.0);
        if span.main {
            self.recovery(day, &id, cycle_id, form, performance, &stamps);
        }
        let v1 = v1_id(day.number, nth);
        self.push_sleep(day, span, id, v1, cycle_id, &stamps, score);
        asleep_ms
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the one record")]
    fn push_sleep(
        &mut self,
        day: &Day,
        span: &Span,
        id: String,
        v1: Option<i64>,
        cycle_id: i64,
        stamps: &Stamps,
        score: SleepScore,
    ) {
        let body = Sleep {
            id: id.clone(),
            cycle_id,
            v1_id: v1,
            user_id: self.person.user_id,
            created_at: text(stamps.created_ms),
            updated_at: text(stamps.updated_ms),
            start: text(span.from_ms),
            end: text(span.to_ms),
            timezone_offset: day.zone.offset_text(span.from_ms),
            nap: span.nap,
            score_state: stamps.state,
            score: (stamps.state == ScoreState::Scored).then_some(score),
        };
        self.generate.sleeps.push(Entry {
            id,
            cycle: cycle_id,
            start_ms: span.from_ms,
            end_ms: Some(span.to_ms),
            v1,
            main: span.main,
            body: written(&body),
        });
    }

    fn nap(&mut self, day: &Day, cycle_id: i64, form: Form) {
        let Some((from_ms, to_ms)) = day.nap else { return };
        let mut rng = Rng::stream(self.params.seed, "nap", day.number);
        let created_ms = to_ms + rng.whole(60, 360) * SECOND_MS;
        if created_ms > self.params.now_ms {
            return;
        }
        let id = rng.uuid();
        let score = scores::sleep(&mut rng, self.person, day, form, to_ms - from_ms, true);
        let stamps = self.stamps(&mut rng, created_ms, 0.03, false);
        let span = Span { from_ms, to_ms, nap: true, main: false };
        self.push_sleep(day, &span, id, v1_id(day.number, 3), cycle_id, &stamps, score);
    }

    fn recovery(
        &mut self,
        day: &Day,
        sleep_id: &str,
        cycle_id: i64,
        form: Form,
        performance: f64,
        stamps: &Stamps,
    ) {
        let mut rng = Rng::stream(self.params.seed, "recovery", day.number);
        let score = scores::recovery(&mut rng, self.person, day, form, performance);
        let body = Recovery {
            cycle_id,
            sleep_id: sleep_id.to_owned(),
            user_id: self.person.user_id,
            created_at: text(stamps.created_ms),
            updated_at: text(stamps.updated_ms),
            score_state: stamps.state,
            score: (stamps.state == ScoreState::Scored).then_some(score),
        };
        let span = spans(day).into_iter().find(|span| span.main);
        let (from_ms, to_ms) =
            span.map_or((day.bed_ms, day.wake_ms), |span| (span.from_ms, span.to_ms));
        self.generate.recoveries.push(Entry {
            id: sleep_id.to_owned(),
            cycle: cycle_id,
            start_ms: from_ms,
            end_ms: Some(to_ms),
            v1: None,
            main: true,
            body: written(&body),
        });
    }

    fn workout(&mut self, day: &Day, nth: usize) {
        let Some(session) = day.sessions.get(nth) else { return };
        let mut rng = Rng::stream(self.params.seed, "workout", day.number * 4 + number(nth));
        let created_ms = session.end_ms + rng.whole(20, 240) * SECOND_MS;
        if created_ms > self.params.now_ms {
            return;
        }
        let id = rng.uuid();
        let score = scores::workout(&mut rng, self.person, session);
        let pending = self.params.pending_newest && self.newest_workout == Some(session.start_ms);
        let stamps = self.stamps(&mut rng, created_ms, 0.005, pending);
        let v1 = v1_id(day.number, 4 + nth);
        let zone: &Zone = &day.zone;
        let body = Workout {
            id: id.clone(),
            v1_id: v1,
            user_id: self.person.user_id,
            created_at: text(stamps.created_ms),
            updated_at: text(stamps.updated_ms),
            start: text(session.start_ms),
            end: text(session.end_ms),
            timezone_offset: zone.offset_text(session.start_ms),
            sport_name: session.sport.slug,
            score_state: stamps.state,
            score: (stamps.state == ScoreState::Scored).then_some(score),
            sport_id: session.sport.id,
        };
        self.generate.workouts.push(Entry {
            id,
            cycle: cycle_id(self.params.seed, day.number),
            start_ms: session.start_ms,
            end_ms: Some(session.end_ms),
            v1,
            main: true,
            body: written(&body),
        });
    }

    /// A score comes minutes after its record, and sometimes a record is corrected days later.
    fn stamps(
        &self,
        rng: &mut Rng,
        created_ms: i64,
        unscorable_probability: f64,
        pending: bool,
    ) -> Stamps {
        let scored_ms = created_ms + rng.whole(120, 1_500) * SECOND_MS;
        let mended = rng.happens(0.02);
        let mended_ms = scored_ms + rng.whole(DAY_MS, 6 * DAY_MS);
        let unscorable = rng.happens(unscorable_probability);
        let now_ms = self.params.now_ms;
        if pending || scored_ms > now_ms {
            return Stamps { created_ms, updated_ms: created_ms, state: ScoreState::PendingScore };
        }
        let updated_ms = if mended && mended_ms <= now_ms { mended_ms } else { scored_ms };
        let state = if unscorable { ScoreState::Unscorable } else { ScoreState::Scored };
        Stamps { created_ms, updated_ms, state }
    }
}

/// The parts of a night; the last one is the main sleep.
fn spans(day: &Day) -> Vec<Span> {
    let main = |from_ms| Span { from_ms, to_ms: day.wake_ms, nap: false, main: true };
    match day.night {
        Night::Whole => vec![main(day.bed_ms)],
        Night::Split { up_ms, back_ms, first_is_nap } => {
            let nap = first_is_nap;
            vec![Span { from_ms: day.bed_ms, to_ms: up_ms, nap, main: false }, main(back_ms)]
        }
        Night::Missed => Vec::new(),
    }
}

fn cycle_id(seed: u64, day: i64) -> i64 {
    100_000_000 + day * 9 + Rng::stream(seed, "cycle id", day).whole(0, 8)
}

fn v1_id(day: i64, nth: usize) -> Option<i64> {
    let (year, month, date) = V1_ENDED;
    (day < day_of(year, month, date)).then(|| 1_000_000_000 + day * 16 + number(nth))
}

fn number(nth: usize) -> i64 {
    i64::try_from(nth).unwrap_or(0)
}

/// Serializing these types cannot fail.
pub(super) fn written(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

#[cfg(test)]
#[path = "generate/tests.rs"]
mod tests;
