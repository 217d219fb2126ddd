//! Achievements and statistics of one game.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{NAME, api};
use crate::arguments::BadArgument;
use crate::personal::{Problem, field};
use crate::tool::Json;
use crate::when::utc_millis;
use crate::{ToolCall, coerce};

const NEWEST: usize = 5;

#[derive(Deserialize, JsonSchema)]
pub(super) struct GameArgs {
    /// The number of the game, as get_steam_library shows it.
    #[schemars(range(min = 1))]
    app_id: i64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Achievements {
    game_name: Option<String>,
    total_achievements: usize,
    achieved_count: usize,
    /// In percent.
    completion_rate: f64,
    recent_achievements: Vec<Achievement>,
}

#[derive(Serialize, JsonSchema)]
struct Achievement {
    apiname: Option<String>,
    name: Option<String>,
    achieved: u8,
    unlocktime: i64,
    unlocked_at: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct GameStats {
    game_name: Option<String>,
    summary: StatsSummary,
    achievements: Vec<Map<String, Value>>,
    stats: Vec<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
struct StatsSummary {
    total_achievements: usize,
    achieved_count: usize,
    total_stats: usize,
}

fn app_id(args: &GameArgs) -> Result<i64, Problem> {
    if (1..=i64::from(u32::MAX)).contains(&args.app_id) {
        Ok(args.app_id)
    } else {
        Err(BadArgument::new("app_id", "the number of a game").problem(NAME))
    }
}

fn is_done(achievement: &Value) -> bool {
    achievement.get("achieved").and_then(coerce::int) == Some(1)
}

/// A percentage with one decimal.
fn percent(part: usize, whole: usize) -> f64 {
    let tenths = (part * 2_000 + whole) / (whole.max(1) * 2);
    f64::from(u32::try_from(tenths).unwrap_or(1_000)) / 10.0
}

pub(super) async fn achievements(
    call: ToolCall<'_>,
    args: GameArgs,
) -> Result<Json<Achievements>, Problem> {
    let app = app_id(&args)?;
    let found = api::figures(call.ctx, "GetPlayerAchievements", "v0001", app).await?;
    let all = field::objects(&found, "/achievements");
    if all.is_empty() {
        return Err(api::no_figures());
    }
    let mut done: Vec<&Value> = all.iter().copied().filter(|one| is_done(one)).collect();
    done.sort_by_key(|one| Reverse(unlocked_s(one)));
    Ok(Json(Achievements {
        game_name: field::word(&found, "/gameName"),
        total_achievements: all.len(),
        achieved_count: done.len(),
        completion_rate: percent(done.len(), all.len()),
        recent_achievements: done.into_iter().take(NEWEST).map(achievement).collect(),
    }))
}

fn unlocked_s(achievement: &Value) -> i64 {
    field::int(achievement, "/unlocktime").unwrap_or(0)
}

fn achievement(one: &Value) -> Achievement {
    let unlocktime = unlocked_s(one);
    let is_known = unlocktime > 0;
    Achievement {
        apiname: field::word(one, "/apiname"),
        name: field::word(one, "/name"),
        achieved: 1,
        unlocktime,
        unlocked_at: is_known.then(|| utc_millis(unlocktime.saturating_mul(1_000_000))),
    }
}

pub(super) async fn stats(call: ToolCall<'_>, args: GameArgs) -> Result<Json<GameStats>, Problem> {
    let app = app_id(&args)?;
    let found = api::figures(call.ctx, "GetUserStatsForGame", "v0002", app).await?;
    let (achievements, stats) =
        (field::maps(&found, "/achievements"), field::maps(&found, "/stats"));
    if achievements.is_empty() && stats.is_empty() {
        return Err(api::no_figures());
    }
    // This response lists only unlocked achievements; the other one lists all.
    let all = api::figures(call.ctx, "GetPlayerAchievements", "v0001", app).await;
    let all = all.unwrap_or_default();
    let listed = field::objects(&all, "/achievements");
    let counted = if listed.is_empty() { field::objects(&found, "/achievements") } else { listed };
    Ok(Json(GameStats {
        game_name: field::word(&found, "/gameName"),
        summary: StatsSummary {
            total_achievements: counted.len(),
            achieved_count: counted.iter().filter(|one| is_done(one)).count(),
            total_stats: stats.len(),
        },
        achievements,
        stats,
    }))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_percentage_has_one_decimal() {
        for (part, whole, expected) in
            [(0, 7, "0.0"), (1, 3, "33.3"), (2, 3, "66.7"), (7, 7, "100.0"), (0, 0, "0.0")]
        {
            assert_eq!(format!("{:.1}", percent(part, whole)), expected, "{part}/{whole}");
        }
    }
}
