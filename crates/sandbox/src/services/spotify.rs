//! Spotify: the accounts service below `/accounts`, the Web API below `/api`, as for an application of 2026:
//! some paths and fields were removed, and consents expire after six months.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::limits::{Limit, or_none};
use crate::oauth::{Client, ClientAuth, Offline, Provider, Redirects, Rotation, Rules};
use crate::record_store::{GeneratedRecords, RecordKind};
use crate::routes::{Call, Route, find};
use crate::simulation::{GenerateParams, ServiceSpec, Simulation};

mod catalogue;
mod development_mode;
mod follow;
mod generate;
mod library;

/// All scopes.
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

/// Spotify counts in windows of 30 seconds and does not publish the limit.
pub const LIMITS: &[Limit] = &[Limit { requests: 180, window_s: 30 }];

/// The mode of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The reduced paths and fields of February 2026.
    Development,
    /// All old paths, and the new ones.
    Extended,
    /// All old paths and no new ones: an old application before the change.
    Old,
}

/// How this Spotify behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotifySettings {
    /// Empty means unlimited.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    pub mode: Mode,
    /// The status of removed paths: 403 or 404.
    pub removed_status: u16,
    /// Whether the owner of the application pays for Premium.
    pub premium: bool,
    /// Whether the user is one of the five the application may serve.
    pub allowlisted: bool,
    /// Whether `/me/library` accepts artist URIs, which its documentation does not list.
    pub artist_uris: bool,
}

impl Default for SpotifySettings {
    fn default() -> SpotifySettings {
        SpotifySettings {
            limits: LIMITS.to_vec(),
            mode: Mode::Development,
            removed_status: 403,
            premium: true,
            allowlisted: true,
            artist_uris: false,
        }
    }
}

const fn get(path: &'static str, needs: &'static str, run: Run) -> Route<SpotifySettings> {
    Route { method: "GET", path, needs, run }
}

const fn put(path: &'static str, needs: &'static str, run: Run) -> Route<SpotifySettings> {
    Route { method: "PUT", path, needs, run }
}

const fn delete(path: &'static str, needs: &'static str, run: Run) -> Route<SpotifySettings> {
    Route { method: "DELETE", path, needs, run }
}

type Run = fn(&mut Call<'_, SpotifySettings>) -> Response;

const ROUTES: &[Route<SpotifySettings>] = &[
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

/// Paths that were added in 2026.
const NEW: &[&str] =
    &["/api/v1/me/library/contains", "/api/v1/me/library", "/api/v1/playlists/{}/items"];

/// Removed for applications in Development Mode since February 2026.
const REMOVED: &[Route<SpotifySettings>] = &[
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

impl ServiceSpec for SpotifySettings {
    type Extra = ();

    const NAME: &'static str = "spotify";
    const KINDS: &'static [RecordKind] = generate::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] =
        &[("accounts.spotify.com", "/accounts"), ("api.spotify.com", "/api")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn unlimit(&mut self) {
        self.limits.clear();
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

    fn values(_sim: &Simulation<SpotifySettings>) -> Value {
        Value::Null
    }

    fn generate(&self, params: GenerateParams) -> GeneratedRecords {
        generate::generate(params)
    }

    fn answer(sim: &Simulation<SpotifySettings>, request: &Request, now_us: i64) -> Response {
        let Some(provider) = sim.provider() else { return missing() };
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "POST", "/accounts/authorize") => provider.authorise(request, now_us),
            ("POST", "/accounts/api/token") => provider.token(request, now_us),
            _ => api(sim, provider, request, now_us),
        }
    }

    fn problem(request: &Request, status: u16, message: &str) -> Response {
        if request.path.starts_with("/accounts/") {
            return Response::json(
                status,
                &json!({ "error": "server_error", "error_description": message }),
            );
        }
        refusal(status, message)
    }

    fn repeat_page(request: &Request, body: &mut Value) {
        let pointer = if body.get("artists").is_some() { "/artists" } else { "" };
        let Some(page) = body.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
        if let Some(href) = page.get("href").cloned() {
            page.insert("next".to_owned(), href);
        }
        let cursor = ["after", "before"].map(|name| (name, request.value(name)));
        let Some(cursors) = page.get_mut("cursors").and_then(Value::as_object_mut) else { return };
        for (name, value) in cursor.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            cursors.insert(name.to_owned(), json!(value));
        }
    }
}

fn api(
    sim: &Simulation<SpotifySettings>,
    provider: &Provider,
    request: &Request,
    now_us: i64,
) -> Response {
    let Some(token) = request.credentials("Bearer") else {
        return refusal(401, "No token provided");
    };
    let Some(bearer) = provider.authenticate(request, now_us) else {
        let known = token.starts_with("sandbox-access-");
        return refusal(
            401,
            if known { "The access token expired" } else { "Invalid access token" },
        );
    };
    if let Some(rate_limit) = sim.take(now_us).filter(|rate_limit| rate_limit.exceeded) {
        let response = refusal(429, "API rate limit exceeded");
        return response.with("retry-after", rate_limit.reset_s.to_string());
    }
    let mut state = sim.open(now_us);
    let removed = find(REMOVED, request);
    if removed.is_some() && state.settings.mode == Mode::Development {
        return refusal(state.settings.removed_status, "Forbidden");
    }
    let Some((route, ids)) = removed.or_else(|| find(ROUTES, request)) else { return missing() };
    if state.settings.mode == Mode::Old && NEW.contains(&route.path) {
        return missing();
    }
    if !state.settings.premium {
        return refusal(403, "Active premium subscription required for the owner of the app.");
    }
    if !state.settings.allowlisted {
        let message =
            "Check settings on developer.spotify.com/dashboard, the user may not be registered.";
        return refusal(403, message);
    }
    if !route.allows(&bearer.scopes) {
        return refusal(403, "Insufficient client scope");
    }
    let mode = state.settings.mode;
    let mut call = Call { sim, state: &mut state, request, ids, scopes: &bearer.scopes, now_us };
    let response = (route.run)(&mut call);
    if mode == Mode::Development { development_mode::remove_fields(response) } else { response }
}

fn refusal(status: u16, message: &str) -> Response {
    Response::json(status, &json!({ "error": { "status": status, "message": message } }))
}

fn missing() -> Response {
    refusal(404, "Service not found")
}
