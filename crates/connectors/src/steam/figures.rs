//! Achievements and statistics of one game.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::{NAME, api};
use crate::personal::{Given, Outcome, Problem, field};
use crate::when::utc_millis;
use crate::{Ask, coerce};

const NEWEST: usize = 5;

fn app_id(ask: &Ask<'_>) -> Result<i64, Problem> {
    let given = Given::new(NAME, ask.arguments);
    let said = given.whole("app_id")?.ok_or_else(|| given.missing("app_id"))?;
    if (1..=i64::from(u32::MAX)).contains(&said) {
        Ok(said)
    } else {
        Err(given.wrong("app_id", "the number of a game"))
    }
}

fn list(found: &Value, name: &str) -> Vec<Value> {
    field::objects(found, &format!("/{name}")).into_iter().cloned().collect()
}

fn is_done(achievement: &Value) -> bool {
    achievement.get("achieved").and_then(coerce::int) == Some(1)
}

/// Of how many hundred, with one decimal.
fn percent(part: usize, whole: usize) -> f64 {
    let tenths = (part * 2_000 + whole) / (whole.max(1) * 2);
    f64::from(u32::try_from(tenths).unwrap_or(1_000)) / 10.0
}

pub(super) async fn achievements(ask: Ask<'_>) -> Outcome {
    let found = api::figures(ask.desk, "GetPlayerAchievements", "v0001", app_id(&ask)?).await?;
    let all = list(&found, "achievements");
    if all.is_empty() {
        return Err(api::no_figures());
    }
    let mut done: Vec<&Value> = all.iter().filter(|one| is_done(one)).collect();
    let moment = |one: &Value| field::int(one, "/unlocktime").unwrap_or(0);
    done.sort_by_key(|one| Reverse(moment(one)));
    let brief = |one: &&Value| {
        let at_s = Some(moment(one)).filter(|at_s| *at_s > 0);
        json!({
            "apiname": one.get("apiname"),
            "name": one.get("name"),
            "achieved": 1,
            "unlocktime": moment(one),
            "unlocked_at": at_s.map(|at_s| utc_millis(at_s.saturating_mul(1_000_000))),
        })
    };
    Ok(json!({
        "game_name": field::text(&found, "/gameName"),
        "total_achievements": all.len(),
        "achieved_count": done.len(),
        "completion_rate": percent(done.len(), all.len()),
        "recent_achievements": done.iter().take(NEWEST).map(brief).collect::<Vec<_>>(),
    }))
}

pub(super) async fn stats(ask: Ask<'_>) -> Outcome {
    let app = app_id(&ask)?;
    let found = api::figures(ask.desk, "GetUserStatsForGame", "v0002", app).await?;
    let (achievements, stats) = (list(&found, "achievements"), list(&found, "stats"));
    if achievements.is_empty() && stats.is_empty() {
        return Err(api::no_figures());
    }
    // This answer lists only what was achieved; the other one knows how many there are.
    let all = match api::figures(ask.desk, "GetPlayerAchievements", "v0001", app).await {
        Ok(all) => list(&all, "achievements"),
        Err(_) => Vec::new(),
    };
    let counted = if all.is_empty() { &achievements } else { &all };
    Ok(json!({
        "game_name": field::text(&found, "/gameName"),
        "summary": {
            "total_achievements": counted.len(),
            "achieved_count": counted.iter().filter(|one| is_done(one)).count(),
            "total_stats": stats.len(),
        },
        "achievements": achievements,
        "stats": stats,
    }))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_is_rounded_to_one_decimal() {
        for (part, whole, expected) in
            [(0, 7, "0.0"), (1, 3, "33.3"), (2, 3, "66.7"), (7, 7, "100.0"), (0, 0, "0.0")]
        {
            assert_eq!(format!("{:.1}", percent(part, whole)), expected, "{part}/{whole}");
        }
    }
}
