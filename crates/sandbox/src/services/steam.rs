//! Steam: the Web API with a key in the query, with the library and friends of a fictional player. Private
//! data gets Steam's responses: an empty one, 401, or 403.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::limits::{Limit, or_none};
use crate::oauth::Provider;
use crate::record_store::{GeneratedRecords, RecordKind};
use crate::routes::{Call, Route, find};
use crate::simulation::{GenerateParams, ServiceSpec, Simulation};

mod api;
mod games;
mod generate;

/// Valve's own limit for a key.
pub const LIMITS: &[Limit] = &[Limit { requests: 100_000, window_s: 86_400 }];

/// How this Steam behaves. A profile is named by its SteamID64; `me` is the owner of the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteamSettings {
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

impl Default for SteamSettings {
    fn default() -> SteamSettings {
        SteamSettings {
            limits: LIMITS.to_vec(),
            friends: 120,
            private_games: Vec::new(),
            private_friends: Vec::new(),
            private_stats: Vec::new(),
        }
    }
}

const fn get(
    path: &'static str,
    run: fn(&mut Call<'_, SteamSettings>) -> Response,
) -> Route<SteamSettings> {
    Route { method: "GET", path, needs: "", run }
}

/// Versions are accepted with and without leading zeros.
const ROUTES: &[Route<SteamSettings>] = &[
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

impl ServiceSpec for SteamSettings {
    type Extra = ();

    const NAME: &'static str = "steam";
    const KINDS: &'static [RecordKind] = &[
        RecordKind::new("game", "/appid"),
        RecordKind::new("friend", "/steamid"),
        RecordKind::new("player", "/steamid"),
    ];
    const HOSTS: &'static [(&'static str, &'static str)] = &[("api.steampowered.com", "")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn unlimit(&mut self) {
        self.limits.clear();
    }

    fn provider(_seed: u64, _url: &str) -> Option<Provider> {
        None
    }

    fn values(sim: &Simulation<SteamSettings>) -> Value {
        json!({
            "STEAM_API_KEY": key(sim),
            "STEAM_USER_ID": generate::steam_id(sim.seed, 0),
        })
    }

    fn generate(&self, params: GenerateParams) -> GeneratedRecords {
        generate::generate(params, i64::from(self.friends))
    }

    fn answer(sim: &Simulation<SteamSettings>, request: &Request, now_us: i64) -> Response {
        let Some((route, ids)) = find(ROUTES, request) else { return page(404, "Not Found", "") };
        let Some(said) = request.value("key") else {
            return page(401, "Unauthorized", DENIED);
        };
        if said != key(sim) {
            return page(403, "Forbidden", DENIED);
        }
        if let Some(rate_limit) = sim.take(now_us).filter(|rate_limit| rate_limit.exceeded) {
            let response = page(429, "Too Many Requests", "");
            return response.with("retry-after", rate_limit.reset_s.to_string());
        }
        let mut state = sim.open(now_us);
        let mut call = Call { sim, state: &mut state, request, ids, scopes: &[], now_us };
        (route.run)(&mut call)
    }

    fn problem(_request: &Request, status: u16, message: &str) -> Response {
        page(status, "Error", message)
    }

    fn repeat_page(_request: &Request, _body: &mut Value) {}
}

const DENIED: &str =
    "Access is denied. Retrying will not help. Please verify your <pre>key=</pre> parameter.";

/// 32 hexadecimal digits, like Steam's keys.
fn key(sim: &Simulation<SteamSettings>) -> String {
    let letters = sim.secret("steam key", 32);
    let digit = |byte: u8| char::from_digit(u32::from(byte % 16), 16).unwrap_or('0');
    letters.bytes().map(digit).collect::<String>().to_uppercase()
}

/// Steam's errors are web pages.
fn page(status: u16, title: &str, message: &str) -> Response {
    let text = format!(
        "<html><head><title>{title}</title></head><body><h1>{title}</h1>{message}</body></html>"
    );
    Response::text(status, "text/html; charset=UTF-8", text)
}
