//! Spotify: the accounts service below `/accounts`, the Web API below `/api`, as an application of
//! 2026 meets them: some paths are gone, some fields are, and consents end after six months.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Asked, Reply};
use crate::limits::{Limit, or_none};
use crate::oauth::{Client, ClientAuth, Offline, Provider, Redirects, Rotation, Rules};
use crate::room::{Ask, Room, Stand};
use crate::routes::{Call, Route, find};
use crate::shelves::{Kind, World};

mod catalogue;
mod follow;
mod library;
mod thin;
mod world;

/// Everything an application can be allowed to ask for.
pub const SCOPES: &[&str] = &[
    "user-read-private",
    "user-read-email",
    "user-library-read",
    "user-library-modify",
    "user-read-recently-played",
    "user-read-playback-position",
    "user-read-playback-state",
    "user-read-currently-playing",
    "user-top-read",
    "user-follow-read",
    "user-follow-modify",
    "playlist-read-private",
    "playlist-read-collaborative",
    "playlist-modify-public",
    "playlist-modify-private",
];

/// Six months, as Spotify counts them since July 2026.
const CONSENT_LIFE_S: i64 = 180 * 86_400;

/// Spotify counts in windows of 30 seconds and does not say how many fit.
pub const LIMITS: &[Limit] = &[Limit { requests: 180, window_s: 30 }];

/// Which rules an application is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The reduced paths and fields of February 2026.
    Development,
    /// Everything that was, and the new paths too.
    Extended,
    /// Everything that was, and nothing new: an old application before the change reached it.
    Old,
}

/// How this Spotify behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Empty means unlimited.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    pub mode: Mode,
    /// The status of paths that are gone: 403 or 404.
    pub removed_status: u16,
    /// Whether the owner of the application pays for Premium.
    pub premium: bool,
    /// Whether the user is one of the five the application may serve.
    pub allowlisted: bool,
    /// Whether `/me/library` takes the addresses of artists, which its description does not list.
    pub artist_uris: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: LIMITS.to_vec(),
            mode: Mode::Development,
            removed_status: 403,
            premium: true,
            allowlisted: true,
            artist_uris: false,
        }
    }
}

const fn get(path: &'static str, needs: &'static str, run: Run) -> Route<Settings> {
    Route { method: "GET", path, needs, run }
}

const fn put(path: &'static str, needs: &'static str, run: Run) -> Route<Settings> {
    Route { method: "PUT", path, needs, run }
}

const fn delete(path: &'static str, needs: &'static str, run: Run) -> Route<Settings> {
    Route { method: "DELETE", path, needs, run }
}

