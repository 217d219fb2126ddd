//! Reddit: sign-in below `/www`, the Data API below `/oauth`, with the data of a fictional user. Without
//! approval no application is known, and a client without a proper user agent gets a web page.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Request, Response, first};
use crate::limits::{Limit, RateLimitStatus, or_none};
use crate::oauth::{Client, ClientAuth, Offline, Provider, Rotation, Rules};
use crate::record_store::{GeneratedRecords, RecordKind};
use crate::routes::{Call, Route, find};
use crate::simulation::{GenerateParams, ServiceSpec, Simulation};

mod account;
mod generate;
mod listing;

/// All scopes that concern the account.
pub const SCOPES: &[&str] =
    &["identity", "history", "mysubreddits", "privatemessages", "read", "save", "subscribe"];

/// 100 a minute for an application, counted over ten minutes.
pub const LIMITS: &[Limit] = &[Limit { requests: 1_000, window_s: 600 }];

/// User agents of libraries and browsers, which are blocked.
const BLOCKED_AGENTS: &[&str] =
    &["python", "curl", "wget", "java", "okhttp", "axios", "node", "go-http", "mozilla", "reqwest"];

/// How this Reddit behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedditSettings {
    /// Empty means unlimited.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// Without approval the client is unknown and its tokens are invalid.
    pub approved: bool,
    /// Accepts only the format that Reddit requires: `platform:name:version (by /u/NAME)`.
    pub strict_agent: bool,
}

impl Default for RedditSettings {
    fn default() -> RedditSettings {
        RedditSettings { limits: LIMITS.to_vec(), approved: true, strict_agent: false }
    }
}

const fn get(
    path: &'static str,
    needs: &'static str,
    run: fn(&mut Call<'_, RedditSettings>) -> Response,
) -> Route<RedditSettings> {
    Route { method: "GET", path, needs, run }
}

const ROUTES: &[Route<RedditSettings>] = &[
    get("/oauth/api/v1/me", "identity", account::me),
    get("/oauth/api/v1/me/karma", "mysubreddits", account::karma),
    get("/oauth/api/v1/me/trophies", "identity", account::trophies),
    get("/oauth/api/v1/me/prefs", "identity", account::prefs),
    get("/oauth/subreddits/mine/subscriber", "mysubreddits", listing::subscribed),
    get("/oauth/subreddits/mine/moderator", "mysubreddits", listing::moderated),
    get("/oauth/subreddits/mine/contributor", "mysubreddits", listing::contributor),
    get("/oauth/user/{}/about", "read", account::about),
    get("/oauth/user/{}/submitted", "history", listing::submitted),
    get("/oauth/user/{}/comments", "history", listing::comments),
    get("/oauth/user/{}/overview", "history", listing::overview),
    get("/oauth/user/{}/saved", "history", listing::saved),
    get("/oauth/user/{}/hidden", "history", listing::hidden),
    get("/oauth/user/{}/upvoted", "history", listing::upvoted),
    get("/oauth/user/{}/downvoted", "history", listing::downvoted),
    get("/oauth/message/inbox", "privatemessages", listing::inbox),
    get("/oauth/message/unread", "privatemessages", listing::unread),
    get("/oauth/message/sent", "privatemessages", listing::sent),
];

impl ServiceSpec for RedditSettings {
    type Extra = ();

    const NAME: &'static str = "reddit";
    const KINDS: &'static [RecordKind] = generate::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] =
        &[("www.reddit.com", "/www"), ("oauth.reddit.com", "/oauth")];

    fn limits(&self) -> &[Limit] {
        &self.limits
    }

    fn unlimit(&mut self) {
        self.limits.clear();
    }

    fn provider(seed: u64, _url: &str) -> Option<Provider> {
        let client = Client {
            id: "sandbox-reddit-client".to_owned(),
            secret: "sandbox-reddit-secret".to_owned(),
            redirects: Vec::new(),
            scopes: SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
        };
        let rules = Rules {
            client_auth: ClientAuth::Basic,
            rotation: Rotation::Kept,
            rotation_public: Rotation::Kept,
            offline: Offline::Field("duration", "permanent"),
            state_chars_min: 1,
            expires_in_s: 86_400,
            ..Rules::default()
        };
        Some(Provider::new(seed, client, rules, "/www/api/v1/authorize"))
    }

    fn values(_sim: &Simulation<RedditSettings>) -> Value {
        Value::Null
    }

    fn generate(&self, params: GenerateParams) -> GeneratedRecords {
        generate::generate(params)
    }

    fn answer(sim: &Simulation<RedditSettings>, request: &Request, now_us: i64) -> Response {
        let Some(provider) = sim.provider() else { return problem(404, "Not Found") };
        let settings = sim.open(now_us).settings.clone();
        let from_browser = request.path == "/www/api/v1/authorize";
        if !from_browser && !accepts_agent(request.header("user-agent"), settings.strict_agent) {
            return blocked();
        }
        if !settings.approved {
            return if from_browser { unknown_client() } else { problem(401, "Unauthorized") };
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "POST", "/www/api/v1/authorize") => provider.authorise(request, now_us),
            ("POST", "/www/api/v1/access_token") => token(provider.token(request, now_us)),
            ("POST", "/www/api/v1/revoke_token") => revoke(provider, request),
            _ => api(sim, provider, request, now_us),
        }
    }

    fn problem(_request: &Request, status: u16, message: &str) -> Response {
        problem(status, message)
    }

    fn repeat_page(request: &Request, body: &mut Value) {
        let data = body.get_mut("data").and_then(Value::as_object_mut);
        if let (Some(data), Some(after)) = (data, request.value("after")) {
            data.insert("after".to_owned(), json!(after));
        }
    }
}

