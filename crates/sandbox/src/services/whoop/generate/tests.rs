//! Properties of all generated data.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::Value;

use super::{WhoopParams, WhoopRecords, generate};
use crate::services::whoop::collection::Entry;
use crate::services::whoop::person::Person;
use crate::services::whoop::zones::Whereabouts;
use crate::timestamp::{DAY_MS, day_of, read};

/// 16 November 2026, 09:30 UTC.
const NOW_MS: i64 = 1_794_821_400_000;

fn params(seed: u64, days: u32, now_ms: i64) -> WhoopParams {
    let first_day = WhoopParams::first_day(Whereabouts::OfSeed(seed), days, now_ms);
    WhoopParams { seed, first_day, now_ms, pending_newest: false }
}

fn made(seed: u64, days: u32, now_ms: i64) -> WhoopRecords {
    generate(&Person::of(seed), params(seed, days, now_ms))
}

fn bodies(entries: &[Entry]) -> Vec<Value> {
    entries.iter().map(|entry| serde_json::from_str(&entry.body).unwrap()).collect()
}

fn at(record: &Value, name: &str) -> Option<i64> {
    record[name].as_str().map(|text| read(text).unwrap())
}

fn all(generate: &WhoopRecords) -> Vec<Value> {
    let kinds = [&generate.cycles, &generate.sleeps, &generate.recoveries, &generate.workouts];
    kinds.into_iter().flat_map(|entries| bodies(entries)).collect()
}

fn check_stages(score: &Value, start: i64, end: i64) {
    let stages = score["stage_summary"].as_object().unwrap();
    let ms = |name: &str| stages[name].as_i64().unwrap();
    let parts = ["awake", "no_data", "light_sleep", "slow_wave_sleep", "rem_sleep"];
    let parts: Vec<i64> = parts.map(|part| ms(&format!("total_{part}_time_milli"))).into();
    assert!(parts.iter().all(|part| *part >= 0 && part % 10 == 0), "{score}");
    assert_eq!(parts.iter().sum::<i64>(), ms("total_in_bed_time_milli"));
    assert_eq!(ms("total_in_bed_time_milli"), end - start);
    assert!(score["sleep_needed"]["need_from_recent_nap_milli"].as_i64().unwrap() <= 0);
    let performance = score["sleep_performance_percentage"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&performance));
}

fn check_world(generate: &WhoopRecords, now_ms: i64) {
    let cycles: HashMap<i64, Value> = bodies(&generate.cycles)
        .into_iter()
        .map(|cycle| (cycle["id"].as_i64().unwrap(), cycle))
        .collect();
    assert_eq!(cycles.len(), generate.cycles.len(), "a cycle id came twice");
    for record in all(generate) {
        let scored = record["score_state"] == "SCORED";
        assert_eq!(scored, record["score"].is_object(), "{record}");
        assert!(scored || record["score"].is_null(), "a null is said: {record}");
        let (created, updated) = (at(&record, "created_at"), at(&record, "updated_at"));
        assert!(created <= updated && updated <= Some(now_ms), "{record}");
    }
    for sleep in bodies(&generate.sleeps) {
        let cycle = &cycles[&sleep["cycle_id"].as_i64().unwrap()];
        let (start, end) = (at(&sleep, "start").unwrap(), at(&sleep, "end").unwrap());
        assert!(at(cycle, "start").unwrap() <= start && start < end && end <= now_ms);
        assert!(at(cycle, "end").is_none_or(|cycle_end| end <= cycle_end), "{sleep} {cycle}");
        if sleep["score"].is_object() {
            check_stages(&sleep["score"], start, end);
        }
    }
    check_recoveries(generate, &cycles);
    check_workouts(generate);
    let open: Vec<&Value> = cycles.values().filter(|cycle| cycle["end"].is_null()).collect();
    assert_eq!(open.len(), usize::from(!cycles.is_empty()), "one cycle goes on");
}

fn check_recoveries(generate: &WhoopRecords, cycles: &HashMap<i64, Value>) {
    let sleeps: HashMap<String, Value> = generate
        .sleeps
        .iter()
        .map(|entry| (entry.id.clone(), serde_json::from_str(&entry.body).unwrap()))
        .collect();
    let mut seen = HashSet::new();
    for recovery in bodies(&generate.recoveries) {
        let cycle = recovery["cycle_id"].as_i64().unwrap();
        assert!(cycles.contains_key(&cycle) && seen.insert(cycle));
        let sleep = &sleeps[recovery["sleep_id"].as_str().unwrap()];
        assert_eq!((sleep["cycle_id"].as_i64(), &sleep["nap"]), (Some(cycle), &Value::Bool(false)));
        if let Some(score) = recovery["score"].as_object() {
            let percent = score["recovery_score"].as_f64().unwrap();
            assert!((0.0..=100.0).contains(&percent));
            assert!((25.0..120.0).contains(&score["resting_heart_rate"].as_f64().unwrap()));
            assert!((5.0..250.0).contains(&score["hrv_rmssd_milli"].as_f64().unwrap()));
        }
    }
}

