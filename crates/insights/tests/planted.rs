//! Seeded people with planted effects: the effects are found with their size inside the interval, and
//! few claims are false. `TOLLGATE_PEOPLE` sets the number of people.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;

use insights::survey::{Behaviour, Claim, ClaimKind, Measured, PairLook, Survey};
use insights::{Better, Day, Metric, Series, Unit};
use sandbox::planted::{Plant, PlantedDay, PlantedEffect, PlantedPerson, person};

const FIRST_DAY: i32 = 20_000;
const DAYS: i32 = 365;
const PEOPLE: u64 = 200;

type Value = fn(&PlantedDay) -> f64;

const METRICS: &[(&str, Unit, bool, Value)] = &[
    ("hrv", Unit::Milliseconds, true, |day| day.hrv_ms),
    ("resting_heart_rate", Unit::BeatsPerMinute, false, |day| day.resting_hr_bpm),
    ("respiratory_rate", Unit::BreathsPerMinute, false, |day| day.respiratory_rate),
    ("recovery", Unit::Percent, false, |day| day.recovery_pct),
    ("asleep", Unit::Minutes, false, |day| day.asleep_min),
    ("workout_energy", Unit::Kilojoules, false, |day| day.load_kj),
];

const PAIRS: &[(&str, &str, i32)] = &[
    ("asleep", "recovery", 0),
    ("asleep", "hrv", 0),
    ("asleep", "resting_heart_rate", 0),
    ("workout_energy", "recovery", 1),
    ("workout_energy", "hrv", 1),
    ("workout_energy", "resting_heart_rate", 1),
    ("workout_energy", "asleep", 1),
    ("recovery", "workout_energy", 0),
    ("hrv", "resting_heart_rate", 0),
    ("respiratory_rate", "recovery", 0),
];

fn survey(person: &PlantedPerson) -> Survey {
    let recorded = || person.days.iter().filter(|day| day.is_recorded);
    let series = |value: &dyn Fn(&PlantedDay) -> f64| {
        Series::from_points(recorded().map(|day| (Day::from_number(day.number), value(day))))
    };
    let measured = METRICS.iter().map(|(name, unit, is_log, value)| Measured {
        metric: Metric { name, title: name, unit: *unit, better: Better::Neither, is_log: *is_log },
        series: series(value),
    });
    let answer = |name: &str, yes: fn(&PlantedDay) -> bool| Behaviour {
        name: name.to_owned(),
        answers: series(&|day| f64::from(i32::from(yes(day)))),
        lag_days: 1,
    };
    let mut behaviours = vec![
        answer("late caffeine", |day| day.late_caffeine),
        answer("read in bed", |day| day.read_in_bed),
        answer("alcohol", |day| day.alcohol),
    ];
    behaviours.extend(insights::survey::jet_lag(&Series::from_points(
        recorded().map(|day| (Day::from_number(day.number), f64::from(day.offset_h * 60))),
    )));
    Survey {
        measured: measured.collect(),
        behaviours,
        outcomes: vec!["asleep", "recovery", "hrv", "resting_heart_rate"],
        pairs: PAIRS
            .iter()
            .map(|(x, y, lag_days)| PairLook { x, y, lag_days: *lag_days })
            .collect(),
        vitals: vec!["hrv", "resting_heart_rate", "respiratory_rate"],
    }
}

/// The claim that reports a planted effect.
fn reports(plant: Plant, effect: &PlantedEffect, claim: &Claim) -> bool {
    let near = |day: i32| claim.from.is_some_and(|from| (from.number() - day).abs() <= 7);
    let behaviour =
        |name: &str| claim.kind == ClaimKind::Behaviour && claim.other.as_deref() == Some(name);
    let same = claim.metric == effect.metric;
    same && match plant {
        Plant::Caffeine => behaviour("late caffeine"),
        Plant::Travel => behaviour(insights::survey::JET_LAG),
        Plant::Illness => claim.kind == ClaimKind::Anomaly && near(effect.days.0),
        Plant::TrainingBlock => {
            claim.kind == ClaimKind::ChangePoint && covers(claim, effect.days.0)
        }
        Plant::Nothing => false,
    }
}

/// Whether the days of a claim contain this one.
fn covers(claim: &Claim, day: i32) -> bool {
    (claim.from.unwrap()..=claim.to.unwrap()).contains(&Day::from_number(day))
}

/// Whether a claim follows from what was planted.
fn is_true(person: &PlantedPerson, claim: &Claim) -> bool {
    let effect = |name: &str| person.effects.iter().find(|effect| effect.metric == name);
    let Some(own) = effect(claim.metric) else { return false };
    let within = |effect: &PlantedEffect| {
        let (Some(from), Some(to)) = (claim.from, claim.to) else { return false };
        from.number() <= effect.days.1 + 7 && to.number() >= effect.days.0 - 7
    };
    match claim.kind {
        ClaimKind::Behaviour => reports(person.plant, own, claim),
        // A shared cause is a real correlation; on another day only where the cause lasts.
        ClaimKind::Correlation => {
            let lasts = person.plant != Plant::Caffeine || claim.lag_days == Some(0);
            effect(claim.other.as_deref().unwrap()).is_some() && lasts
        }
        ClaimKind::Trend => person.plant == Plant::TrainingBlock && within(own),
        ClaimKind::ChangePoint => {
            let lasts = matches!(person.plant, Plant::TrainingBlock | Plant::Travel);
            lasts && (covers(claim, own.days.0) || covers(claim, own.days.1 + 1))
        }
        ClaimKind::Anomaly => {
            matches!(person.plant, Plant::Illness | Plant::TrainingBlock) && within(own)
        }
    }
}

#[derive(Default, Debug)]
struct Tally {
    planted: usize,
    found: usize,
    covered: usize,
}

#[test]
fn planted_effects_are_found_and_few_claims_are_false() {
    let people = std::env::var("TOLLGATE_PEOPLE").ok().and_then(|text| text.parse().ok());
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let (mut claims_made, mut false_claims) = (0, BTreeMap::<String, usize>::new());
    for seed in 0..people.unwrap_or(PEOPLE) {
        let person = person(seed, FIRST_DAY, DAYS);
        let last = Day::from_number(FIRST_DAY + DAYS - 1);
        let claims = survey(&person).claims(Day::from_number(FIRST_DAY), last);
        claims_made += claims.claims.len();
        for claim in claims.claims.iter().filter(|claim| !is_true(&person, claim)) {
            let what =
                format!("{:?} {:?} {} {:?}", person.plant, claim.kind, claim.metric, claim.other);
            *false_claims.entry(what).or_default() += 1;
        }
        for effect in &person.effects {
            let tally = tallies.entry(format!("{:?} {}", person.plant, effect.metric)).or_default();
            tally.planted += 1;
            let mut own = claims.claims.iter().filter(|claim| reports(person.plant, effect, claim));
            if let Some(claim) = own.next() {
                tally.found += 1;
                tally.covered += usize::from(claim.interval.contains(effect.size));
            }
        }
    }
    let (planted, covered): (usize, usize) = (
        tallies.values().map(|own| own.planted).sum(),
        tallies.values().map(|own| own.covered).sum(),
    );
    let wrong: usize = false_claims.values().sum();
    for (name, tally) in &tallies {
        println!("{name}: {tally:?}");
    }
    println!("false: {false_claims:#?}");
    println!(
        "{covered} of {planted} planted effects found with their size; {wrong} of {claims_made} claims false"
    );
    assert!(covered * 100 >= planted * 90, "{covered} of {planted}");
    assert!(wrong * 100 <= claims_made * 5, "{wrong} of {claims_made}");
}