fn api(
    sim: &Simulation<RedditSettings>,
    provider: &Provider,
    request: &Request,
    now_us: i64,
) -> Response {
    let Some((route, ids)) = find(ROUTES, request) else { return problem(404, "Not Found") };
    let Some(bearer) = provider.authenticate(request, now_us) else {
        let realm = "Bearer realm=\"reddit\", error=\"invalid_token\"";
        return problem(401, "Unauthorized").with("www-authenticate", realm.to_owned());
    };
    let rate_limit = sim.take(now_us);
    if rate_limit.as_ref().is_some_and(|rate_limit| rate_limit.exceeded) {
        return with_limits(problem(429, "Too Many Requests"), rate_limit.as_ref());
    }
    let response = if route.allows(&bearer.scopes) {
        let mut state = sim.open(now_us);
        let scopes = &bearer.scopes;
        let mut call = Call { sim, state: &mut state, request, ids, scopes, now_us };
        (route.run)(&mut call)
    } else {
        let realm = "Bearer realm=\"reddit\", error=\"insufficient_scope\"";
        problem(403, "Forbidden").with("www-authenticate", realm.to_owned())
    };
    with_limits(response, rate_limit.as_ref())
}

/// Reddit reports fractions of requests.
fn with_limits(response: Response, rate_limit: Option<&RateLimitStatus>) -> Response {
    let Some(rate_limit) = rate_limit else { return response };
    let used = rate_limit.closest.requests.saturating_sub(rate_limit.remaining);
    response
        .with("x-ratelimit-used", used.to_string())
        .with("x-ratelimit-remaining", format!("{}.0", rate_limit.remaining))
        .with("x-ratelimit-reset", rate_limit.reset_s.to_string())
}

/// A wrong client gets Reddit's own error format, and an error of the grant has no description.
fn token(response: Response) -> Response {
    if response.status == 401 {
        return problem(401, "Unauthorized");
    }
    match serde_json::from_slice::<Value>(&response.body)
        .ok()
        .and_then(|body| body.get("error").cloned())
    {
        Some(error) => Response::json(response.status, &json!({ "error": error })),
        None => response,
    }
}

/// Revokes a token; an unknown token is not an error.
fn revoke(provider: &Provider, request: &Request) -> Response {
    match provider.knows_client(request) {
        Ok(()) => {
            provider.revoke_token(first(&request.form(), "token").unwrap_or_default());
            Response::empty(204)
        }
        Err(_) => problem(401, "Unauthorized"),
    }
}

fn accepts_agent(agent: Option<&str>, strict: bool) -> bool {
    let agent = agent.unwrap_or_default().trim().to_lowercase();
    let form = agent.split(':').count() >= 3 && agent.contains("(by /u/");
    let hidden = BLOCKED_AGENTS.iter().any(|blocked| agent.starts_with(blocked));
    !agent.is_empty() && !hidden && (form || !strict)
}

fn problem(status: u16, message: &str) -> Response {
    Response::json(status, &json!({ "message": message, "error": status }))
}

fn blocked() -> Response {
    let page = "<!doctype html><html><head><title>Blocked</title></head><body><h1>whoa there, pardner!</h1>\
                <p>Your request has been blocked due to a network policy.</p></body></html>";
    Response::text(403, "text/html; charset=UTF-8", page)
}

fn unknown_client() -> Response {
    Response::text(
        400,
        "text/html; charset=UTF-8",
        "<!doctype html><p>bad request: invalid client id</p>",
    )
}