type Run = fn(&mut Call<'_, Settings>) -> Reply;

const ROUTES: &[Route<Settings>] = &[
    get("/api/v1/me", "", library::me),
    get("/api/v1/me/top/{}", "user-top-read", library::top),
    get("/api/v1/me/following", "user-follow-read", follow::artists),
    get("/api/v1/me/tracks", "user-library-read", library::tracks),
    get("/api/v1/me/albums", "user-library-read", library::albums),
    get("/api/v1/me/shows", "user-library-read", library::shows),
    get("/api/v1/me/episodes", "user-read-playback-position", library::episodes),
    get("/api/v1/me/audiobooks", "user-library-read", library::audiobooks),
    get("/api/v1/me/playlists", "playlist-read-private", library::playlists),
    get("/api/v1/me/player/recently-played", "user-read-recently-played", library::plays),
    get("/api/v1/me/library/contains", "user-library-read", follow::contains),
    put("/api/v1/me/library", "user-library-modify", follow::save),
    delete("/api/v1/me/library", "user-library-modify", follow::drop),
    get("/api/v1/playlists/{}", "", library::playlist),
    get("/api/v1/playlists/{}/items", "playlist-read-private", library::items),
];

/// Paths that came in 2026.
const NEW: &[&str] =
    &["/api/v1/me/library/contains", "/api/v1/me/library", "/api/v1/playlists/{}/items"];

/// Gone for an application in Development Mode since February 2026.
const REMOVED: &[Route<Settings>] = &[
    get("/api/v1/users/{}", "", library::user),
    get("/api/v1/users/{}/playlists", "", library::user_playlists),
    get("/api/v1/playlists/{}/tracks", "playlist-read-private", library::items),
    put("/api/v1/me/following", "user-follow-modify", follow::follow),
    delete("/api/v1/me/following", "user-follow-modify", follow::unfollow),
    put(
        "/api/v1/playlists/{}/followers",
        "playlist-modify-public playlist-modify-private",
        follow::follow_playlist,
    ),
    delete(
        "/api/v1/playlists/{}/followers",
        "playlist-modify-public playlist-modify-private",
        follow::unfollow_playlist,
    ),
];

impl Stand for Settings {
    type Books = ();

    const NAME: &'static str = "spotify";
    const KINDS: &'static [Kind] = world::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] =
        &[("accounts.spotify.com", "/accounts"), ("api.spotify.com", "/api")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn provider(seed: u64, _url: &str) -> Option<Provider> {
        let client = Client {
            id: "sandbox-spotify-client".to_owned(),
            secret: "sandbox-spotify-secret".to_owned(),
            redirects: Vec::new(),
            scopes: SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
        };
        let rules = Rules {
            client_auth: ClientAuth::Either,
            client_status: 400,
            pkce_replaces_secret: true,
            rotation: Rotation::Kept,
            rotation_public: Rotation::Strict,
            redirects: Redirects::NoLocalhost,
            offline: Offline::Always,
            token_type: "Bearer",
            refresh_life_s: Some(CONSENT_LIFE_S),
            ..Rules::default()
        };
        Some(Provider::new(seed, client, rules, "/accounts/authorize"))
    }

    fn values(_room: &Room<Settings>) -> Value {
        Value::Null
    }

    fn world(&self, ask: Ask) -> World {
        world::world(ask)
    }

    fn answer(room: &Room<Settings>, asked: &Asked, now_us: i64) -> Reply {
        let Some(provider) = room.provider() else { return missing() };
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET" | "POST", "/accounts/authorize") => provider.authorise(asked, now_us),
            ("POST", "/accounts/api/token") => provider.token(asked, now_us),
            _ => api(room, provider, asked, now_us),
        }
    }

    fn problem(asked: &Asked, status: u16, words: &str) -> Reply {
        if asked.path.starts_with("/accounts/") {
            return Reply::json(
                status,
                &json!({ "error": "server_error", "error_description": words }),
            );
        }
        refusal(status, words)
    }

    fn repeat(asked: &Asked, body: &mut Value) {
        let pointer = if body.get("artists").is_some() { "/artists" } else { "" };
        let Some(page) = body.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
        if let Some(href) = page.get("href").cloned() {
            page.insert("next".to_owned(), href);
        }
        let cursor = ["after", "before"].map(|name| (name, asked.value(name)));
        let Some(cursors) = page.get_mut("cursors").and_then(Value::as_object_mut) else { return };
        for (name, value) in cursor.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            cursors.insert(name.to_owned(), json!(value));
        }
    }
}

fn api(room: &Room<Settings>, provider: &Provider, asked: &Asked, now_us: i64) -> Reply {
    let Some(bearer) = asked.credentials("Bearer") else {
        return refusal(401, "No token provided");
    };
    let Some(holder) = provider.holder(asked, now_us) else {
        let known = bearer.starts_with("sandbox-access-");
        return refusal(
            401,
            if known { "The access token expired" } else { "Invalid access token" },
        );
    };
    if let Some(standing) = room.take(now_us).filter(|standing| standing.exceeded) {
        let reply = refusal(429, "API rate limit exceeded");
        return reply.with("retry-after", standing.reset_s.to_string());
    }
    let mut inner = room.open(now_us);
    let removed = find(REMOVED, asked);
    if removed.is_some() && inner.settings.mode == Mode::Development {
        return refusal(inner.settings.removed_status, "Forbidden");
    }
    let Some((route, ids)) = removed.or_else(|| find(ROUTES, asked)) else { return missing() };
    if inner.settings.mode == Mode::Old && NEW.contains(&route.path) {
        return missing();
    }
    if !inner.settings.premium {
        return refusal(403, "Active premium subscription required for the owner of the app.");
    }
    if !inner.settings.allowlisted {
        let words =
            "Check settings on developer.spotify.com/dashboard, the user may not be registered.";
        return refusal(403, words);
    }
    if !route.allows(&holder.scopes) {
        return refusal(403, "Insufficient client scope");
    }
    let mode = inner.settings.mode;
    let mut call = Call { room, inner: &mut inner, asked, ids, scopes: &holder.scopes, now_us };
    let reply = (route.run)(&mut call);
    if mode == Mode::Development { thin::thin(reply) } else { reply }
}

fn refusal(status: u16, words: &str) -> Reply {
    Reply::json(status, &json!({ "error": { "status": status, "message": words } }))
}

fn missing() -> Reply {
    refusal(404, "Service not found")
}
