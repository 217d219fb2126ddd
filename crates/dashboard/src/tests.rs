//! Every route with every role, without a session, from another origin and without its CSRF token; and that
//! hostile text stays text.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot set up its stage should fail loudly"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use connectors::team_login::TeamSignIn;
use http::{Method, Request, StatusCode};
use jiff::tz::TimeZone;
use oauth::client::id_token::Claims;
use oauth::server::Issuer;
use serde_json::{Value, json};
use store::clock::Clock;
use store::home::Home;
use store::ledger::Ledger;
use store::random::Random;
use store::registry::{
    Grant, NewGrant, NewServer, OWNER, PolicyText, Registry, Role, Server, ServerAccess, Token,
};
use store::settings::{OidcSettings, Settings};
use store::vault::{Vault, run_no_program};

use crate::routes::ROUTES;
use crate::{
    Body, ClientDocuments, ClientServer, ClientSnippet, Dashboard, Live, Options, Response,
    ServerSignIn, TeamIssuer, ToolTrial, TriedServer, csrf,
};

mod arguments;
mod authorization;
mod overview;
mod servers;
mod sign_in;

const HOST: &str = "127.0.0.1:4180";
const ORIGIN: &str = "http://127.0.0.1:4180";

struct NoGate(Arc<Settings>);

impl Live for NoGate {
    fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.0)
    }

    fn apply_changes(&self) {}

    fn servers(&self) -> Value {
        json!({ "servers": [] })
    }

    fn connectors(&self) -> Option<Arc<connectors::ConnectorContext>> {
        None
    }

    fn mcp_url(&self) -> String {
        format!("{ORIGIN}/mcp")
    }

    fn client_document(&self) -> Option<Value> {
        None
    }

    fn begin_server_sign_in(
        &self,
        server: &Server,
        grant: Option<&str>,
        _host: &str,
    ) -> Result<ServerSignIn, String> {
        Ok(ServerSignIn {
            url: format!("https://issuer.example/authorize?{}", grant.unwrap_or("all")),
            issuer: format!("https://issuer.example/{}", server.name),
            scopes: vec!["<read>".to_owned()],
            cookie: "tollgate_sign_in=value; Path=/oauth/callback".to_owned(),
        })
    }

    fn sign_out_of_server(&self, _server: &str) -> Result<Vec<&'static str>, String> {
        Ok(vec!["revoked"])
    }

    fn list_tools(&self, _server: &str) -> Result<(), String> {
        Err("there is no gate".to_owned())
    }

    fn try_server(&self, new: &NewServer) -> Result<TriedServer, String> {
        let tool =
            json!({ "name": "wipe", "description": "Deletes everything.", "inputSchema": {} });
        Ok(TriedServer {
            target: new.target.clone(),
            tools: vec![tool.to_string()],
            resources: Vec::new(),
            prompts: Vec::new(),
            instructions: None,
        })
    }

    fn client_servers(&self) -> Vec<ClientServer> {
        Vec::new()
    }

    fn call_tool(&self, call: &ToolTrial<'_>) -> Result<Value, String> {
        Ok(json!({ "result": { "content": [], "called": call.tool, "as": call.grant } }))
    }

    fn own_policy(&self, _service: &str) -> Option<PolicyText> {
        None
    }

    fn snippets(&self, _grant: &Grant, token: &Token) -> Vec<ClientSnippet> {
        vec![ClientSnippet { client: "Test", hint: String::new(), text: token.expose().to_owned() }]
    }

    fn issuer(&self) -> Issuer {
        Issuer::parse(ORIGIN).unwrap()
    }
}

/// Documents by their address; every other address fails.
#[derive(Default)]
struct Documents(Mutex<HashMap<String, String>>);

impl ClientDocuments for Documents {
    fn fetch(&self, url: &str, bytes_max: usize) -> Result<Bytes, String> {
        let found = self.0.lock().unwrap().get(url).cloned().ok_or("it is not there")?;
        if found.len() > bytes_max {
            return Err("it is too large".to_owned());
        }
        Ok(found.into())
    }
}

/// An issuer that says what a test put here.
#[derive(Default)]
struct Team(Mutex<Option<Claims>>);

impl TeamIssuer for Team {
    fn begin(&self, settings: &OidcSettings, sign_in: &TeamSignIn<'_>) -> Result<String, String> {
        Ok(format!("{}/authorize?state={}", settings.issuer, sign_in.state))
    }

