//! The stream of one night: heart rate, temperatures and states, one point every few seconds.

use serde_json::{Map, Value, json};

use super::collection::Entry;
use super::person::Person;
use crate::http::{Request, Response};
use crate::rng::{Rng, decimals, nearest};
use crate::timestamp::text;

const STEP_MS: usize = 6_000;

/// The types that may be requested, and their fields.
const TYPES: &[(&str, &str)] = &[
    ("hr", "hr"),
    ("skin_temp", "skin_temp"),
    ("board_temp", "board_temp"),
    ("battery_temp", "battery_temp"),
    ("sleep_classification", "is_sleeping"),
    ("charging_status", "is_charging"),
];

pub(super) fn answer(seed: u64, person: &Person, sleep: &Entry, request: &Request) -> Response {
    let named: Vec<&str> = request
        .values("types")
        .flat_map(|list| list.split(','))
        .filter(|t| !t.is_empty())
        .collect();
    if named.iter().any(|name| !TYPES.iter().any(|(known, _)| known == name)) {
        return Response::problem(400, "types holds a name that is not known");
    }
    let fields: Vec<&str> = TYPES
        .iter()
        .filter(|(name, _)| named.is_empty() || named.contains(name))
        .map(|(_, field)| *field)
        .collect();
    let stream = points(seed, person, sleep, &fields);
    Response::json(200, &json!({ "stream": stream, "algorithm_version": "sandbox-1" }))
}

fn points(seed: u64, person: &Person, sleep: &Entry, fields: &[&str]) -> Vec<Value> {
    let mut rng = Rng::stream(seed, &sleep.id, 0);
    let end_ms = sleep.end_ms.unwrap_or(sleep.start_ms);
    let mut heart = person.heart_rest_bpm + 8.0;
    let mut skin = person.skin_c;
    let mut sleeping = false;
    let mut points = Vec::new();
    for at_ms in (sleep.start_ms..end_ms).step_by(STEP_MS) {
        heart += 0.03 * (person.heart_rest_bpm + 3.0 - heart) + 0.9 * rng.spread();
        skin += 0.01 * (person.skin_c + 0.6 - skin) + 0.01 * rng.spread();
        // States last: they change about every twenty minutes, and sleep lasts longer.
        if rng.happens(if sleeping { 0.002 } else { 0.03 }) {
            sleeping = !sleeping;
        }
        let mut point = Map::from_iter([("timestamp".to_owned(), json!(text(at_ms)))]);
        for field in fields {
            let value = match *field {
                "hr" => json!(nearest(heart)),
                "skin_temp" => json!(decimals(skin, 3)),
                "board_temp" => json!(decimals(skin - 0.8, 3)),
                "battery_temp" => json!(decimals(skin - 1.4, 3)),
                "is_sleeping" => json!(sleeping),
                _ => json!(false),
            };
            point.insert((*field).to_owned(), value);
        }
        points.push(Value::Object(point));
    }
    points
}
