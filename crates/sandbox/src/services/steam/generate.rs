//! Generates the owner's library, the friends, and all summaries. A day adds minutes to some of the games; an
//! hour changes who is online.

use serde_json::{Value, json};

use super::games::Game;
use crate::record_store::GeneratedRecords;
use crate::rng::Rng;
use crate::simulation::GenerateParams;
use crate::timestamp::{DAY_MS, HOUR_MS};

const NAMES: &[&str] = &[
    "gearbox_goat",
    "Nyx",
    "Tuesday",
    "mossy",
    "Captain Oat",
    "Ødegård",
    "夜猫",
    "k4rl",
    "Bento",
    "Quill",
    "<b>bold</b>",
    "Saturnine",
    "lowpoly",
    "Ibex",
    "Marzipan",
    "VHS",
];
const COUNTRIES: &[&str] = &["DE", "FR", "US", "JP", "BR", "SE", "PL"];
/// Days that count as recent.
const RECENT_DAYS: i64 = 14;

/// A SteamID64; number 0 is the owner.
pub(super) fn steam_id(seed: u64, number: i64) -> String {
    let base = Rng::stream(seed, "steam id", 0).whole(10_000_000, 900_000_000);
    (76_561_197_960_265_728 + base + number * 7_919).to_string()
}

/// Every seventh friend is private.
pub(super) fn is_private_by_nature(number: i64) -> bool {
    number > 0 && number % 7 == 0
}

pub(super) fn generate(params: GenerateParams, friends: i64) -> GeneratedRecords {
    let others = 1..=friends;
    vec![
        ("game", library(params)),
        ("friend", others.clone().map(|number| friend(params, number)).collect()),
        ("player", std::iter::once(0).chain(others).map(|number| player(params, number)).collect()),
    ]
}

fn friend(params: GenerateParams, number: i64) -> Value {
    let mut rng = params.rng("friend", number);
    let since_s = params.first_day * 86_400 - rng.whole(0, 3_000 * 86_400);
    // Friends from before Steam recorded it have no date.
    let since_s = if rng.happens(0.05) { 0 } else { since_s };
    json!({ "steamid": steam_id(params.seed, number), "relationship": "friend", "friend_since": since_s })
}

fn player(params: GenerateParams, number: i64) -> Value {
    let mut rng = params.rng("player", number);
    let id = steam_id(params.seed, number);
    let hidden = is_private_by_nature(number);
    let name = rng.pick(NAMES).copied().unwrap_or_default();
    let hash = rng.word(40).to_lowercase();
    let mut now = params.rng("online", number * 1_000_003 + params.now_ms.div_euclid(HOUR_MS));
    let state = if hidden || now.happens(0.55) { 0 } else { now.whole(1, 6) };
    let mut player = json!({
        "steamid": id,
        "communityvisibilitystate": if hidden { 1 } else { 3 },
        "profilestate": 1,
        "personaname": if number == 0 { "sandbox_player".to_owned() } else { format!("{name}{number}") },
        "profileurl": format!("https://steamcommunity.com/profiles/{id}/"),
        "avatar": format!("https://avatars.steamstatic.com/{hash}.jpg"),
        "avatarmedium": format!("https://avatars.steamstatic.com/{hash}_medium.jpg"),
        "avatarfull": format!("https://avatars.steamstatic.com/{hash}_full.jpg"),
        "avatarhash": hash,
        "personastate": state,
        "personastateflags": 0,
    });
    let Some(fields) = player.as_object_mut().filter(|_| !hidden) else { return player };
    fields.insert("lastlogoff".to_owned(), json!(params.now_ms / 1_000 - now.whole(60, 900_000)));
    fields.insert("timecreated".to_owned(), json!(1_063_000_000 + rng.whole(0, 600_000_000)));
    fields.insert("primaryclanid".to_owned(), json!("103582791429521408"));
    if number == 0 || rng.happens(0.4) {
        fields.insert("realname".to_owned(), json!("Robin Example"));
    }
    if number == 0 || rng.happens(0.6) {
        let country = rng.pick(COUNTRIES).copied().unwrap_or_default();
        fields.insert("loccountrycode".to_owned(), json!(country));
        fields.insert("locstatecode".to_owned(), json!("16"));
    }
    let game = Game::all().nth(usize::try_from(now.whole(0, 170)).unwrap_or(0));
    if let Some(game) = game.filter(|_| state > 0 && now.happens(0.5)) {
        fields.insert("gameextrainfo".to_owned(), json!(game.name()));
        fields.insert("gameid".to_owned(), json!(game.appid().to_string()));
    }
    player
}

/// The owner's library, with the minutes of every day until now.
fn library(params: GenerateParams) -> Vec<Value> {
    let mut minutes: Vec<(Game, i64, i64, i64)> = Game::all()
        .filter(|game| game.number() % 4 != 3)
        .map(|game| {
            let mut rng = params.rng("played before", game.number());
            let played = if rng.happens(0.35) { 0 } else { rng.whole(4, 9_000) };
            let last_s =
                if played == 0 { 0 } else { (params.first_day - rng.whole(1, 900)) * 86_400 };
            (game, played, 0, last_s)
        })
        .collect();
    let last = i64::try_from(minutes.len()).unwrap_or(1) - 1;
    for day in params.days() {
        let mut rng = params.rng("play", day);
        for _ in 0..rng.whole(0, 3) {
            let begin_ms = day * DAY_MS + rng.whole(8, 22) * HOUR_MS;
            // Half of the time one of the favourites is played.
            let most = if rng.happens(0.5) { 5 } else { last };
            let at = usize::try_from(rng.whole(0, most)).unwrap_or(0);
            let played = rng.whole(10, 180);
            let Some(game) = minutes.get_mut(at).filter(|_| begin_ms < params.now_ms) else {
                continue;
            };
            game.1 += played;
            game.3 = begin_ms / 1_000;
            if params.last_day() - day < RECENT_DAYS {
                game.2 += played;
            }
        }
    }
    minutes
        .into_iter()
        .map(|(game, forever, recent, last_s)| owned(game, forever, recent, last_s))
        .collect()
}

fn owned(game: Game, forever: i64, recent: i64, last_s: i64) -> Value {
    let mut owned = json!({
        "appid": game.appid(),
        "name": game.name(),
        "playtime_forever": forever,
        "img_icon_url": Rng::stream(0, "icon", game.number()).word(40).to_lowercase(),
        "playtime_windows_forever": forever,
        "playtime_mac_forever": 0,
        "playtime_linux_forever": 0,
        "playtime_deck_forever": 0,
        "rtime_last_played": last_s,
        "playtime_disconnected": 0,
    });
    if let Some(owned) = owned.as_object_mut() {
        if game.has_stats() {
            owned.insert("has_community_visible_stats".to_owned(), json!(true));
        }
        if recent > 0 {
            owned.insert("playtime_2weeks".to_owned(), json!(recent));
        }
    }
    owned
}

/// The library of a friend: some games that the owner has, and some others.
pub(super) fn library_of(seed: u64, number: i64) -> Vec<Value> {
    let has = |game: &Game| Rng::stream(seed, "has", number * 1_000 + game.number()).happens(0.45);
    let played = |game: Game| {
        let mut rng = Rng::stream(seed, "has played", number * 1_000 + game.number());
        let forever = if rng.happens(0.3) { 0 } else { rng.whole(5, 20_000) };
        let recent = if rng.happens(0.06) { forever.min(rng.whole(5, 900)) } else { 0 };
        owned(game, forever, recent, if forever == 0 { 0 } else { 1_790_000_000 })
    };
    Game::all().filter(has).map(played).collect()
}