    fn finish(
        &self,
        _settings: &OidcSettings,
        _sign_in: &TeamSignIn<'_>,
        _query: &str,
    ) -> Result<Claims, String> {
        self.0.lock().unwrap().clone().ok_or_else(|| "the ID token was refused".to_owned())
    }
}

struct Stage {
    team: Arc<Team>,
    documents: Arc<Documents>,
    dashboard: Dashboard,
    registry: Arc<Registry>,
    clock: Clock,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(Settings::default())
    }

    fn with(settings: Settings) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::create(&folder.path().join("home")).unwrap();
        let (clock, random) = (Clock::System, Random::seeded(7));
        let vault = Arc::new(Vault::open_home(&home, &random, run_no_program).unwrap());
        let registry = Arc::new(Registry::open(&home, vault, random.clone()).unwrap());
        let options = store::ledger::Options::default();
        let ledger = Arc::new(Ledger::open(&home.audit(), clock.clone(), options).unwrap());
        let documents = Arc::new(Documents::default());
        let team = Arc::new(Team::default());
        let dashboard = Dashboard::new(Options {
            home,
            registry: Arc::clone(&registry),
            ledger,
            clock: clock.clone(),
            random,
            zone: TimeZone::UTC,
            live: Arc::new(NoGate(Arc::new(settings))),
            documents: Arc::clone(&documents) as Arc<dyn ClientDocuments>,
            team: Arc::clone(&team) as Arc<dyn TeamIssuer>,
        });
        Stage { team, documents, dashboard, registry, clock, folder }
    }

    fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }

    /// The cookie of a signed-in person of this role.
    fn sign_in(&self, role: Role) -> String {
        let name =
            if role == Role::Admin { OWNER.to_owned() } else { format!("a-{}", role.as_str()) };
        if role != Role::Admin {
            self.registry.add_person(&name, role, None, self.now_us()).unwrap();
        }
        let link = self.registry.create_sign_in_link(&name, self.now_us()).unwrap();
        let signed_in = self.send(
            Method::POST,
            "/sign-in",
            &[("host", HOST), ("origin", ORIGIN)],
            &format!("token={}", link.expose()),
        );
        assert_eq!(signed_in.status, StatusCode::SEE_OTHER);
        let cookie = signed_in.headers.get("set-cookie").unwrap().to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(['=', ';']).nth(1).unwrap().to_owned()
    }

    fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        self.dashboard.respond(&request.body(Bytes::from(body.to_owned())).unwrap())
    }

    fn get(&self, cookie: &str, path: &str) -> Response {
        let cookie = format!("tollgate_session={cookie}");
        self.send(Method::GET, path, &[("host", HOST), ("cookie", &cookie)], "")
    }

    /// Sends a form as a page of this session would.
    fn post(&self, cookie: &str, path: &str, form: &str) -> Response {
        let body = format!("csrf={}&{form}", csrf::token(cookie));
        let cookie = format!("tollgate_session={cookie}");
        let headers = [("host", HOST), ("origin", ORIGIN), ("cookie", cookie.as_str())];
        self.send(Method::POST, path, &headers, &body)
    }
}

fn text(response: &Response) -> String {
    match &response.body {
        Body::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Body::Stream(_) => String::new(),
    }
}

/// The path of a route with every name filled in.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_route_is_open_to_its_roles_and_to_no_other() {
    let stage = Stage::new();
    let cookies = Role::ALL.map(|role| (role, stage.sign_in(role)));
    // Signing out ends a session, so it comes last.
    let (last, first): (Vec<_>, Vec<_>) =
        ROUTES.iter().partition(|route| route.path.starts_with("/sign-out"));
    for route in first.into_iter().chain(last) {
        let path = filled(route.path);
        for twin in [path.clone(), format!("{path}.json")] {
            let stranger = stage.send(
                route.method.clone(),
                if twin == "/.json" { "/index.json" } else { &twin },
                &[("host", HOST), ("origin", ORIGIN)],
                "",
            );
            assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "{} {twin}", route.method);
        }
        for (role, cookie) in &cookies {
            if route.method == Method::GET && route.has_twin() {
                let twin = if path == "/" { "/index.json".into() } else { format!("{path}.json") };
                let status = stage.get(cookie, &twin).status;
                let is_refused = status == StatusCode::FORBIDDEN;
                assert_eq!(is_refused, !route.access.allows(*role), "{} {twin}", role.as_str());
            }
            let response = match route.method {
                Method::GET => stage.get(cookie, &path),
                _ => stage.post(cookie, &path, ""),
            };
            let is_refused = response.status == StatusCode::FORBIDDEN;
            let role_word = role.as_str();
            assert_eq!(is_refused, !route.access.allows(*role), "{role_word} {path}");
            assert!(!response.status.is_server_error(), "{role_word} {path}: {}", text(&response));
            if role_word == "admin" && route.path.starts_with("/sign-out") {
                break;
            }
        }
    }
}

