//! Who people are and what their friends do.

use serde_json::{Value, json};

use super::{NAME, Telling, api};
use crate::Ask;
use crate::personal::{Code, Given, Outcome, Problem, field};
use crate::when::{local_date, utc_millis};

const FRIENDS_SHOWN: usize = 10;
/// Friends of one answer unless another number is asked for.
const FRIENDS_PAGE: usize = 100;
const IDS_MAX: usize = 500;
const SECOND_US: i64 = 1_000_000;

pub(super) fn name_of(player: &Value) -> String {
    field::word(player, "/personaname").unwrap_or_else(|| "somebody".to_owned())
}

fn status(player: &Value) -> &'static str {
    match field::int(player, "/personastate") {
        Some(0) => "Offline",
        Some(1) => "Online",
        Some(2) => "Busy",
        Some(3) => "Away",
        Some(4) => "Snooze",
        Some(5) => "Looking to trade",
        Some(6) => "Looking to play",
        _ => "Unknown",
    }
}

fn visibility(player: &Value) -> &'static str {
    let is_public = field::int(player, "/communityvisibilitystate") == Some(3);
    if is_public { "Public" } else { "Private" }
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, NAME, "Steam knows no such player", "check the SteamID64")
}

fn summary(player: &Value) -> Value {
    let at = |name: &str| field::text(player, &format!("/{name}"));
    let moment = |name: &str| {
        let seconds = field::int(player, name).filter(|seconds| *seconds > 0);
        seconds.map(|seconds| utc_millis(seconds.saturating_mul(SECOND_US)))
    };
    json!({
        "steam_id": at("steamid"),
        "persona_name": at("personaname"),
        "profile_url": at("profileurl"),
        "avatar": at("avatarfull"),
        "status": status(player),
        "profile_visibility": visibility(player),
        "real_name": at("realname"),
        "country": at("loccountrycode"),
        "state": at("locstatecode"),
        "account_created": moment("/timecreated"),
        "last_logoff": moment("/lastlogoff"),
        "current_game": at("gameextrainfo"),
        "game_id": at("gameid"),
    })
}

pub(super) async fn profile(ask: Ask<'_>) -> Telling {
    let given = Given::new(NAME, ask.arguments);
    let id = api::whose(ask.desk, &given, "steamid").await?;
    let players = api::players(ask.desk, &[id]).await?;
    let player = players.first().ok_or_else(not_found)?;
    let mut lines = vec![format!("{} is {}.", name_of(player), status(player))];
    for (word, name) in [
        ("Profile", "/profileurl"),
        ("Real name", "/realname"),
        ("Country", "/loccountrycode"),
        ("Playing", "/gameextrainfo"),
    ] {
        if let Some(said) = field::word(player, name) {
            lines.push(format!("{word}: {said}"));
        }
    }
    lines.push(format!("Visibility: {}", visibility(player)));
    Ok((lines.join("\n"), summary(player)))
}

/// One flat object for the owner, a list where ids were given.
pub(super) async fn summaries(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let Some(said) = given.text("steamids")? else {
        let players = api::players(ask.desk, &[api::own_id(ask.desk).await?]).await?;
        return players.first().map(summary).ok_or_else(not_found);
    };
    let mut ids = Vec::new();
    for one in said.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        if ids.len() == IDS_MAX {
            return Err(given.wrong("steamids", "500 ids at most"));
        }
        ids.push(api::id_of(ask.desk, one, "steamids").await?);
    }
    if ids.is_empty() {
        return Err(given.missing("steamids"));
    }
    let players: Vec<Value> = api::players(ask.desk, &ids).await?.iter().map(summary).collect();
    if players.is_empty() {
        return Err(not_found());
    }
    Ok(json!({ "total_players": players.len(), "players": players }))
}

