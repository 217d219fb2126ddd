//! Reddit: sign-in below `/www`, the Data API below `/oauth`, from the years of a made-up redditor.
//! Without approval no application is known, and an agent that hides who it is gets a web page.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::{Asked, Reply, first};
use crate::limits::{Limit, Standing, or_none};
use crate::oauth::{Client, ClientAuth, Offline, Provider, Rotation, Rules};
use crate::room::{Ask, Room, Stand};
use crate::routes::{Call, Route, find};
use crate::shelves::{Kind, World};

mod account;
mod listing;
mod world;

/// Everything an application can be allowed to ask for, as far as the account is concerned.
pub const SCOPES: &[&str] =
    &["identity", "history", "mysubreddits", "privatemessages", "read", "save", "subscribe"];

/// 100 a minute for an application, counted over ten minutes.
pub const LIMITS: &[Limit] = &[Limit { requests: 1_000, window_s: 600 }];

/// What libraries and browsers call themselves; an application must not look like them.
const BLOCKED_AGENTS: &[&str] =
    &["python", "curl", "wget", "java", "okhttp", "axios", "node", "go-http", "mozilla", "reqwest"];

/// How this Reddit behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Empty means unlimited.
    #[serde(deserialize_with = "or_none")]
    pub limits: Vec<Limit>,
    /// Without approval the client is unknown and its tokens are void.
    pub approved: bool,
    /// Takes only the form that Reddit asks for: `platform:name:version (by /u/somebody)`.
    pub strict_agent: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { limits: LIMITS.to_vec(), approved: true, strict_agent: false }
    }
}

const fn get(
    path: &'static str,
    needs: &'static str,
    run: fn(&mut Call<'_, Settings>) -> Reply,
) -> Route<Settings> {
    Route { method: "GET", path, needs, run }
}

const ROUTES: &[Route<Settings>] = &[
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

impl Stand for Settings {
    type Books = ();

    const NAME: &'static str = "reddit";
    const KINDS: &'static [Kind] = world::KINDS;
    const HOSTS: &'static [(&'static str, &'static str)] =
        &[("www.reddit.com", "/www"), ("oauth.reddit.com", "/oauth")];

    fn limits(&self) -> &[Limit] {
        &self.limits
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

    fn values(_room: &Room<Settings>) -> Value {
        Value::Null
    }

    fn world(&self, ask: Ask) -> World {
        world::world(ask)
    }

    fn answer(room: &Room<Settings>, asked: &Asked, now_us: i64) -> Reply {
        let Some(provider) = room.provider() else { return problem(404, "Not Found") };
        let settings = room.open(now_us).settings.clone();
        let from_browser = asked.path == "/www/api/v1/authorize";
        if !from_browser && !takes_agent(asked.header("user-agent"), settings.strict_agent) {
            return blocked();
        }
        if !settings.approved {
            return if from_browser { unknown_client() } else { problem(401, "Unauthorized") };
        }
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET" | "POST", "/www/api/v1/authorize") => provider.authorise(asked, now_us),
            ("POST", "/www/api/v1/access_token") => token(provider.token(asked, now_us)),
            ("POST", "/www/api/v1/revoke_token") => revoke(provider, asked),
            _ => api(room, provider, asked, now_us),
        }
    }

    fn problem(_asked: &Asked, status: u16, words: &str) -> Reply {
        problem(status, words)
    }

    fn repeat(asked: &Asked, body: &mut Value) {
        let data = body.get_mut("data").and_then(Value::as_object_mut);
        if let (Some(data), Some(after)) = (data, asked.value("after")) {
            data.insert("after".to_owned(), json!(after));
        }
    }
}

fn api(room: &Room<Settings>, provider: &Provider, asked: &Asked, now_us: i64) -> Reply {
    let Some((route, ids)) = find(ROUTES, asked) else { return problem(404, "Not Found") };
    let Some(holder) = provider.holder(asked, now_us) else {
        let realm = "Bearer realm=\"reddit\", error=\"invalid_token\"";
        return problem(401, "Unauthorized").with("www-authenticate", realm.to_owned());
    };
    let standing = room.take(now_us);
    if standing.as_ref().is_some_and(|standing| standing.exceeded) {
        return with_limits(problem(429, "Too Many Requests"), standing.as_ref());
    }
    let reply = if route.allows(&holder.scopes) {
        let mut inner = room.open(now_us);
        let scopes = &holder.scopes;
        let mut call = Call { room, inner: &mut inner, asked, ids, scopes, now_us };
        (route.run)(&mut call)
    } else {
        let realm = "Bearer realm=\"reddit\", error=\"insufficient_scope\"";
        problem(403, "Forbidden").with("www-authenticate", realm.to_owned())
    };
    with_limits(reply, standing.as_ref())
}

/// Reddit counts in halves and says so.
fn with_limits(reply: Reply, standing: Option<&Standing>) -> Reply {
    let Some(standing) = standing else { return reply };
    let used = standing.closest.requests.saturating_sub(standing.remaining);
    reply
        .with("x-ratelimit-used", used.to_string())
        .with("x-ratelimit-remaining", format!("{}.0", standing.remaining))
        .with("x-ratelimit-reset", standing.reset_s.to_string())
}

/// A bad client gets Reddit's own form, and an error of the grant has no description.
fn token(reply: Reply) -> Reply {
    if reply.status == 401 {
        return problem(401, "Unauthorized");
    }
    match serde_json::from_slice::<Value>(&reply.body)
        .ok()
        .and_then(|body| body.get("error").cloned())
    {
        Some(error) => Reply::json(reply.status, &json!({ "error": error })),
        None => reply,
    }
}

/// Takes a token back; a token that nobody knows is no error.
fn revoke(provider: &Provider, asked: &Asked) -> Reply {
    match provider.knows_client(asked) {
        Ok(()) => {
            provider.revoke_token(first(&asked.form(), "token").unwrap_or_default());
            Reply::empty(204)
        }
        Err(_) => problem(401, "Unauthorized"),
    }
}

fn takes_agent(agent: Option<&str>, strict: bool) -> bool {
    let agent = agent.unwrap_or_default().trim().to_lowercase();
    let form = agent.split(':').count() >= 3 && agent.contains("(by /u/");
    let hidden = BLOCKED_AGENTS.iter().any(|blocked| agent.starts_with(blocked));
    !agent.is_empty() && !hidden && (form || !strict)
}

fn problem(status: u16, words: &str) -> Reply {
    Reply::json(status, &json!({ "message": words, "error": status }))
}

fn blocked() -> Reply {
    let page = "<!doctype html><html><head><title>Blocked</title></head><body><h1>whoa there, pardner!</h1>\
                <p>Your request has been blocked due to a network policy.</p></body></html>";
    Reply::text(403, "text/html; charset=UTF-8", page)
}

fn unknown_client() -> Reply {
    Reply::text(
        400,
        "text/html; charset=UTF-8",
        "<!doctype html><p>bad request: invalid client id</p>",
    )
}