/// What of a request is wrong, in its headers and its body.
type Forgery<'f> = (&'f str, Vec<(&'f str, &'f str)>, String);

#[tokio::test]
async fn every_form_needs_its_token_its_origin_and_its_session() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let other = stage.sign_in(Role::Admin);
    let (jar, own) = (format!("tollgate_session={cookie}"), ("origin", ORIGIN));
    let token = csrf::token(&cookie);
    let both = format!("{jar}; tollgate_session={other}");
    let good = || format!("csrf={token}&name=eve&role=admin&for=once");
    let forgeries: [Forgery<'_>; 8] = [
        ("no token", vec![own, ("cookie", &jar)], "name=eve&role=admin".to_owned()),
        ("another session's token", vec![own, ("cookie", &jar)], {
            format!("csrf={}&name=eve&role=admin", csrf::token(&other))
        }),
        ("no origin", vec![("cookie", &jar)], good()),
        ("another origin", vec![("origin", "http://127.0.0.1:9"), ("cookie", &jar)], good()),
        ("a hidden origin", vec![("origin", "null"), ("cookie", &jar)], good()),
        ("another site", vec![own, ("sec-fetch-site", "cross-site"), ("cookie", &jar)], good()),
        ("no session", vec![own], good()),
        ("two sessions", vec![own, ("cookie", &both)], good()),
    ];
    let rows = |stage: &Stage| stage.dashboard.app.audit().unwrap().newest_seq().unwrap();
    let (before, people) = (rows(&stage), stage.registry.people().unwrap().len());
    for route in ROUTES.iter().filter(|route| route.method == Method::POST) {
        let path = filled(route.path);
        for (what, headers, body) in &forgeries {
            let headers = [&headers[..], &[("host", HOST)]].concat();
            for path in [path.clone(), format!("{path}.json")] {
                let status = stage.send(Method::POST, &path, &headers, body).status;
                let is_refused = matches!(status.as_u16(), 401 | 403);
                assert!(is_refused, "{path} with {what}: {status}");
            }
        }
        // A link, which carries the session, does nothing either.
        let query = format!("{path}?{}", good());
        let has_page = ROUTES.iter().any(|r| r.path == route.path && r.method == Method::GET);
        let status = stage.get(&cookie, &query).status;
        assert!(has_page || status == StatusCode::METHOD_NOT_ALLOWED, "{query}: {status}");
    }
    assert_eq!(rows(&stage), before, "a refused form left a row, so it did something");
    assert_eq!(stage.registry.people().unwrap().len(), people);
}

#[test]
fn every_form_of_a_template_carries_the_token() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    // Forms without a session: whoever signs in has none yet.
    let without = ["sign_in.html", "sign_in_choices.html"];
    let mut forms = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        for form in text.split("<form").skip(1) {
            let form = form.split("</form>").next().unwrap();
            if form.contains("method=\"post\"") && !without.contains(&name.as_str()) {
                assert!(form.contains("name=\"csrf\""), "{name}: {form}");
                forms += 1;
            }
        }
    }
    assert!(forms > 40, "{forms}");
}

#[tokio::test]
async fn only_an_admin_is_offered_the_owners_data() {
    let stage = Stage::new();
    for role in Role::ALL {
        let cookie = stage.sign_in(role);
        let home = text(&stage.get(&cookie, "/"));
        let is_admin = role == Role::Admin;
        for path in ["/health", "/activity"] {
            assert_eq!(home.contains(&format!("href=\"{path}\"")), is_admin, "{}", role.as_str());
        }
        for path in ["/health", "/health.json", "/health/hrv", "/activity/music.json"] {
            let status = stage.get(&cookie, path).status;
            assert_eq!(status == StatusCode::FORBIDDEN, !is_admin, "{} {path}", role.as_str());
        }
    }
}

