//! YouTube: Google's sign-in below `/oauth2` and `/accounts`, the Data API v3 below `/www`, from the
//! subscriptions, playlists and likes of a made-up viewer. Quotas end at midnight in California.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Asked, Reply, first};
use crate::limits::{Limit, or_none};
use crate::oauth::{Client, ClientAuth, DeviceRules, Offline, Provider, Rotation, Rules};
use crate::room::{Ask, Room, Stand};
use crate::routes::{Call, Route, find};
use crate::shelves::{Kind, World};

mod api;
mod device;
mod list;
mod quota;
mod world;

pub use quota::Used;

/// Enough for every endpoint that reads.
pub const READ_SCOPE: &str = "https://www.googleapis.com/auth/youtube.readonly";
const FULL_SCOPE: &str = "https://www.googleapis.com/auth/youtube";
const NEEDS: &str =
    "https://www.googleapis.com/auth/youtube.readonly https://www.googleapis.com/auth/youtube";

/// How this YouTube behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Empty means unlimited; the quotas are beside them.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// Calls of `search` in one day of California.
    pub search_quota: u64,
    /// Units of all other calls in one day of California.
    pub read_quota: u64,
    /// Whether nobody may see the owner's subscriptions, not even they themselves.
    pub subscriptions_private: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: Vec::new(),
            search_quota: 100,
            read_quota: 10_000,
            subscriptions_private: false,
        }
    }
}

const fn get(path: &'static str, run: fn(&mut Call<'_, Settings>) -> Reply) -> Route<Settings> {
    Route { method: "GET", path, needs: NEEDS, run }
}

const SEARCH: &str = "/www/youtube/v3/search";

const ROUTES: &[Route<Settings>] = &[
    get(SEARCH, api::search),
    get("/www/youtube/v3/videos", api::videos),
    get("/www/youtube/v3/videos/getRating", api::rating),
    get("/www/youtube/v3/channels", api::channels),
    get("/www/youtube/v3/subscriptions", api::subscriptions),
    get("/www/youtube/v3/playlists", api::playlists),
    get("/www/youtube/v3/playlistItems", api::playlist_items),
];

impl Stand for Settings {
    type Books = Used;

    const NAME: &'static str = "youtube";
    const KINDS: &'static [Kind] = world::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] = &[
        ("www.googleapis.com", "/www"),
        ("oauth2.googleapis.com", "/oauth2"),
        ("accounts.google.com", "/accounts"),
        ("www.google.com", "/google"),
    ];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn provider(seed: u64, url: &str) -> Option<Provider> {
        let client = Client {
            id: "sandbox-youtube-client".to_owned(),
            secret: "sandbox-youtube-secret".to_owned(),
            redirects: Vec::new(),
            scopes: [READ_SCOPE, FULL_SCOPE].map(str::to_owned).to_vec(),
        };
        let rules = Rules {
            client_auth: ClientAuth::Either,
            rotation: Rotation::Kept,
            rotation_public: Rotation::Kept,
            offline: Offline::Field("access_type", "offline"),
            token_type: "Bearer",
            expires_in_s: 3_599,
            refresh_life_told: true,
            device: Some(DeviceRules {
                life_s: 1_800,
                interval_s: 5,
                pending_status: 428,
                refused_status: 403,
                pending: None,
                lets_in: true,
            }),
            ..Rules::default()
        };
        let provider = Provider::new(seed, client, rules, "/accounts/o/oauth2/v2/auth");
        Some(provider.with_device_page(format!("{url}{}", device::PAGE)))
    }

    fn values(room: &Room<Settings>) -> Value {
        json!({ "YOUTUBE_API_KEY": key(room) })
    }

    fn world(&self, ask: Ask) -> World {
        world::world(ask)
    }

    fn answer(room: &Room<Settings>, asked: &Asked, now_us: i64) -> Reply {
        let Some(provider) = room.provider() else { return not_found() };
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET" | "POST", "/accounts/o/oauth2/v2/auth") => provider.authorise(asked, now_us),
            ("POST", "/oauth2/device/code") => provider.device_code(asked, now_us),
            ("POST", "/oauth2/token") => provider.token(asked, now_us),
            ("POST", "/oauth2/revoke") => revoke(provider, asked),
            ("GET" | "POST", device::PAGE) => device::page(provider, asked),
            _ => api(room, provider, asked, now_us),
        }
    }

    fn problem(asked: &Asked, status: u16, words: &str) -> Reply {
        if asked.path.starts_with("/oauth2/") {
            let body = json!({ "error": "internal_failure", "error_description": words });
            return Reply::json(status, &body);
        }
        let reason = match status {
            401 => "authError",
            403 => "forbidden",
            404 => "notFound",
            429 => "rateLimitExceeded",
            500.. => "backendError",
            _ => "badRequest",
        };
        refusal(status, reason, words)
    }

    fn repeat(asked: &Asked, body: &mut Value) {
        if let (Some(body), Some(token)) = (body.as_object_mut(), asked.value("pageToken")) {
            body.insert("nextPageToken".to_owned(), json!(token));
        }
    }
}