pub(super) async fn friends(ask: Ask<'_>) -> Telling {
    let given = Given::new(NAME, ask.arguments);
    let id = api::whose(ask.desk, &given, "steamid").await?;
    let (limit, offset) = (given.limit(FRIENDS_PAGE, IDS_MAX)?, given.offset()?);
    let all = api::friends(ask.desk, &id).await?;
    let page: Vec<&Value> = all.iter().skip(offset).take(limit).collect();
    let ids: Vec<String> = page.iter().filter_map(|one| field::word(one, "/steamid")).collect();
    // Names are a second question; without an answer to it there are still the ids.
    let players = api::players(ask.desk, &ids).await.unwrap_or_default();
    let friends: Vec<Value> = page.iter().map(|one| friend(one, &players)).collect();
    let next_offset =
        Some(offset + page.len()).filter(|next| !page.is_empty() && *next < all.len());
    let mut lines = vec![format!("{} friends.", all.len())];
    for friend in friends.iter().take(FRIENDS_SHOWN) {
        let word = |name: &str| friend.get(name).and_then(Value::as_str);
        let since = word("friends_since").map(|since| format!(", friends since {since}"));
        let name = word("persona_name").map(|name| format!("{name} ")).unwrap_or_default();
        let id = word("steamid").unwrap_or_default();
        lines.push(format!("- {name}({id}){}", since.unwrap_or_default()));
    }
    let more = all.len().saturating_sub(offset + friends.len().min(FRIENDS_SHOWN));
    if more > 0 {
        lines.push(format!("... and {more} more friends"));
    }
    let facts = json!({
        "steamid": id,
        "total_friends": all.len(),
        "friends": friends,
        "limit": limit,
        "offset": offset,
        "next_offset": next_offset,
    });
    Ok((lines.join("\n"), facts))
}

/// With the day in UTC; friends from before Steam wrote it down have none.
fn friend(friend: &Value, players: &[Value]) -> Value {
    let since = field::int(friend, "/friend_since").filter(|since| *since > 0);
    let day = since.and_then(|since| local_date(since.saturating_mul(SECOND_US), 0));
    let id = field::word(friend, "/steamid");
    let player = players.iter().find(|player| field::word(player, "/steamid") == id);
    let of_player = |pointer: &str| player.and_then(|player| field::word(player, pointer));
    json!({
        "steamid": id,
        "persona_name": of_player("/personaname"),
        "profile_url": of_player("/profileurl"),
        "friends_since": day.map(|day| day.to_string()),
    })
}

/// What all friends do right now, not only the first of them.
pub(super) async fn playing(ask: Ask<'_>) -> Telling {
    let own = api::own_id(ask.desk).await?;
    let friends = api::friends(ask.desk, &own).await?;
    let id = |friend: &Value| field::word(friend, "/steamid");
    let ids: Vec<String> = friends.iter().filter_map(id).collect();
    let players = api::players(ask.desk, &ids).await?;
    let is_playing = |player: &&Value| field::word(player, "/gameextrainfo").is_some();
    let is_online = |player: &&Value| status(player) != "Offline" && !is_playing(player);
    let in_game: Vec<&Value> = players.iter().filter(is_playing).collect();
    let online: Vec<&Value> = players.iter().filter(is_online).collect();
    let mut lines = vec![format!("{} of {} friends are playing.", in_game.len(), players.len())];
    for player in &in_game {
        let game = field::word(player, "/gameextrainfo").unwrap_or_default();
        lines.push(format!("- {}: {game} ({})", name_of(player), status(player)));
    }
    lines.push(format!("Online without a game: {}", online.len()));
    for player in online.iter().take(FRIENDS_SHOWN) {
        lines.push(format!("- {} ({})", name_of(player), status(player)));
    }
    let brief = |player: &&Value| {
        json!({
            "steam_id": field::text(player, "/steamid"),
            "persona_name": field::text(player, "/personaname"),
            "status": status(player),
            "current_game": field::text(player, "/gameextrainfo"),
        })
    };
    let facts = json!({
        "friends_checked": players.len(),
        "playing": in_game.iter().map(brief).collect::<Vec<_>>(),
        "online": online.iter().take(FRIENDS_SHOWN).map(brief).collect::<Vec<_>>(),
    });
    Ok((lines.join("\n"), facts))
}
