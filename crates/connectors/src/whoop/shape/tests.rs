//! Every example of the record rules as data, and the rounding against a slow second opinion.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::convert::{calories, local_text, offset_seconds, seconds};
use super::{INVALID, Kind, shape};

fn flat(kind: Kind, raw: &Value) -> Value {
    Value::Object(shape(kind, raw).flat.unwrap())
}

#[test]
fn milliseconds_become_tenths_of_a_second_rounded_as_the_exact_value_says() {
    for (millis, expected) in [
        (50, 0.1),
        (150, 0.1),
        (250, 0.2),
        (350, 0.3),
        (1250, 1.2),
        (1350, 1.4),
        (1450, 1.4),
        (1550, 1.6),
        (9999, 10.0),
        (27_000_250, 27_000.2),
        (-4_552_050, -4_552.1),
        (0, 0.0),
    ] {
        assert_eq!(seconds(millis).to_bits(), f64::to_bits(expected), "{millis}");
    }
}

/// The same rule in whole numbers: the double nearest to millis/1000 is split into its exact
/// binary fraction, and the tenth nearest to that is found by comparing integers.
fn seconds_slowly(millis: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "the range of the property is small")]
    let exact = (millis.unsigned_abs() as f64) / 1000.0;
    if exact == 0.0 {
        return 0.0;
    }
    let bits = exact.to_bits();
    let exponent = i32::try_from(bits >> 52).unwrap() - 1075;
    let mantissa = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
    // exact = mantissa * 2^exponent with a negative exponent in this range.
    let scale = u32::try_from(-exponent).unwrap();
    let (numerator, denominator) = (mantissa * 10, 1_u128 << scale);
    let (quotient, remainder) = (numerator / denominator, numerator % denominator);
    let up = match (remainder * 2).cmp(&denominator) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => quotient % 2,
        std::cmp::Ordering::Greater => 1,
    };
    let tenths = quotient + up;
    let text = format!("{}{}.{}", if millis < 0 { "-" } else { "" }, tenths / 10, tenths % 10);
    text.parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn rounding_agrees_with_whole_number_arithmetic(tens in -10_000_000_i64..10_000_000, ones in 0_i64..10) {
        for millis in [tens * 10, tens * 10 + ones] {
            prop_assert_eq!(seconds(millis).to_bits(), seconds_slowly(millis).to_bits(), "{}", millis);
        }
    }
}

#[test]
fn energy_uses_the_documented_factor_and_ties_go_to_even() {
    for (kilojoule, expected) in [(2.092, 1), (8000.0, 1912), (0.0, 0), (8288.297, 1981)] {
        assert_eq!(calories(&json!(kilojoule)), json!(expected), "{kilojoule}");
    }
    assert_eq!(calories(&Value::Null), Value::Null);
}

#[test]
fn offsets_are_read_as_whoop_writes_them_and_nothing_else() {
    for (text, expected) in [
        ("Z", Some(0)),
        ("+05:30", Some(19_800)),
        ("-05:00", Some(-18_000)),
        ("-08", Some(-28_800)),
        ("+0530", None),
        ("+25:00", None),
        ("05:30", None),
        ("", None),
    ] {
        assert_eq!(offset_seconds(text), expected, "{text}");
    }
    let local = local_text("2026-04-14T01:02:06.740Z", 19_800);
    assert_eq!(local.as_deref(), Some("2026-04-14T06:32:06.740000+05:30"));
    let local = local_text("2026-04-14T01:02:06.000Z", 0);
    assert_eq!(local.as_deref(), Some("2026-04-14T01:02:06+00:00"));
}