#[tokio::test]
async fn a_health_page_without_data_says_the_next_step() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    for path in ["/health", "/health/sleep", "/health/load", "/health/drivers", "/health/compare"] {
        let page = text(&stage.get(&cookie, path));
        assert!(page.contains("The next step") && page.contains("tollgate doctor"), "{path}");
        let twin = text(&stage.get(&cookie, &format!("{path}.json")));
        assert!(twin.contains("tollgate doctor"), "{twin}");
    }
    let wrong = [
        "/health/hrv?span=fortnight",
        "/health/compare?lag=-1",
        "/health/compare?first_from=2026-02-30&first_to=2026-03-01",
        "/health/compare?first_from=2026-02-01&first_to=2026-03-01&second_from=2026-01-01&second_to=2026-02-01",
    ];
    for path in wrong {
        assert_eq!(stage.get(&cookie, path).status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
    }
}

#[tokio::test]
async fn a_form_needs_its_token_and_its_origin() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let jar = format!("tollgate_session={cookie}");
    let token = csrf::token(&cookie);
    let good = format!("csrf={token}&name=eve&role=viewer");
    let own = ("origin", ORIGIN);
    let cases = [
        (vec![own], "name=eve&role=viewer".to_owned(), StatusCode::FORBIDDEN),
        (vec![own], "csrf=0&name=eve&role=viewer".to_owned(), StatusCode::FORBIDDEN),
        (vec![("origin", "http://evil.example")], good.clone(), StatusCode::FORBIDDEN),
        (vec![("origin", "null")], good.clone(), StatusCode::FORBIDDEN),
        (vec![], good.clone(), StatusCode::FORBIDDEN),
        (vec![own, ("sec-fetch-site", "cross-site")], good.clone(), StatusCode::FORBIDDEN),
        (vec![own], good, StatusCode::SEE_OTHER),
    ];
    for (mut headers, body, expected) in cases {
        headers.extend([("host", HOST), ("cookie", jar.as_str())]);
        let response = stage.send(Method::POST, "/people", &headers, &body);
        assert_eq!(response.status, expected, "{headers:?} {body}");
    }
    assert_eq!(stage.registry.people().unwrap().len(), 2);
}

#[tokio::test]
async fn every_response_forbids_inline_script_and_frames() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    for path in [
        "/",
        "/sign-in",
        "/your-sign-in",
        "/nothing",
        "/audit.json",
        crate::assets::STYLE_PATH.as_str(),
    ] {
        let response = stage.get(&cookie, path);
        let policy = response.headers.get("content-security-policy").unwrap().to_str().unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers.get("x-content-type-options").unwrap(), "nosniff");
    }
    for path in ["/", "/audit", "/grants", "/servers", "/policies", "/people", "/approvals"] {
        let page = text(&stage.get(&cookie, path));
        for inline in ["<script>", " onclick=", " style=", "javascript:"] {
            assert!(!page.contains(inline), "{path} has {inline}");
        }
    }
}

#[tokio::test]
async fn hostile_text_stays_text() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let now_us = stage.now_us();
    let policy = json!({ "version": "1", "default": "deny", "tools": { "x": { "action": "deny", "reason": attack } } });
    let files = stage.registry.snapshot().map(|_| Settings::default().names()).unwrap();
    stage
        .registry
        .put_policy("p", &policy.to_string(), policy::Format::Json, attack, &files, now_us)
        .unwrap();
    for path in ["/policies/p", &format!("/audit?text={}", crate::page::segment(attack))] {
        let page = text(&stage.get(&cookie, path));
        assert!(page.contains("alert(1)"), "the text is shown: {path}");
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{path}");
    }
    let answer = text(&stage.get(&cookie, &format!("/grants/{}", crate::page::segment(attack))));
    assert!(!answer.contains("<script>alert") && !answer.contains("<img"), "{answer}");
    // A direction character would show another text than the one that was sent.
    let answer = text(&stage.get(&cookie, "/grants/a%E2%80%AEb"));
    assert!(answer.contains("a⟨U+202E⟩b") && !answer.contains('\u{202e}'), "{answer}");
}

