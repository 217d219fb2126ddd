//! The documented answers while the login is sealed with a key that is not to be had.

use serde_json::json;

use super::health;
use super::kind::Kind;
use super::problem::{Code, Problem};
use super::table::CLASSIC;
use crate::locked::WORDS;
use crate::{Answer, Tool};

pub(crate) fn locked(tool: &Tool, now_us: i64) -> Answer {
    if tool.set == CLASSIC {
        return Answer::Failed { code: Code::AuthFailed.as_str(), words: WORDS.to_owned() };
    }
    match tool.name {
        "get_whoop_auth_status" => json!({"status": "no_tokens", "detail": WORDS}).into(),
        "health_check" => health::locked(WORDS, now_us).into(),
        name => Problem::new(Code::AuthFailed, endpoint(name), WORDS).envelope().into(),
    }
}

/// Where the tool would have asked.
fn endpoint(tool: &'static str) -> &'static str {
    match tool {
        "sync_whoop" => "/sync",
        "get_whoop_daily_summary" => "/daily_summary",
        "get_whoop_profile" => Kind::Profile.path(),
        "get_whoop_body_measurement" => Kind::BodyMeasurement.path(),
        "list_whoop_cycles" | "get_whoop_cycle" => Kind::Cycles.path(),
        "list_whoop_recoveries" | "get_whoop_cycle_recovery" => Kind::Recoveries.path(),
        "list_whoop_sleeps" | "get_whoop_sleep" | "get_whoop_cycle_sleep" => Kind::Sleeps.path(),
        "list_whoop_workouts" | "get_whoop_workout" => Kind::Workouts.path(),
        // The others are called by their own names in errors.
        name => name,
    }
}
