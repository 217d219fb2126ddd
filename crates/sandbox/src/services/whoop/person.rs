//! The fictional member: body measurements and habits that the days are generated from.

use serde_json::{Value, json};

use super::zones::Whereabouts;
use crate::rng::{Rng, decimals};
use crate::timestamp::{HOUR_MS, MINUTE_MS};

const FIRST_NAMES: &[&str] = &["Ada", "Noor", "Mika", "Jonas", "Zoë", "Ravi", "Inés", "Tom"];
const LAST_NAMES: &[&str] = &["Berg", "Okafor", "Lindqvist", "Rao", "Moreau", "Novák", "Kim"];

#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) whereabouts: Whereabouts,
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
    /// Bedtime relative to midnight; mostly negative.
    pub(super) bedtime_ms: f64,
    pub(super) in_bed_ms: f64,
    pub(super) need_ms: f64,
    /// The mean number of workouts per week.
    pub(super) workouts_a_week: f64,
    /// Indexes of the favourite [`super::sports::SPORTS`].
    pub(super) favourites: [usize; 3],
}

impl Person {
    pub(super) fn of(seed: u64) -> Person {
        let mut rng = Rng::stream(seed, "person", 0);
        let hours = |hours: f64| hours * crate::rng::real(HOUR_MS);
        let mut favourite = || usize::try_from(rng.whole(0, 9)).unwrap_or(0);
        let favourites = [favourite(), favourite(), favourite()];
        let height_m = decimals(rng.between(1.55, 1.96), 2);
        Person {
            whereabouts: Whereabouts::OfSeed(seed),
            user_id: rng.whole(10_000, 9_999_999),
            first_name: rng.pick(FIRST_NAMES).copied().unwrap_or("Ada"),
            last_name: rng.pick(LAST_NAMES).copied().unwrap_or("Berg"),
            height_m,
            weight_kg: decimals(height_m * height_m * rng.between(19.5, 27.0), 1),
            heart_max_bpm: rng.between(178.0, 201.0).round(),
            heart_rest_bpm: rng.between(45.0, 62.0),
            hrv_ms: rng.between(38.0, 95.0),
            breaths_per_min: rng.between(13.2, 17.0),
            skin_c: rng.between(33.0, 34.4),
            bedtime_ms: rng.between(-100.0, 35.0) * crate::rng::real(MINUTE_MS),
            in_bed_ms: hours(rng.between(7.3, 8.5)),
            need_ms: hours(rng.between(7.3, 8.2)),
            workouts_a_week: rng.between(3.0, 7.5),
            favourites,
        }
    }

    /// The same person, who lives elsewhere.
    pub(super) fn living(self, whereabouts: Whereabouts) -> Person {
        Person { whereabouts, ..self }
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
            "max_heart_rate": crate::rng::nearest(self.heart_max_bpm),
        })
    }
}