#[test]
fn a_scored_cycle_is_flat_and_its_floats_stay_floats() {
    let raw = json!({
        "id": 93845, "user_id": 10129, "created_at": "2022-04-24T11:25:44.774Z",
        "updated_at": "2022-04-24T14:25:44.774Z", "start": "2022-04-24T02:25:44.774Z", "end": null,
        "timezone_offset": "-05:00", "score_state": "SCORED", "unknown": [1],
        "score": {"strain": 5, "kilojoule": 8288.297, "average_heart_rate": "68", "max_heart_rate": 141.0}
    });
    assert_eq!(
        flat(Kind::Cycles, &raw).to_string(),
        r#"{"id":93845,"start_utc":"2022-04-24T02:25:44.774Z","end_utc":null,"start_local":"2022-04-23T21:25:44.774000-05:00","end_local":null,"timezone_offset":"-05:00","score_state":"SCORED","strain":5.0,"avg_hr_bpm":68,"max_hr_bpm":141,"calories":1981,"start":"2022-04-24T02:25:44.774Z","end":null,"local_date":"2022-04-24"}"#
    );
    let shaped = shape(Kind::Cycles, &raw);
    assert_eq!(shaped.id.as_deref(), Some("93845"));
    assert_eq!((shaped.end_us, shaped.offset_s), (None, Some(-18_000)));
    assert_eq!(shaped.updated.as_deref(), Some("2022-04-24T14:25:44.774Z"));
}

#[test]
fn a_recovery_takes_its_cycle_as_key_and_parent() {
    let raw = json!({"cycle_id": 93845, "sleep_id": "123e4567", "updated_at": "2022-04-24T14:25:44.774Z",
        "score_state": "SCORED", "score": {"user_calibrating": false, "recovery_score": 44,
        "resting_heart_rate": 64, "hrv_rmssd_milli": 31.813_562, "spo2_percentage": 95.6875}});
    assert_eq!(
        flat(Kind::Recoveries, &raw).to_string(),
        r#"{"cycle_id":93845,"sleep_id":"123e4567","score_state":"SCORED","recovery_score":44.0,"resting_heart_rate_bpm":64.0,"hrv_rmssd_ms":31.813562,"spo2_pct":95.6875,"skin_temp_c":null,"user_calibrating":false,"start_utc":null,"end_utc":null,"start_local":null,"end_local":null,"timezone_offset":null,"start":null,"end":null,"local_date":null}"#
    );
    let shaped = shape(Kind::Recoveries, &raw);
    assert_eq!((shaped.id.as_deref(), shaped.parent.as_deref()), (Some("93845"), Some("93845")));
}

#[test]
fn a_sleep_and_a_workout_count_seconds_and_keep_absent_objects_null() {
    let raw = json!({"id": "a", "cycle_id": 7, "start": "2026-04-14T22:00:00Z", "end": "2026-04-15T06:00:00Z",
        "timezone_offset": "Z", "nap": false, "score_state": "SCORED", "score": {
            "stage_summary": {"total_in_bed_time_milli": 30_272_735, "total_awake_time_milli": 1_403_507,
                "total_no_data_time_milli": 0, "total_light_sleep_time_milli": 14_905_851,
                "total_slow_wave_sleep_time_milli": 6_630_370, "total_rem_sleep_time_milli": 5_879_573,
                "sleep_cycle_count": 3, "disturbance_count": 12},
            "sleep_needed": {"baseline_milli": 27_395_716, "need_from_sleep_debt_milli": 352_230,
                "need_from_recent_strain_milli": 208_595, "need_from_recent_nap_milli": -12_312},
            "respiratory_rate": 16.113_281_25, "sleep_performance_percentage": 98,
            "sleep_consistency_percentage": 90, "sleep_efficiency_percentage": 91.695_338_48}});
    let sleep = flat(Kind::Sleeps, &raw);
    for (pointer, expected) in [
        ("/in_bed_seconds", json!(30272.7)),
        ("/deep_sleep_seconds", json!(6630.4)),
        ("/no_data_seconds", json!(0.0)),
        ("/sleep_cycle_count", json!(3)),
        ("/sleep_performance_pct", json!(98.0)),
        ("/sleep_efficiency_pct", json!(91.695_338_48)),
        ("/sleep_needed_seconds/need_from_recent_nap_seconds", json!(-12.3)),
        ("/sleep_needed_seconds/baseline_seconds", json!(27395.7)),
        ("/end_local", json!("2026-04-15T06:00:00+00:00")),
        ("/start", json!("2026-04-14T22:00:00Z")),
        ("/local_date", json!("2026-04-15")),
        // Sums of milliseconds, rounded once.
        ("/asleep_seconds", json!(27415.8)),
        ("/sleep_need_seconds", json!(27944.2)),
        ("/sleep_debt_seconds", json!(352.2)),
    ] {
        assert_eq!(sleep.pointer(pointer), Some(&expected), "{pointer}");
    }
    let bare = flat(
        Kind::Workouts,
        &json!({"id": "w", "score_state": "SCORED",
        "score": {"zone_durations": {"zone_one_milli": 1250}}}),
    );
    assert_eq!(bare.pointer("/zone_durations_seconds/zone_one"), Some(&json!(1.2)));
    assert_eq!(bare.pointer("/zone_durations_seconds/zone_five"), Some(&Value::Null));
    assert_eq!(bare.pointer("/start_local"), Some(&Value::Null));
    assert_eq!(bare.as_object().unwrap().len(), 22);
    let none = flat(Kind::Workouts, &json!({"id": "w"}));
    assert_eq!(none.pointer("/zone_durations_seconds"), Some(&Value::Null));
}

