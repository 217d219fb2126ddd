//! The endpoints of Steam: libraries, friends, summaries, achievements and statistics.

use serde_json::{Value, json};

use super::games::Game;
use super::generate::{is_private_by_nature, library_of, steam_id};
use super::{SteamSettings, page};
use crate::http::Response;
use crate::rng::Rng;
use crate::routes::Call;

type SteamCall<'a> = Call<'a, SteamSettings>;

const SUMMARIES_MAX: usize = 100;

/// The requested profile.
struct Profile {
    id: String,
    /// The owner is 0, friends count from 1; none for an unknown profile.
    number: Option<i64>,
}

impl Profile {
    /// The profile of `steamid`, or an error page.
    fn of(call: &SteamCall<'_>) -> Result<Profile, Response> {
        let id = call.request.value("steamid").unwrap_or_default();
        let good = id.len() == 17 && id.bytes().all(|byte| byte.is_ascii_digit());
        if !good {
            let message = "Please verify that all required parameters are being sent";
            return Err(page(400, "Bad Request", message));
        }
        let most = i64::from(call.state.settings.friends);
        let number = (0..=most).find(|number| steam_id(call.sim.seed, *number) == id);
        Ok(Profile { id: id.to_owned(), number })
    }

    /// Whether it is on this list of private profiles, or generated as private.
    fn is_private(&self, list: &[String]) -> bool {
        let named = |name: &String| *name == self.id || (name == "me" && self.number == Some(0));
        self.number.is_some_and(is_private_by_nature) || list.iter().any(named)
    }
}

fn is_set(call: &SteamCall<'_>, name: &str) -> bool {
    matches!(call.request.value(name), Some("1" | "true"))
}

fn games_of(call: &SteamCall<'_>, profile: &Profile) -> Option<Vec<Value>> {
    if profile.is_private(&call.state.settings.private_games) {
        return None;
    }
    match profile.number? {
        0 => Some(call.state.records.all("game").to_vec()),
        number => Some(library_of(call.sim.seed, number)),
    }
}

pub(super) fn owned_games(call: &mut SteamCall<'_>) -> Response {
    let profile = match Profile::of(call) {
        Ok(profile) => profile,
        Err(refused) => return refused,
    };
    // A private library is not an error: the response is empty.
    let Some(mut games) = games_of(call, &profile) else {
        return Response::json(200, &json!({ "response": {} }));
    };
    let (info, free) = (is_set(call, "include_appinfo"), is_set(call, "include_played_free_games"));
    let app = |game: &Value| game.get("appid").and_then(Value::as_i64).and_then(Game::of_app);
    games.retain(|game| free || !app(game).is_some_and(Game::is_free));
    for game in games.iter_mut().filter_map(Value::as_object_mut).filter(|_| !info) {
        for name in ["name", "img_icon_url", "has_community_visible_stats"] {
            game.shift_remove(name);
        }
    }
    Response::json(200, &json!({ "response": { "game_count": games.len(), "games": games } }))
}

pub(super) fn recent_games(call: &mut SteamCall<'_>) -> Response {
    let profile = match Profile::of(call) {
        Ok(profile) => profile,
        Err(refused) => return refused,
    };
    let Some(mut games) = games_of(call, &profile) else {
        return Response::json(200, &json!({ "response": {} }));
    };
    let recent = |game: &Value| game.get("playtime_2weeks").and_then(Value::as_i64).unwrap_or(0);
    games.retain(|game| recent(game) > 0);
    games.sort_by_key(|game| std::cmp::Reverse(recent(game)));
    let total = games.len();
    let count = call.request.value("count").and_then(|text| text.parse().ok()).unwrap_or(0);
    if count > 0 {
        games.truncate(count);
    }
    if games.is_empty() {
        return Response::json(200, &json!({ "response": { "total_count": 0 } }));
    }
    for game in games.iter_mut().filter_map(Value::as_object_mut) {
        game.shift_remove("rtime_last_played");
        game.shift_remove("has_community_visible_stats");
    }
    Response::json(200, &json!({ "response": { "total_count": total, "games": games } }))
}

pub(super) fn friends(call: &mut SteamCall<'_>) -> Response {
    let profile = match Profile::of(call) {
        Ok(profile) => profile,
        Err(refused) => return refused,
    };
    if profile.is_private(&call.state.settings.private_friends) {
        return Response::raw(401, "{}");
    }
    let friends = match profile.number {
        None => return page(500, "Internal Server Error", ""),
        Some(0) => call.state.records.all("friend").to_vec(),
        Some(_) => vec![json!({
            "steamid": steam_id(call.sim.seed, 0), "relationship": "friend", "friend_since": 1_500_000_000,
        })],
    };
    Response::json(200, &json!({ "friendslist": { "friends": friends } }))
}