#[tokio::test]
async fn a_token_is_shown_once_and_never_again() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let now_us = stage.now_us();
    let target = store::registry::Target::Builtin { service: "demo".to_owned() };
    let new = store::registry::NewServer {
        name: "notes".to_owned(),
        target,
        options: store::registry::ServerOptions::default(),
    };
    let files = Settings::default().names();
    stage.registry.add_server(&new, &files, now_us).unwrap();
    let created = stage.post(&cookie, "/grants", "label=alice&server=notes&expires_days=7");
    assert_eq!(created.status, StatusCode::OK, "{}", text(&created));
    let page = text(&created);
    let at = page.find("tg_").unwrap();
    let token = page.get(at..at + 52).unwrap().to_owned();
    assert!(store::registry::has_token(&token), "{token}");
    for path in ["/grants", "/grants/alice", "/audit", "/grants.json", "/grants/alice.json"] {
        assert!(!text(&stage.get(&cookie, path)).contains(&token), "{path}");
    }
    let again = NewGrant {
        label: "alice".to_owned(),
        server_access: vec![ServerAccess { server: "notes".to_owned(), policy: None }],
        expires_at_us: None,
    };
    assert!(stage.registry.create_grant(&again, &files, now_us).is_err(), "it exists");
    assert_eq!(stage.post(&cookie, "/grants/alice/revoke", "").status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn signing_out_ends_the_session_and_everywhere_ends_all() {
    let stage = Stage::new();
    let (one, two, three) =
        (stage.sign_in(Role::Admin), stage.sign_in(Role::Admin), stage.sign_in(Role::Admin));
    assert_eq!(stage.post(&one, "/sign-out", "").status, StatusCode::SEE_OTHER);
    assert_eq!(stage.get(&one, "/").status, StatusCode::UNAUTHORIZED);
    assert_eq!(stage.get(&two, "/").status, StatusCode::OK);
    assert_eq!(stage.post(&two, "/sign-out-everywhere", "").status, StatusCode::SEE_OTHER);
    assert_eq!(stage.get(&three, "/").status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn nothing_is_changed_that_the_audit_log_cannot_record() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let audit = stage.folder.path().join("home/audit");
    std::fs::remove_dir_all(&audit).unwrap();
    std::fs::write(&audit, "not a folder").unwrap();
    let answer = stage.post(&cookie, "/people", "name=eve&role=admin");
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text(&answer).contains("nothing was changed"), "{}", text(&answer));
    assert_eq!(stage.registry.people().unwrap().len(), 1);
}

#[tokio::test]
async fn every_page_has_a_json_twin() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    for route in ROUTES.iter().filter(|route| route.has_twin() && route.method == Method::GET) {
        if route.path.contains('{') {
            continue;
        }
        let path = if route.path == "/" { "/index" } else { route.path };
        let response = stage.get(&cookie, &format!("{path}.json"));
        assert_eq!(response.status, StatusCode::OK, "{path}");
        let value: Value = serde_json::from_str(&text(&response)).unwrap();
        assert!(value.is_object(), "{path}");
    }
    let document: Value =
        serde_json::from_str(&text(&stage.get(&cookie, "/openapi.json"))).unwrap();
    assert!(document["paths"]["/approvals/{id}.json"]["get"].is_object(), "{document}");
}

#[tokio::test]
async fn the_events_of_a_removed_person_end() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Viewer);
    let Body::Stream(mut events) = stage.get(&cookie, "/events").body else {
        panic!("events are a stream");
    };
    let first = events.recv().await.unwrap();
    assert!(first.starts_with(b"data: {\"approvals\":0"), "{first:?}");
    stage.registry.remove_person("a-viewer", stage.now_us()).unwrap();
    let rest = async { while events.recv().await.is_some() {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), rest).await.unwrap();
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_time_exported_and_verified() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let seqs = |path: &str| -> usize {
        let page: Value = serde_json::from_str(&text(&stage.get(&cookie, path))).unwrap();
        page["entries"].as_array().unwrap().len()
    };
    assert_eq!(seqs("/audit.json"), 1, "the sign-in");
    assert_eq!(seqs("/audit.json?since=2000-01-01T00:00"), 1);
    assert_eq!(seqs("/audit.json?until=2000-01-01T00:00"), 0);
    assert_eq!(seqs("/audit.json?after=1"), 1);
    assert_eq!(seqs("/audit.json?after=999"), 0);
    let wrong = stage.get(&cookie, "/audit?since=yesterday");
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);

    let export = stage.get(&cookie, "/audit/export?format=csv&text=signed_in");
    assert_eq!(
        export.headers.get("content-disposition").unwrap(),
        "attachment; filename=\"audit.csv\""
    );
    let Body::Stream(mut parts) = export.body else { panic!("an export is a stream") };
    let mut csv = Vec::new();
    while let Some(part) = parts.recv().await {
        csv.extend_from_slice(&part);
    }
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");

    assert_eq!(stage.post(&cookie, "/audit/verify", "").status, StatusCode::SEE_OTHER);
    let mut state = Value::Null;
    for _ in 0..1_000 {
        let page = text(&stage.get(&cookie, "/audit/verify.json"));
        state = serde_json::from_str::<Value>(&page).unwrap()["state"].clone();
        if state != "running" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(state, "whole");
}
