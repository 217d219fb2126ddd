//! Whose data it is: the figures of a body and the habits that the days are drawn around.

use serde_json::{Value, json};

use crate::chance::{Chance, decimals};
use crate::moment::{HOUR_MS, MINUTE_MS};

const FIRST_NAMES: &[&str] = &["Ada", "Noor", "Mika", "Jonas", "Zoë", "Ravi", "Inés", "Tom"];
const LAST_NAMES: &[&str] = &["Berg", "Okafor", "Lindqvist", "Rao", "Moreau", "Novák", "Kim"];

#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) user_id: i64,
    first_name: &'static str,
    last_name: &'static str,
    height_m: f64,
    pub(super) weight_kg: f64,
    pub(super) heart_max_bpm: f64,
    pub(super) heart_rest_bpm: f64,
    pub(super) hrv_ms: f64,
    pub(super) breaths_per_min: f64,
    pub(super) skin_c: f64,
    /// When they lie down, from midnight; mostly negative.
    pub(super) bedtime_ms: f64,
    pub(super) in_bed_ms: f64,
    pub(super) need_ms: f64,
    /// How many workouts a week they are good for.
    pub(super) workouts_a_week: f64,
    /// Places of [`super::sports::SPORTS`] they like best.
    pub(super) favourites: [usize; 3],
}

impl Person {
    pub(super) fn of(seed: u64) -> Person {
        let mut chance = Chance::of(seed, "person", 0);
        let hours = |hours: f64| hours * crate::chance::real(HOUR_MS);
        let mut favourite = || usize::try_from(chance.whole(0, 9)).unwrap_or(0);
        let favourites = [favourite(), favourite(), favourite()];
        let height_m = decimals(chance.between(1.55, 1.96), 2);
        Person {
            user_id: chance.whole(10_000, 9_999_999),
            first_name: chance.pick(FIRST_NAMES).copied().unwrap_or("Ada"),
            last_name: chance.pick(LAST_NAMES).copied().unwrap_or("Berg"),
            height_m,
            weight_kg: decimals(height_m * height_m * chance.between(19.5, 27.0), 1),
            heart_max_bpm: chance.between(178.0, 201.0).round(),
            heart_rest_bpm: chance.between(45.0, 62.0),
            hrv_ms: chance.between(38.0, 95.0),
            breaths_per_min: chance.between(13.2, 17.0),
            skin_c: chance.between(33.0, 34.4),
            bedtime_ms: chance.between(-100.0, 35.0) * crate::chance::real(MINUTE_MS),
            in_bed_ms: hours(chance.between(7.3, 8.5)),
            need_ms: hours(chance.between(7.3, 8.2)),
            workouts_a_week: chance.between(3.0, 7.5),
            favourites,
        }
    }

    pub(super) fn profile(&self) -> Value {
        let address = format!("member{}@example.com", self.user_id);
        json!({
            "user_id": self.user_id,
            "email": address,
            "first_name": self.first_name,
            "last_name": self.last_name,
        })
    }

    pub(super) fn body(&self) -> Value {
        json!({
            "height_meter": self.height_m,
            "weight_kilogram": self.weight_kg,
            "max_heart_rate": crate::chance::nearest(self.heart_max_bpm),
        })
    }
}