/// Unknown ids are left out; the order differs from the request.
pub(super) fn summaries(call: &mut SteamCall<'_>) -> Response {
    let ids: Vec<&str> = call.request.value("steamids").unwrap_or_default().split(',').collect();
    if ids.len() > SUMMARIES_MAX || ids == [""] {
        return page(
            400,
            "Bad Request",
            "Please verify that all required parameters are being sent",
        );
    }
    let wanted = |player: &&Value| {
        let id = player.get("steamid").and_then(Value::as_str).unwrap_or_default();
        ids.contains(&id)
    };
    let players: Vec<&Value> = call.state.records.all("player").iter().filter(wanted).collect();
    Response::json(200, &json!({ "response": { "players": players } }))
}

/// The owner's name in addresses is `sandbox_player`.
pub(super) fn vanity(call: &mut SteamCall<'_>) -> Response {
    let resolved = match call.request.value("vanityurl") {
        Some("sandbox_player") => json!({ "steamid": steam_id(call.sim.seed, 0), "success": 1 }),
        _ => json!({ "success": 42, "message": "No match" }),
    };
    Response::json(200, &json!({ "response": resolved }))
}

/// The game of `appid` and the profile whose statistics are requested.
enum Figures {
    Of(Game, String),
    Private,
    NoStats,
    Bad(Response),
}

fn figures(call: &SteamCall<'_>) -> Figures {
    let profile = match Profile::of(call) {
        Ok(profile) => profile,
        Err(refused) => return Figures::Bad(refused),
    };
    let appid = call.request.value("appid").and_then(|text| text.parse().ok());
    let Some(appid) = appid else {
        return Figures::Bad(page(400, "Bad Request", "Required parameter 'appid' is missing"));
    };
    let settings = &call.state.settings;
    if profile.is_private(&settings.private_stats) || profile.is_private(&settings.private_games) {
        return Figures::Private;
    }
    match Game::of_app(appid).filter(|game| game.has_stats()) {
        Some(game) => Figures::Of(game, profile.id),
        None => Figures::NoStats,
    }
}

pub(super) fn achievements(call: &mut SteamCall<'_>) -> Response {
    let refusal = |status: u16, message: &str| {
        Response::json(status, &json!({ "playerstats": { "error": message, "success": false } }))
    };
    let (game, id) = match figures(call) {
        Figures::Of(game, id) => (game, id),
        Figures::Private => return refusal(403, "Profile is not public"),
        Figures::NoStats => return refusal(400, "Requested app has no stats"),
        Figures::Bad(refused) => return refused,
    };
    let mut list = achieved(call.sim.seed, game, &id);
    if call.request.value("l").is_some() {
        for (number, one) in list.iter_mut().filter_map(Value::as_object_mut).enumerate() {
            one.insert("name".to_owned(), json!(format!("Achievement {}", number + 1)));
            one.insert("description".to_owned(), json!("Do the thing once more"));
        }
    }
    let mut body = json!({ "steamID": id, "gameName": game.name() });
    if let Some(body) = body.as_object_mut() {
        if !list.is_empty() {
            body.insert("achievements".to_owned(), Value::Array(list));
        }
        body.insert("success".to_owned(), json!(true));
    }
    Response::json(200, &json!({ "playerstats": body }))
}

pub(super) fn stats(call: &mut SteamCall<'_>) -> Response {
    let (game, id) = match figures(call) {
        Figures::Of(game, id) => (game, id),
        Figures::Private => return Response::raw(403, "{}"),
        Figures::NoStats => return Response::raw(400, "{}"),
        Figures::Bad(refused) => return refused,
    };
    let mut rng = Rng::stream(call.sim.seed, &id, game.number());
    let names = ["kills", "deaths", "rounds_won", "distance_m", "accuracy"];
    let stat = |name: &&str| match *name {
        "accuracy" => json!({ "name": name, "value": crate::rng::decimals(rng.unit(), 4) }),
        _ => json!({ "name": name, "value": rng.whole(0, 90_000) }),
    };
    let stats: Vec<Value> = names.iter().map(stat).collect();
    let done = achieved(call.sim.seed, game, &id)
        .into_iter()
        .filter(|one| one.get("achieved") == Some(&json!(1)));
    let done: Vec<Value> =
        done.map(|one| json!({ "name": one.get("apiname"), "achieved": 1 })).collect();
    Response::json(
        200,
        &json!({ "playerstats": {
            "steamID": id, "gameName": game.name(), "achievements": done, "stats": stats,
        } }),
    )
}

fn achieved(seed: u64, game: Game, id: &str) -> Vec<Value> {
    let one = |number: i64| {
        let mut rng = Rng::stream(seed, id, game.number() * 1_000 + number);
        let done = rng.happens(0.4);
        let unlocked_s = if done { 1_600_000_000 + rng.whole(0, 190_000_000) } else { 0 };
        json!({
            "apiname": format!("ACH_{:02}", number + 1),
            "achieved": i64::from(done),
            "unlocktime": unlocked_s,
        })
    };
    (0..game.achievements()).map(one).collect()
}
