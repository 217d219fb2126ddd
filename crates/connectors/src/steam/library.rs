//! What somebody owns and plays, and how two libraries differ.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::people::name_of;
use super::{NAME, Telling, api};
use crate::Ask;
use crate::personal::{Given, Outcome, Problem, field};

const TOP: usize = 10;
const RECENT: usize = 5;
const COMMON: usize = 15;
const TIPS: usize = 20;

struct Game {
    app_id: i64,
    name: String,
    forever: i64,
    recent: i64,
}

impl Game {
    fn of(game: &Value) -> Game {
        let number = |name: &str| field::int(game, name).unwrap_or(0);
        let app_id = number("/appid");
        let name = field::word(game, "/name");
        Game {
            app_id,
            name: name.unwrap_or_else(|| format!("app {app_id}")),
            forever: number("/playtime_forever"),
            recent: number("/playtime_2weeks"),
        }
    }

    fn value(&self) -> Value {
        json!({
            "app_id": self.app_id,
            "name": self.name,
            "hours_total": hours(self.forever),
            "hours_2weeks": hours(self.recent),
        })
    }
}

/// Hours with one decimal.
fn hours(minutes: i64) -> f64 {
    let tenths = minutes.max(0).saturating_mul(10).saturating_add(30) / 60;
    f64::from(u32::try_from(tenths).unwrap_or(u32::MAX)) / 10.0
}

fn games(list: &[Value]) -> Vec<Game> {
    list.iter().map(Game::of).collect()
}

pub(super) async fn library(ask: Ask<'_>) -> Telling {
    let given = Given::new(NAME, ask.arguments);
    let id = api::whose(ask.desk, &given, "steamid").await?;
    let mut games = games(&api::owned(ask.desk, &id).await?);
    let minutes: i64 = games.iter().map(|game| game.forever).sum();
    let each = minutes / i64::try_from(games.len().max(1)).unwrap_or(1);
    games.sort_by_key(|game| Reverse(game.forever));
    let mut lines = vec![format!(
        "{} games, {:.1} hours in all, {:.1} hours a game. Most played:",
        games.len(),
        hours(minutes),
        hours(each)
    )];
    for game in games.iter().take(TOP) {
        lines.push(format!("- {}: {:.1} hours", game.name, hours(game.forever)));
    }
    let top: Vec<Value> = games.iter().take(TOP).map(Game::value).collect();
    let total = games.len();
    games.retain(|game| game.recent > 0);
    games.sort_by_key(|game| Reverse(game.recent));
    lines.push(format!("Played in the last two weeks: {}", games.len()));
    for game in games.iter().take(RECENT) {
        lines.push(format!("- {}: {:.1} hours", game.name, hours(game.recent)));
    }
    let recent: Vec<Value> = games.iter().take(RECENT).map(Game::value).collect();
    let facts = json!({
        "steamid": id,
        "total_games": total,
        "hours_total": hours(minutes),
        "hours_average": hours(each),
        "top_games": top,
        "recent_count": games.len(),
        "recent_games": recent,
    });
    Ok((lines.join("\n"), facts))
}

/// The owner's last two weeks in words.
pub(super) async fn my_recent(ask: Ask<'_>) -> Telling {
    let id = api::own_id(ask.desk).await?;
    let games = games(&api::recent(ask.desk, &id).await?);
    let mut lines = vec![match games.len() {
        0 => "No games were played in the last two weeks.".to_owned(),
        count => format!("{count} games played in the last two weeks:"),
    }];
    for game in &games {
        lines.push(format!(
            "- {}: {:.1} hours in two weeks, {:.1} hours in all",
            game.name,
            hours(game.recent),
            hours(game.forever)
        ));
    }
    let list: Vec<Value> = games.iter().map(Game::value).collect();
    Ok((lines.join("\n"), json!({ "total_recent_games": list.len(), "recent_games": list })))
}

