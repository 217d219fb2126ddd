//! The documented results while the vault key is not available.

use super::handler::Shown;
use super::health;
use super::kind::Kind;
use super::problem::{WhoopCode, WhoopProblem};
use super::status::AuthStatus;
use super::table::CLASSIC;
use crate::tool::Json;
use crate::vault_locked::MESSAGE;
use crate::{Answer, Tool};

pub(crate) fn locked(tool: &Tool, now_us: i64) -> Answer {
    if tool.set == CLASSIC {
        return Answer::Failed {
            code: WhoopCode::AuthFailed.as_str(),
            message: MESSAGE.to_owned(),
        };
    }
    match tool.name {
        "get_whoop_auth_status" => Json(AuthStatus::no_tokens(MESSAGE)).into_answer(),
        "health_check" => Json(health::locked(MESSAGE, now_us)).into_answer(),
        name => WhoopProblem::new(WhoopCode::AuthFailed, endpoint(name), MESSAGE).envelope().into(),
    }
}

/// The endpoint that the tool would have used.
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
        // The others use their own names in errors.
        name => name,
    }
}