#[test]
fn a_share_that_was_recorded_is_shown_in_percent_whichever_way_it_comes() {
    for (sent, expected) in [
        (json!(1.0), json!(100.0)),
        (json!(0.999_995_95), json!(100.0)),
        (json!(0.25), json!(25.0)),
        (json!(0), json!(0.0)),
        (json!(98.5), json!(98.5)),
        (Value::Null, Value::Null),
    ] {
        let raw = json!({"id": "w", "score_state": "SCORED", "score": {"percent_recorded": sent}});
        let workout = flat(Kind::Workouts, &raw);
        assert_eq!(workout.get("recorded_pct"), Some(&expected), "{sent}");
        assert_eq!(workout["percent_recorded"].as_f64(), sent.as_f64(), "as WHOOP sends it");
    }
}

#[test]
fn an_unscored_record_has_null_scores_whatever_whoop_sends() {
    for state in ["PENDING_SCORE", "UNSCORABLE"] {
        let raw = json!({"id": 1, "score_state": state, "score": {"strain": 3.0, "kilojoule": 10, "average_heart_rate": 60.5}});
        let cycle = flat(Kind::Cycles, &raw);
        for name in ["strain", "calories", "avg_hr_bpm"] {
            assert_eq!(cycle.get(name), Some(&Value::Null), "{state} {name}");
        }
    }
}

#[test]
fn an_unreadable_record_is_kept_with_its_reason() {
    for (kind, raw, field) in [
        (
            Kind::Cycles,
            json!({"id": 5, "score": {"average_heart_rate": 62.5}}),
            "score.average_heart_rate",
        ),
        (Kind::Sleeps, json!({"id": 5}), "id"),
        (Kind::Workouts, json!({"start": "2026-04-14T00:00:00Z"}), "id"),
        (Kind::Cycles, json!({"id": 5, "score": 7}), "score"),
        (Kind::Profile, json!({"email": 5}), "email"),
        (Kind::Cycles, json!([]), "record"),
    ] {
        let shaped = shape(kind, &raw);
        assert_eq!(shaped.flat.as_ref().unwrap_err().field, field, "{raw}");
        assert_eq!(shaped.state.as_deref(), Some(INVALID));
        assert!(shaped.warning(kind).unwrap().contains(field), "{raw}");
        assert!(
            !shaped.warning(kind).unwrap().contains("62.5"),
            "a value of the owner's in a warning"
        );
    }
}

#[test]
fn snapshots_have_the_documented_keys() {
    let body = flat(
        Kind::BodyMeasurement,
        &json!({"height_meter": 1.8288, "weight_kilogram": 91, "max_heart_rate": 200}),
    );
    assert_eq!(body, json!({"height_meter": 1.8288, "max_hr_bpm": 200, "weight_kilogram": 91.0}));
    let profile = flat(
        Kind::Profile,
        &json!({"user_id": 1, "email": "a@b.c", "first_name": "Zoë", "last_name": null}),
    );
    assert_eq!(profile, json!({"email": "a@b.c", "first_name": "Zoë", "last_name": null}));
}