/// Anybody's last two weeks, as Steam has them.
pub(super) async fn recent(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let id = api::whose(ask.desk, &given, "steamid").await?;
    let games = api::recent(ask.desk, &id).await?;
    let mut answer = json!({ "steamid": id, "total_recent_games": games.len() });
    if let Some(answer) = answer.as_object_mut() {
        if games.is_empty() {
            let words = "no games were played in the last two weeks";
            answer.insert("message".to_owned(), json!(words));
        }
        answer.insert("recent_games".to_owned(), Value::Array(games));
    }
    Ok(answer)
}

/// The owner's games, a friend's games, and the friend's name.
async fn two(ask: &Ask<'_>) -> Result<(Vec<Game>, Vec<Game>, String), Problem> {
    let given = Given::new(NAME, ask.arguments);
    let friend = api::id_of(ask.desk, given.needed("friend_steamid")?, "friend_steamid").await?;
    let mine = api::own_id(ask.desk).await?;
    let asked = [friend.clone()];
    let (mine, theirs, players) = tokio::join!(
        api::owned(ask.desk, &mine),
        api::owned(ask.desk, &friend),
        api::players(ask.desk, &asked)
    );
    let players = players?;
    let name = players.first().map_or_else(|| friend.clone(), name_of);
    Ok((games(&mine?), games(&theirs?), name))
}

pub(super) async fn compare(ask: Ask<'_>) -> Telling {
    let (mine, theirs, name) = two(&ask).await?;
    let other: HashMap<i64, i64> = theirs.iter().map(|game| (game.app_id, game.forever)).collect();
    let both = |game: &Game| Some((other.get(&game.app_id)?, game.forever));
    let mut common: Vec<(&Game, i64)> =
        mine.iter().filter_map(|game| both(game).map(|(theirs, _)| (game, *theirs))).collect();
    common.sort_by_key(|(game, theirs)| Reverse(game.forever.saturating_add(*theirs)));
    let mut lines = vec![format!(
        "You have {} games, {name} has {}; {} are the same.",
        mine.len(),
        theirs.len(),
        common.len()
    )];
    for (game, theirs) in common.iter().take(COMMON) {
        lines.push(format!(
            "- {}: you {:.1} hours, {name} {:.1} hours",
            game.name,
            hours(game.forever),
            hours(*theirs)
        ));
    }
    let value = |(game, theirs): &(&Game, i64)| {
        json!({
            "app_id": game.app_id,
            "name": game.name,
            "your_hours": hours(game.forever),
            "friend_hours": hours(*theirs),
        })
    };
    let facts = json!({
        "friend": name,
        "your_games": mine.len(),
        "friend_games": theirs.len(),
        "common_count": common.len(),
        "common_games": common.iter().take(COMMON).map(value).collect::<Vec<_>>(),
    });
    Ok((lines.join("\n"), facts))
}

/// What a friend plays and the owner does not have.
pub(super) async fn tips(ask: Ask<'_>) -> Telling {
    let (mine, mut theirs, name) = two(&ask).await?;
    let own: std::collections::HashSet<i64> = mine.iter().map(|game| game.app_id).collect();
    theirs.retain(|game| game.forever > 0 && !own.contains(&game.app_id));
    theirs.sort_by_key(|game| Reverse(game.forever));
    let mut lines = vec![format!("{name} plays {} games that you do not have.", theirs.len())];
    for game in theirs.iter().take(TIPS) {
        lines.push(format!("- {}: {:.1} hours", game.name, hours(game.forever)));
    }
    let list: Vec<Value> = theirs.iter().take(TIPS).map(Game::value).collect();
    Ok((
        lines.join("\n"),
        json!({ "friend": name, "total": theirs.len(), "recommendations": list }),
    ))
}

#[cfg(test)]
mod tests {
    use super::hours;

    #[test]
    fn minutes_become_hours_with_one_decimal() {
        for (minutes, expected) in [
            (0, "0.0"),
            (3, "0.1"),
            (2, "0.0"),
            (60, "1.0"),
            (90, "1.5"),
            (9_999, "166.7"),
            (-5, "0.0"),
        ] {
            assert_eq!(format!("{:.1}", hours(minutes)), expected, "{minutes}");
        }
    }
}