fn api(room: &Room<Settings>, provider: &Provider, asked: &Asked, now_us: i64) -> Reply {
    let Some((route, ids)) = find(ROUTES, asked) else { return not_found() };
    let key_said = asked.value("key");
    if key_said.is_some_and(|said| said != key(room)) {
        return refusal(400, "keyInvalid", "API key not valid. Please pass a valid API key.");
    }
    let holder = provider.holder(asked, now_us);
    if holder.is_none() && asked.header("authorization").is_some() {
        return refusal(401, "authError", "Invalid Credentials");
    }
    let signed_in = holder.is_some();
    let Some(scopes) = holder.map(|holder| holder.scopes).or(key_said.map(|_| Vec::new())) else {
        let words = "The request is missing a valid API key.";
        return refusal(403, "forbidden", words);
    };
    if signed_in && !route.allows(&scopes) {
        let words = "Request had insufficient authentication scopes.";
        return refusal(403, "insufficientPermissions", words);
    }
    if room.take(now_us).is_some_and(|standing| standing.exceeded) {
        return refusal(429, "rateLimitExceeded", "Too many requests");
    }
    let mut inner = room.open(now_us);
    let (search, reads) = (inner.settings.search_quota, inner.settings.read_quota);
    let most = if route.path == SEARCH { search } else { reads };
    if !inner.books.take(route.path == SEARCH, most, now_us) {
        let words = "The request cannot be completed because you have exceeded your \
                     <a href=\"/youtube/v3/getting-started#quota\">quota</a>.";
        return refusal(403, "quotaExceeded", words);
    }
    let mut call = Call { room, inner: &mut inner, asked, ids, scopes: &scopes, now_us };
    (route.run)(&mut call)
}

/// Takes a sign-in back by one of its tokens.
fn revoke(provider: &Provider, asked: &Asked) -> Reply {
    let form = asked.form();
    let token = first(&form, "token").or(asked.value("token")).unwrap_or_default();
    if provider.revoke_token(token) {
        return Reply::raw(200, "{}");
    }
    let words = "Token expired or revoked";
    Reply::json(400, &json!({ "error": "invalid_token", "error_description": words }))
}

/// Such as `AIza…`, 39 characters.
fn key(room: &Room<Settings>) -> String {
    format!("AIzaSandbox{}", room.secret("youtube key", 28))
}

/// Google's form of an error.
fn refusal(status: u16, reason: &str, words: &str) -> Reply {
    let domain = match reason {
        "quotaExceeded" => "youtube.quota",
        "keyInvalid" | "rateLimitExceeded" => "usageLimits",
        _ if reason.starts_with("invalid") || status >= 500 => "youtube.parameter",
        _ => "global",
    };
    Reply::json(
        status,
        &json!({ "error": {
            "code": status,
            "message": words,
            "errors": [{ "message": words, "domain": domain, "reason": reason }],
        } }),
    )
}

fn not_found() -> Reply {
    Reply::text(
        404,
        "text/html; charset=UTF-8",
        "<!doctype html><title>Error 404 (Not Found)!!1</title>",
    )
}
