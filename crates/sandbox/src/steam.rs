//! Steam: the Web API with a key in the query, from the library and the friends of a made-up player.
//! Privacy is answered as Steam answers it: with nothing, with 401, or with 403.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Asked, Reply};
use crate::limits::{Limit, or_none};
use crate::oauth::Provider;
use crate::room::{Ask, Room, Stand};
use crate::routes::{Call, Route, find};
use crate::shelves::{Kind, World};

mod api;
mod games;
mod world;

/// Valve's own limit for a key.
pub const LIMITS: &[Limit] = &[Limit { requests: 100_000, window_s: 86_400 }];

/// How this Steam behaves. A profile goes by its SteamID64; `me` is the owner of the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Empty means unlimited.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// How many friends the owner has.
    pub friends: u32,
    /// Profiles whose "Game details" are private.
    pub private_games: Vec<String>,
    /// Profiles whose friends list is private.
    pub private_friends: Vec<String>,
    /// Profiles whose achievements and statistics are private.
    pub private_stats: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: LIMITS.to_vec(),
            friends: 120,
            private_games: Vec::new(),
            private_friends: Vec::new(),
            private_stats: Vec::new(),
        }
    }
}

const fn get(path: &'static str, run: fn(&mut Call<'_, Settings>) -> Reply) -> Route<Settings> {
    Route { method: "GET", path, needs: "", run }
}

/// Versions are written with and without their zeros.
const ROUTES: &[Route<Settings>] = &[
    get("/IPlayerService/GetOwnedGames/v0001", api::owned_games),
    get("/IPlayerService/GetOwnedGames/v1", api::owned_games),
    get("/IPlayerService/GetRecentlyPlayedGames/v0001", api::recent_games),
    get("/IPlayerService/GetRecentlyPlayedGames/v1", api::recent_games),
    get("/ISteamUser/GetFriendList/v0001", api::friends),
    get("/ISteamUser/GetFriendList/v1", api::friends),
    get("/ISteamUser/GetPlayerSummaries/v0002", api::summaries),
    get("/ISteamUser/GetPlayerSummaries/v2", api::summaries),
    get("/ISteamUser/ResolveVanityURL/v0001", api::vanity),
    get("/ISteamUser/ResolveVanityURL/v1", api::vanity),
    get("/ISteamUserStats/GetPlayerAchievements/v0001", api::achievements),
    get("/ISteamUserStats/GetPlayerAchievements/v1", api::achievements),
    get("/ISteamUserStats/GetUserStatsForGame/v0002", api::stats),
    get("/ISteamUserStats/GetUserStatsForGame/v2", api::stats),
];

impl Stand for Settings {
    type Books = ();

    const NAME: &'static str = "steam";
    const KINDS: &'static [Kind] = &[
        Kind::new("game", "/appid"),
        Kind::new("friend", "/steamid"),
        Kind::new("player", "/steamid"),
    ];
    const HOSTS: &'static [(&'static str, &'static str)] = &[("api.steampowered.com", "")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn provider(_seed: u64, _url: &str) -> Option<Provider> {
        None
    }

    fn values(room: &Room<Settings>) -> Value {
        json!({
            "STEAM_API_KEY": key(room),
            "STEAM_USER_ID": world::steam_id(room.seed, 0),
        })
    }

    fn world(&self, ask: Ask) -> World {
        world::world(ask, i64::from(self.friends))
    }

    fn answer(room: &Room<Settings>, asked: &Asked, now_us: i64) -> Reply {
        let Some((route, ids)) = find(ROUTES, asked) else { return page(404, "Not Found", "") };
        let Some(said) = asked.value("key") else {
            return page(401, "Unauthorized", DENIED);
        };
        if said != key(room) {
            return page(403, "Forbidden", DENIED);
        }
        if let Some(standing) = room.take(now_us).filter(|standing| standing.exceeded) {
            let reply = page(429, "Too Many Requests", "");
            return reply.with("retry-after", standing.reset_s.to_string());
        }
        let mut inner = room.open(now_us);
        let mut call = Call { room, inner: &mut inner, asked, ids, scopes: &[], now_us };
        (route.run)(&mut call)
    }

    fn problem(_asked: &Asked, status: u16, words: &str) -> Reply {
        page(status, "Error", words)
    }

    fn repeat(_asked: &Asked, _body: &mut Value) {}
}

const DENIED: &str =
    "Access is denied. Retrying will not help. Please verify your <pre>key=</pre> parameter.";

/// 32 hexadecimal digits, as Steam gives them out.
fn key(room: &Room<Settings>) -> String {
    let letters = room.secret("steam key", 32);
    let digit = |byte: u8| char::from_digit(u32::from(byte % 16), 16).unwrap_or('0');
    letters.bytes().map(digit).collect::<String>().to_uppercase()
}

/// Steam's refusals are web pages.
fn page(status: u16, title: &str, words: &str) -> Reply {
    let text = format!(
        "<html><head><title>{title}</title></head><body><h1>{title}</h1>{words}</body></html>"
    );
    Reply::text(status, "text/html; charset=UTF-8", text)
}
