//! YouTube: Google's sign-in below `/oauth2` and `/accounts`, the Data API v3 below `/www`, with the
//! subscriptions, playlists and likes of a fictional viewer. Quotas reset at midnight in California.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Request, Response, first};
use crate::limits::{Limit, or_none};
use crate::oauth::{Client, ClientAuth, DeviceRules, Offline, Provider, Rotation, Rules};
use crate::record_store::{GeneratedRecords, RecordKind};
use crate::routes::{Call, Route, find};
use crate::simulation::{GenerateParams, ServiceSpec, Simulation};

mod api;
mod device;
mod generate;
mod list;
mod quota;

pub use quota::Used;

/// Enough for every endpoint that reads.
pub const READ_SCOPE: &str = "https://www.googleapis.com/auth/youtube.readonly";
const FULL_SCOPE: &str = "https://www.googleapis.com/auth/youtube";
const NEEDS: &str =
    "https://www.googleapis.com/auth/youtube.readonly https://www.googleapis.com/auth/youtube";

/// How this YouTube behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YoutubeSettings {
    /// Empty means unlimited; the quotas are separate.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// Calls of `search` in one day of California.
    pub search_quota: u64,
    /// Units of all other calls in one day of California.
    pub read_quota: u64,
    /// Whether the owner's subscriptions are hidden, even from the owner.
    pub subscriptions_private: bool,
}

impl Default for YoutubeSettings {
    fn default() -> YoutubeSettings {
        YoutubeSettings {
            limits: Vec::new(),
            search_quota: 100,
            read_quota: 10_000,
            subscriptions_private: false,
        }
    }
}

const fn get(
    path: &'static str,
    run: fn(&mut Call<'_, YoutubeSettings>) -> Response,
) -> Route<YoutubeSettings> {
    Route { method: "GET", path, needs: NEEDS, run }
}

const SEARCH: &str = "/www/youtube/v3/search";

const ROUTES: &[Route<YoutubeSettings>] = &[
    get(SEARCH, api::search),
    get("/www/youtube/v3/videos", api::videos),
    get("/www/youtube/v3/videos/getRating", api::rating),
    get("/www/youtube/v3/channels", api::channels),
    get("/www/youtube/v3/subscriptions", api::subscriptions),
    get("/www/youtube/v3/playlists", api::playlists),
    get("/www/youtube/v3/playlistItems", api::playlist_items),
];

impl ServiceSpec for YoutubeSettings {
    type Extra = Used;

    const NAME: &'static str = "youtube";
    const KINDS: &'static [RecordKind] = generate::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] = &[
        ("www.googleapis.com", "/www"),
        ("oauth2.googleapis.com", "/oauth2"),
        ("accounts.google.com", "/accounts"),
        ("www.google.com", "/google"),
    ];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn unlimit(&mut self) {
        self.limits.clear();
        (self.search_quota, self.read_quota) = (u64::MAX, u64::MAX);
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

    fn values(sim: &Simulation<YoutubeSettings>) -> Value {
        json!({ "YOUTUBE_API_KEY": key(sim) })
    }

    fn generate(&self, params: GenerateParams) -> GeneratedRecords {
        generate::generate(params)
    }

    fn answer(sim: &Simulation<YoutubeSettings>, request: &Request, now_us: i64) -> Response {
        let Some(provider) = sim.provider() else { return not_found() };
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "POST", "/accounts/o/oauth2/v2/auth") => provider.authorise(request, now_us),
            ("POST", "/oauth2/device/code") => provider.device_code(request, now_us),
            ("POST", "/oauth2/token") => provider.token(request, now_us),
            ("POST", "/oauth2/revoke") => revoke(provider, request),
            ("GET" | "POST", device::PAGE) => device::page(provider, request),
            _ => api(sim, provider, request, now_us),
        }
    }

    fn problem(request: &Request, status: u16, message: &str) -> Response {
        if request.path.starts_with("/oauth2/") {
            let body = json!({ "error": "internal_failure", "error_description": message });
            return Response::json(status, &body);
        }
        let reason = match status {
            401 => "authError",
            403 => "forbidden",
            404 => "notFound",
            429 => "rateLimitExceeded",
            500.. => "backendError",
            _ => "badRequest",
        };
        refusal(status, reason, message)
    }

    fn repeat_page(request: &Request, body: &mut Value) {
        if let (Some(body), Some(token)) = (body.as_object_mut(), request.value("pageToken")) {
            body.insert("nextPageToken".to_owned(), json!(token));
        }
    }
}

fn api(
    sim: &Simulation<YoutubeSettings>,
    provider: &Provider,
    request: &Request,
    now_us: i64,
) -> Response {
    let Some((route, ids)) = find(ROUTES, request) else { return not_found() };
    let key_said = request.value("key");
    if key_said.is_some_and(|said| said != key(sim)) {
        return refusal(400, "keyInvalid", "API key not valid. Please pass a valid API key.");
    }
    let bearer = provider.authenticate(request, now_us);
    if bearer.is_none() && request.header("authorization").is_some() {
        return refusal(401, "authError", "Invalid Credentials");
    }
    let signed_in = bearer.is_some();
    let Some(scopes) = bearer.map(|bearer| bearer.scopes).or(key_said.map(|_| Vec::new())) else {
        let message = "The request is missing a valid API key.";
        return refusal(403, "forbidden", message);
    };
    if signed_in && !route.allows(&scopes) {
        let message = "Request had insufficient authentication scopes.";
        return refusal(403, "insufficientPermissions", message);
    }
    if sim.take(now_us).is_some_and(|rate_limit| rate_limit.exceeded) {
        return refusal(429, "rateLimitExceeded", "Too many requests");
    }
    let mut state = sim.open(now_us);
    let (search, reads) = (state.settings.search_quota, state.settings.read_quota);
    let most = if route.path == SEARCH { search } else { reads };
    if !state.extra.take(route.path == SEARCH, most, now_us) {
        let message = "The request cannot be completed because you have exceeded your \
                     <a href=\"/youtube/v3/getting-started#quota\">quota</a>.";
        return refusal(403, "quotaExceeded", message);
    }
    let mut call = Call { sim, state: &mut state, request, ids, scopes: &scopes, now_us };
    (route.run)(&mut call)
}

/// Revokes a sign-in by one of its tokens.
fn revoke(provider: &Provider, request: &Request) -> Response {
    let form = request.form();
    let token = first(&form, "token").or(request.value("token")).unwrap_or_default();
    if provider.revoke_token(token) {
        return Response::raw(200, "{}");
    }
    let message = "Token expired or revoked";
    Response::json(400, &json!({ "error": "invalid_token", "error_description": message }))
}

/// Such as `AIza…`, 39 characters.
fn key(sim: &Simulation<YoutubeSettings>) -> String {
    format!("AIzaSandbox{}", sim.secret("youtube key", 28))
}

/// Google's error format.
fn refusal(status: u16, reason: &str, message: &str) -> Response {
    let domain = match reason {
        "quotaExceeded" => "youtube.quota",
        "keyInvalid" | "rateLimitExceeded" => "usageLimits",
        _ if reason.starts_with("invalid") || status >= 500 => "youtube.parameter",
        _ => "global",
    };
    Response::json(
        status,
        &json!({ "error": {
            "code": status,
            "message": message,
            "errors": [{ "message": message, "domain": domain, "reason": reason }],
        } }),
    )
}

fn not_found() -> Response {
    Response::text(
        404,
        "text/html; charset=UTF-8",
        "<!doctype html><title>Error 404 (Not Found)!!1</title>",
    )
}
