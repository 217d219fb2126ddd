//! The games a player owns and plays, and how two libraries differ.

use std::cmp::Reverse;
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::api;
use super::people::{PersonArgs, name_of};
use crate::arguments::NoArgs;
use crate::personal::{Problem, field};
use crate::tool::{Json, Text};
use crate::{ConnectorContext, ToolCall};

const TOP: usize = 10;
const RECENT: usize = 5;
const COMMON: usize = 15;
const RECOMMENDED: usize = 20;

#[derive(Deserialize, JsonSchema)]
pub(super) struct FriendArgs {
    /// The friend's SteamID64, profile address or the name in it.
    friend_steamid: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LibrarySummary {
    steamid: String,
    total_games: usize,
    hours_total: f64,
    hours_average: f64,
    top_games: Vec<PlayedGame>,
    recent_count: usize,
    recent_games: Vec<PlayedGame>,
}

#[derive(Serialize, JsonSchema)]
struct PlayedGame {
    app_id: i64,
    name: String,
    hours_total: f64,
    hours_2weeks: f64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct MyRecent {
    total_recent_games: usize,
    recent_games: Vec<PlayedGame>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Recent {
    steamid: String,
    total_recent_games: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    message: Option<&'static str>,
    recent_games: Vec<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct GameComparison {
    friend: String,
    your_games: usize,
    friend_games: usize,
    common_count: usize,
    common_games: Vec<CommonGame>,
}

#[derive(Serialize, JsonSchema)]
struct CommonGame {
    app_id: i64,
    name: String,
    your_hours: f64,
    friend_hours: f64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Recommendations {
    friend: String,
    total: usize,
    recommendations: Vec<PlayedGame>,
}

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

    fn played(&self) -> PlayedGame {
        PlayedGame {
            app_id: self.app_id,
            name: self.name.clone(),
            hours_total: hours(self.forever),
            hours_2weeks: hours(self.recent),
        }
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

pub(super) async fn library(
    call: ToolCall<'_>,
    args: PersonArgs,
) -> Result<Text<LibrarySummary>, Problem> {
    let id = api::whose(call.ctx, args.steamid.as_deref()).await?;
    let mut games = games(&api::owned(call.ctx, &id).await?);
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
    let top_games = games.iter().take(TOP).map(Game::played).collect();
    let total_games = games.len();
    games.retain(|game| game.recent > 0);
    games.sort_by_key(|game| Reverse(game.recent));
    lines.push(format!("Played in the last two weeks: {}", games.len()));
    for game in games.iter().take(RECENT) {
        lines.push(format!("- {}: {:.1} hours", game.name, hours(game.recent)));
    }
    let data = LibrarySummary {
        steamid: id,
        total_games,
        hours_total: hours(minutes),
        hours_average: hours(each),
        top_games,
        recent_count: games.len(),
        recent_games: games.iter().take(RECENT).map(Game::played).collect(),
    };
    Ok(Text { text: lines.join("\n"), data })
}

/// The owner's last two weeks as text.
pub(super) async fn my_recent(call: ToolCall<'_>, _: NoArgs) -> Result<Text<MyRecent>, Problem> {
    let id = api::own_id(call.ctx).await?;
    let games = games(&api::recent(call.ctx, &id).await?);
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
    let recent_games = games.iter().map(Game::played).collect();
    let data = MyRecent { total_recent_games: games.len(), recent_games };
    Ok(Text { text: lines.join("\n"), data })
}

/// The last two weeks of any player, as Steam returns them.
pub(super) async fn recent(call: ToolCall<'_>, args: PersonArgs) -> Result<Json<Recent>, Problem> {
    let id = api::whose(call.ctx, args.steamid.as_deref()).await?;
    let games = api::recent(call.ctx, &id).await?;
    let nothing = "no games were played in the last two weeks";
    Ok(Json(Recent {
        steamid: id,
        total_recent_games: games.len(),
        message: games.is_empty().then_some(nothing),
        recent_games: games.iter().filter_map(Value::as_object).cloned().collect(),
    }))
}

/// The owner's games, a friend's games, and the friend's name.
async fn own_and_friends_games(
    ctx: &ConnectorContext,
    args: &FriendArgs,
) -> Result<(Vec<Game>, Vec<Game>, String), Problem> {
    let friend = api::id_of(ctx, &args.friend_steamid, "friend_steamid").await?;
    let mine = api::own_id(ctx).await?;
    let asked = [friend.clone()];
    let (mine, theirs, players) =
        tokio::join!(api::owned(ctx, &mine), api::owned(ctx, &friend), api::players(ctx, &asked));
    let players = players?;
    let name = players.first().map_or_else(|| friend.clone(), name_of);
    Ok((games(&mine?), games(&theirs?), name))
}

pub(super) async fn compare(
    call: ToolCall<'_>,
    args: FriendArgs,
) -> Result<Text<GameComparison>, Problem> {
    let (mine, theirs, name) = own_and_friends_games(call.ctx, &args).await?;
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
    let data = GameComparison {
        your_games: mine.len(),
        friend_games: theirs.len(),
        common_count: common.len(),
        common_games: common.iter().take(COMMON).map(common_game).collect(),
        friend: name,
    };
    Ok(Text { text: lines.join("\n"), data })
}

fn common_game((game, theirs): &(&Game, i64)) -> CommonGame {
    CommonGame {
        app_id: game.app_id,
        name: game.name.clone(),
        your_hours: hours(game.forever),
        friend_hours: hours(*theirs),
    }
}

/// Games that a friend plays and the owner does not have.
pub(super) async fn recommendations(
    call: ToolCall<'_>,
    args: FriendArgs,
) -> Result<Text<Recommendations>, Problem> {
    let (mine, mut theirs, name) = own_and_friends_games(call.ctx, &args).await?;
    let own: std::collections::HashSet<i64> = mine.iter().map(|game| game.app_id).collect();
    theirs.retain(|game| game.forever > 0 && !own.contains(&game.app_id));
    theirs.sort_by_key(|game| Reverse(game.forever));
    let mut lines = vec![format!("{name} plays {} games that you do not have.", theirs.len())];
    for game in theirs.iter().take(RECOMMENDED) {
        lines.push(format!("- {}: {:.1} hours", game.name, hours(game.forever)));
    }
    let recommendations = theirs.iter().take(RECOMMENDED).map(Game::played).collect();
    let data = Recommendations { friend: name, total: theirs.len(), recommendations };
    Ok(Text { text: lines.join("\n"), data })
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
