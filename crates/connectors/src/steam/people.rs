//! Profiles, friends, and what friends play.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NAME, api};
use crate::ToolCall;
use crate::arguments::{BadArgument, Limit, NoArgs, Offset};
use crate::personal::{Code, Problem, field};
use crate::tool::{Json, Text};
use crate::when::{local_date, utc_millis};

const FRIENDS_SHOWN: usize = 10;
/// Friends per page by default.
const FRIENDS_PAGE: usize = 100;
const IDS_MAX: usize = 500;
const SECOND_US: i64 = 1_000_000;

#[derive(Deserialize, JsonSchema)]
pub(super) struct PersonArgs {
    /// SteamID64, profile address or the name in it; the owner if left out.
    pub(super) steamid: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct FriendsArgs {
    /// SteamID64, profile address or the name in it; the owner if left out.
    steamid: Option<String>,
    /// How many to return.
    #[serde(default)]
    limit: Limit<FRIENDS_PAGE, IDS_MAX>,
    /// Where to begin; next_offset of an earlier answer.
    #[serde(default)]
    offset: Offset,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PlayersArgs {
    /// SteamID64s with commas between them, up to 500; the owner if left out.
    steamids: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Player {
    steam_id: Option<String>,
    persona_name: Option<String>,
    profile_url: Option<String>,
    avatar: Option<String>,
    status: &'static str,
    profile_visibility: Visibility,
    real_name: Option<String>,
    country: Option<String>,
    state: Option<String>,
    account_created: Option<String>,
    last_logoff: Option<String>,
    current_game: Option<String>,
    game_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
enum Visibility {
    Public,
    Private,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Players {
    total_players: usize,
    players: Vec<Player>,
}

// One flat object for the owner, a list if ids were given.
#[derive(Serialize, JsonSchema)]
pub(super) struct Summaries {
    #[serde(flatten)]
    listed: Option<Players>,
    #[serde(flatten)]
    own: Option<Player>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Friends {
    steamid: String,
    total_friends: usize,
    friends: Vec<Friend>,
    limit: usize,
    offset: usize,
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Friend {
    steamid: String,
    persona_name: Option<String>,
    profile_url: Option<String>,
    friends_since: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Playing {
    friends_checked: usize,
    playing: Vec<Presence>,
    online: Vec<Presence>,
}

#[derive(Serialize, JsonSchema)]
struct Presence {
    steam_id: Option<String>,
    persona_name: Option<String>,
    status: &'static str,
    current_game: Option<String>,
}

pub(super) fn name_of(player: &Value) -> String {
    field::word(player, "/personaname").unwrap_or_else(|| "unknown".to_owned())
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

fn visibility(player: &Value) -> Visibility {
    let is_public = field::int(player, "/communityvisibilitystate") == Some(3);
    if is_public { Visibility::Public } else { Visibility::Private }
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, NAME, "Steam knows no such player", "check the SteamID64")
}

fn summary(player: &Value) -> Player {
    let at = |name: &str| field::word(player, &format!("/{name}"));
    let moment = |name: &str| {
        let seconds = field::int(player, name).filter(|seconds| *seconds > 0);
        seconds.map(|seconds| utc_millis(seconds.saturating_mul(SECOND_US)))
    };
    Player {
        steam_id: at("steamid"),
        persona_name: at("personaname"),
        profile_url: at("profileurl"),
        avatar: at("avatarfull"),
        status: status(player),
        profile_visibility: visibility(player),
        real_name: at("realname"),
        country: at("loccountrycode"),
        state: at("locstatecode"),
        account_created: moment("/timecreated"),
        last_logoff: moment("/lastlogoff"),
        current_game: at("gameextrainfo"),
        game_id: at("gameid"),
    }
}

pub(super) async fn profile(call: ToolCall<'_>, args: PersonArgs) -> Result<Text<Player>, Problem> {
    let id = api::whose(call.ctx, args.steamid.as_deref()).await?;
    let players = api::players(call.ctx, &[id]).await?;
    let player = players.first().ok_or_else(not_found)?;
    let mut lines = vec![format!("{} is {}.", name_of(player), status(player))];
    for (word, name) in [
        ("Profile", "/profileurl"),
        ("Real name", "/realname"),
        ("Country", "/loccountrycode"),
        ("Playing", "/gameextrainfo"),
    ] {
        if let Some(given) = field::word(player, name) {
            lines.push(format!("{word}: {given}"));
        }
    }
    lines.push(format!("Visibility: {:?}", visibility(player)));
    Ok(Text { text: lines.join("\n"), data: summary(player) })
}

pub(super) async fn summaries(
    call: ToolCall<'_>,
    args: PlayersArgs,
) -> Result<Json<Summaries>, Problem> {
    let ctx = call.ctx;
    let Some(given) = args.steamids else {
        let players = api::players(ctx, &[api::own_id(ctx).await?]).await?;
        let player = players.first().ok_or_else(not_found)?;
        return Ok(Json(Summaries { own: Some(summary(player)), listed: None }));
    };
    let mut ids = Vec::new();
    for one in given.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        if ids.len() == IDS_MAX {
            return Err(BadArgument::new("steamids", "500 ids at most").problem(NAME));
        }
        ids.push(api::id_of(ctx, one, "steamids").await?);
    }
    if ids.is_empty() {
        return Err(BadArgument::missing("steamids").problem(NAME));
    }
    let players: Vec<Player> = api::players(ctx, &ids).await?.iter().map(summary).collect();
    if players.is_empty() {
        return Err(not_found());
    }
    let listed = Players { total_players: players.len(), players };
    Ok(Json(Summaries { listed: Some(listed), own: None }))
}

pub(super) async fn friends(
    call: ToolCall<'_>,
    args: FriendsArgs,
) -> Result<Text<Friends>, Problem> {
    let id = api::whose(call.ctx, args.steamid.as_deref()).await?;
    let (limit, offset) = (args.limit.get(), args.offset.get());
    let all = api::friends(call.ctx, &id).await?;
    let page: Vec<&Value> = all.iter().skip(offset).take(limit).collect();
    let ids: Vec<String> = page.iter().filter_map(|one| field::word(one, "/steamid")).collect();
    // Names need a second request; if it fails, the ids are still returned.
    let players = api::players(call.ctx, &ids).await.unwrap_or_default();
    let friends: Vec<Friend> = page.iter().map(|one| friend(one, &players)).collect();
    let next_offset =
        Some(offset + page.len()).filter(|next| !page.is_empty() && *next < all.len());
    let mut lines = vec![format!("{} friends.", all.len())];
    for friend in friends.iter().take(FRIENDS_SHOWN) {
        let since = friend.friends_since.as_ref().map(|since| format!(", friends since {since}"));
        let name = friend.persona_name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        let id = &friend.steamid;
        lines.push(format!("- {name}({id}){}", since.unwrap_or_default()));
    }
    let more = all.len().saturating_sub(offset + friends.len().min(FRIENDS_SHOWN));
    if more > 0 {
        lines.push(format!("... and {more} more friends"));
    }
    let total_friends = all.len();
    let data = Friends { steamid: id, total_friends, friends, limit, offset, next_offset };
    Ok(Text { text: lines.join("\n"), data })
}

/// With the day in UTC; the oldest friendships have none.
fn friend(friend: &Value, players: &[Value]) -> Friend {
    let since = field::int(friend, "/friend_since").filter(|since| *since > 0);
    let day = since.and_then(|since| local_date(since.saturating_mul(SECOND_US), 0));
    let id = field::word(friend, "/steamid").unwrap_or_default();
    let is_same = |player: &&Value| field::word(player, "/steamid").as_ref() == Some(&id);
    let player = players.iter().find(is_same);
    let of_player = |pointer: &str| player.and_then(|player| field::word(player, pointer));
    Friend {
        persona_name: of_player("/personaname"),
        profile_url: of_player("/profileurl"),
        steamid: id,
        friends_since: day.map(|day| day.to_string()),
    }
}

/// What all friends play right now, not only the first page of them.
pub(super) async fn playing(call: ToolCall<'_>, _: NoArgs) -> Result<Text<Playing>, Problem> {
    let own = api::own_id(call.ctx).await?;
    let friends = api::friends(call.ctx, &own).await?;
    let id = |friend: &Value| field::word(friend, "/steamid");
    let ids: Vec<String> = friends.iter().filter_map(id).collect();
    let players = api::players(call.ctx, &ids).await?;
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
    let data = Playing {
        friends_checked: players.len(),
        playing: in_game.into_iter().map(presence).collect(),
        online: online.into_iter().take(FRIENDS_SHOWN).map(presence).collect(),
    };
    Ok(Text { text: lines.join("\n"), data })
}

fn presence(player: &Value) -> Presence {
    Presence {
        steam_id: field::word(player, "/steamid"),
        persona_name: field::word(player, "/personaname"),
        status: status(player),
        current_game: field::word(player, "/gameextrainfo"),
    }
}