fn check_workouts(generate: &WhoopRecords) {
    for workout in bodies(&generate.workouts) {
        let length = at(&workout, "end").unwrap() - at(&workout, "start").unwrap();
        let Some(score) = workout["score"].as_object() else { continue };
        let recorded = score["percent_recorded"].as_f64().unwrap();
        assert!((0.5..=1.0).contains(&recorded), "a fraction: {recorded}");
        let zones: i64 = score["zone_durations"]
            .as_object()
            .unwrap()
            .values()
            .map(|z| z.as_i64().unwrap())
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a workout")]
        let recorded_ms = length as f64 * recorded;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a workout")]
        let off = (zones as f64 - recorded_ms).abs();
        assert!(off <= 20.0, "{off}");
        assert!((0.0..=21.0).contains(&score["strain"].as_f64().unwrap()));
        assert!(score["average_heart_rate"].as_i64() <= score["max_heart_rate"].as_i64());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn generated_data_is_consistent(seed: u64, days in 0..500_u32, hours in 0..4_000_i64) {
        let now_ms = NOW_MS - hours * 3_600_000;
        check_world(&made(seed, days, now_ms), now_ms);
    }

    #[test]
    fn the_same_parameters_give_the_same_bytes_and_time_only_adds(seed: u64, hours in 1..200_i64) {
        let (now, later) = (params(seed, 60, NOW_MS), NOW_MS + hours * 3_600_000);
        let person = Person::of(seed);
        let (first, again) = (generate(&person, now), generate(&person, now));
        prop_assert_eq!(&first.sleeps, &again.sleeps);
        prop_assert_eq!(&first.workouts, &again.workouts);
        let then = generate(&person, WhoopParams { now_ms: later, ..now });
        for (old, new) in [
            (&first.cycles, &then.cycles),
            (&first.sleeps, &then.sleeps),
            (&first.recoveries, &then.recoveries),
            (&first.workouts, &then.workouts),
        ] {
            let ids = |entries: &[Entry]| entries.iter().map(|e| e.id.clone()).collect::<Vec<_>>();
            prop_assert!(ids(new).starts_with(&ids(old)));
        }
        for (old, new) in bodies(&first.sleeps).iter().zip(bodies(&then.sleeps)) {
            // A scored record keeps its score; only the timestamp of a corrected one changes.
            if old["score"].is_object() {
                prop_assert_eq!(&old["score"], &new["score"]);
            }
            prop_assert!(at(old, "updated_at") <= at(&new, "updated_at"));
        }
    }
}

#[test]
fn ten_years_contain_every_kind_of_event() {
    let generate = made(11, 3_650, NOW_MS);
    check_world(&generate, NOW_MS);
    let counts = [&generate.cycles, &generate.sleeps, &generate.recoveries, &generate.workouts]
        .map(Vec::len);
    assert!((3_500..=3_650).contains(&counts[0]), "{counts:?}");
    assert!(counts[1] > counts[2] && counts[2] > 3_300 && counts[3] > 1_500, "{counts:?}");
    let pages: usize = counts.iter().map(|count| count.div_ceil(25)).sum();
    assert!((450..750).contains(&pages), "{pages} pages");
    let all = all(&generate);
    let having = |test: &dyn Fn(&Value) -> bool| all.iter().filter(|record| test(record)).count();
    for (message, count, least) in [
        ("unscorable", having(&|r| r["score_state"] == "UNSCORABLE"), 10),
        ("naps", having(&|r| r["nap"] == true), 100),
        ("without a night", counts[0] - counts[2], 20),
        ("calibrating", having(&|r| r["score"]["user_calibrating"] == true), 3),
        ("with a first id", having(&|r| r["v1_id"].is_i64()), 1_000),
        ("with a null first id", having(&|r| r.get("v1_id").is_some_and(Value::is_null)), 100),
        (
            "without oxygen",
            having(&|r| r["score"].get("spo2_percentage").is_some_and(Value::is_null)),
            500,
        ),
        ("with a distance", having(&|r| r["score"]["distance_meter"].is_f64()), 100),
        (
            "without a distance",
            having(&|r| r["score"].get("distance_meter").is_some_and(Value::is_null)),
            100,
        ),
    ] {
        assert!(count >= least, "{message}: {count}");
    }
}

#[test]
fn people_travel_and_the_clocks_change() {
    let mut offsets = HashSet::new();
    let mut two_on_a_date = 0;
    let mut split = 0;
    for seed in 0..12 {
        let generate = made(seed, 730, NOW_MS);
        let mut dates: HashMap<i64, u32> = HashMap::new();
        for cycle in bodies(&generate.cycles) {
            let offset = cycle["timezone_offset"].as_str().unwrap().to_owned();
            let start = at(&cycle, "start").unwrap();
            *dates.entry((start + offset_ms(&offset)).div_euclid(DAY_MS)).or_default() += 1;
            offsets.insert(offset);
        }
        two_on_a_date += dates.values().filter(|count| **count > 1).count();
        let mut nights: HashMap<i64, u32> = HashMap::new();
        for sleep in bodies(&generate.sleeps).iter().filter(|sleep| sleep["nap"] == false) {
            *nights.entry(sleep["cycle_id"].as_i64().unwrap()).or_default() += 1;
        }
        split += nights.values().filter(|count| **count > 1).count();
    }
    assert!(offsets.len() > 8 && offsets.contains("Z"), "{offsets:?}");
    assert!(two_on_a_date > 20 && split > 10, "{two_on_a_date} {split}");
}

fn offset_ms(text: &str) -> i64 {
    if text == "Z" {
        return 0;
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let number = |from: usize| text[from..from + 2].parse::<i64>().unwrap();
    sign * (number(1) * 60 + number(4)) * 60_000
}

#[test]
fn illness_shows_and_weekends_are_longer() {
    let (mut ill, mut well) = (Vec::new(), Vec::new());
    let (mut weekend, mut week) = (Vec::new(), Vec::new());
    for seed in 0..6 {
        let person = Person::of(seed);
        let first = day_of(2024, 1, 1);
        let days = crate::services::whoop::days::days(seed, &person, first, first + 700);
        for day in &days {
            let mut rng = crate::rng::Rng::stream(seed, "t", day.number);
            let form = super::Form::start();
            let score =
                crate::services::whoop::scores::recovery(&mut rng, &person, day, form, 85.0);
            let share = score.hrv_rmssd_milli / person.hrv_ms;
            let above = score.resting_heart_rate - person.heart_rest_bpm;
            if day.illness > 0.5 {
                ill.push((share, above));
            } else {
                well.push((share, above));
            }
            let length = crate::rng::real(day.wake_ms - day.bed_ms);
            let weekend_day = crate::timestamp::weekday(day.number) >= 5;
            if weekend_day { weekend.push((length, 0.0)) } else { week.push((length, 0.0)) }
        }
    }
    let mean = |list: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        list.iter().map(of).sum::<f64>() / f64::from(u32::try_from(list.len()).unwrap())
    };
    assert!(mean(&ill, |x| x.0) < 0.85 * mean(&well, |x| x.0));
    assert!(mean(&ill, |x| x.1) > 3.0 + mean(&well, |x| x.1));
    assert!(mean(&weekend, |x| x.0) > mean(&week, |x| x.0));
}

#[test]
fn the_newest_records_have_no_score_if_configured() {
    let person = Person::of(3);
    let request = WhoopParams { pending_newest: true, ..params(3, 30, NOW_MS) };
    let generate = generate(&person, request);
    let state = |entries: &[Entry]| bodies(entries).last().unwrap()["score_state"].clone();
    for entries in [&generate.cycles, &generate.recoveries, &generate.workouts] {
        assert_eq!(state(entries), "PENDING_SCORE");
    }
    let nights: Vec<Value> =
        bodies(&generate.sleeps).into_iter().filter(|sleep| sleep["nap"] == false).collect();
    assert_eq!(nights.last().unwrap()["score_state"], "PENDING_SCORE");
}

/// The same bytes on every machine. After an intended change of the generator, update the digest here.
#[test]
fn the_bytes_of_a_seed_do_not_change() {
    use sha2::{Digest, Sha256};
    let generate = made(1, 400, NOW_MS);
    let mut digest = Sha256::new();
    for entries in [&generate.cycles, &generate.sleeps, &generate.recoveries, &generate.workouts] {
        for entry in entries {
            digest.update(entry.body.as_bytes());
        }
    }
    let digest = digest.finalize();
    let first = u64::from_be_bytes(digest[..8].try_into().unwrap());
    assert_eq!(format!("{first:016x}"), "4a51f9d1270b0a2d");
}
