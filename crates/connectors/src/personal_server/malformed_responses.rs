//! Every tool of every service against valid JSON responses of an undocumented shape: the result
//! matches its schema, or is a problem with a code and a hint.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Config, Fault, FaultKind, Warp};
use serde_json::{Value, json};
use store::clock::Clock;

use crate::testing::{Fixture, signed_out_fixture};
use crate::{Reach, Service, Tool, bilibili, reddit, spotify, steam, youtube};

/// Kinds of odd responses.
const WARPS: [Warp; 7] = [
    Warp::Nulls,
    Warp::Hollow,
    Warp::Texts,
    Warp::Numbers,
    Warp::Swapped,
    Warp::More,
    Warp::Listed,
];

/// The stand-ins' URLs by host.
fn look(name: &str, url: &str) -> Option<String> {
    Some(match name {
        "STEAM_API_BASE_URL" | "BILIBILI_API_BASE_URL" => url.to_owned(),
        "YOUTUBE_API_BASE_URL" | "REDDIT_OAUTH_BASE_URL" => format!("{url}/www"),
        "YOUTUBE_OAUTH_BASE_URL" => format!("{url}/oauth2"),
        "SPOTIFY_API_BASE_URL" => format!("{url}/api"),
        "SPOTIFY_OAUTH_BASE_URL" => format!("{url}/accounts"),
        "REDDIT_API_BASE_URL" => format!("{url}/oauth"),
        _ => {
            let (service, rest) = name.split_once('_')?;
            let word = match rest {
                "CLIENT_ID" => "client",
                "CLIENT_SECRET" => "secret",
                "API_BASE_URL" | "OAUTH_BASE_URL" => return Some(url.to_owned()),
                _ => return None,
            };
            format!("sandbox-{}-{word}", service.to_lowercase())
        }
    })
}

fn services() -> impl Iterator<Item = &'static Service> {
    super::MEMBERS.iter().map(|member| member.connector.service)
}

fn tools(service: &Service) -> &'static [Tool] {
    crate::connector(service.name).unwrap().tools
}

/// The owner, with a login or its replacement.
fn owner(service: &'static Service) -> Fixture {
    let now_us = Clock::System.now().wall_us;
    // Five days of these two have enough records.
    let days = if [youtube::NAME, spotify::NAME].contains(&service.name) { 5 } else { 20 };
    let config = Config::of(sandbox::Service::named(service.name).unwrap(), 7, days, now_us);
    let mut fixture = signed_out_fixture(service, config, look);
    let account = service.account.unwrap();
    if account.sign_in.fields().is_empty() {
        return fixture.sign_in();
    }
    let ready = fixture.sandbox.control().ready();
    let mut settings = fixture.ctx.settings.of(service).unwrap().clone();
    for field in account.sign_in.fields().iter().chain(account.values) {
        let value = ready["values"][field.variable].as_str().unwrap();
        settings.values.insert(field.name, store::secret::Secret::new(value));
    }
    fixture.ctx.settings.put(service, settings);
    fixture
}

fn status(code: u16, retry_after: Option<&str>, body: Option<&str>) -> FaultKind {
    let (retry_after, body) = (retry_after.map(str::to_owned), body.map(str::to_owned));
    FaultKind::Status { code, retry_after, reset: None, body }
}

/// The API path of a service in the sandbox; its token endpoint has its own tests.
fn api(service: &Service) -> &'static str {
    match service.name {
        spotify::NAME => "/api",
        youtube::NAME => "/www",
        reddit::NAME => "/oauth",
        _ => "",
    }
}

/// Tools that send API requests.
fn asking(service: &'static Service) -> impl Iterator<Item = &'static str> {
    let is_data = |tool: &&Tool| {
        let name = tool.name;
        tool.reach == Reach::Outside && !name.ends_with("_oauth") && !name.contains("refresh_")
    };
    tools(service).iter().filter(is_data).map(|tool| tool.name)
}

#[tokio::test]
async fn failed_responses_are_the_same_problem_in_every_tool() {
    crate::sync::all(services().map(failed_responses)).await;
}

async fn failed_responses(service: &'static Service) {
    for (what, expected) in [
        (status(500, None, None), "upstream_error"),
        (status(503, Some("0"), Some("<html>Busy</html>")), "upstream_error"),
        (status(200, None, Some("")), "upstream_error"),
        (status(200, None, Some("[]")), "upstream_error"),
        (status(302, None, Some("")), "upstream_error"),
        (FaultKind::Html, "upstream_error"),
        (FaultKind::Garbage, "upstream_error"),
        (FaultKind::Truncate, "upstream_error"),
        (FaultKind::HangUp, "upstream_error"),
        (status(429, None, None), "rate_limited"),
        (status(429, Some("120"), Some("<html>Slow down</html>")), "rate_limited"),
    ] {
        let fixture = owner(service);
        let given = arguments(&fixture);
        let shown = format!("{} {what:?}", service.name);
        fixture.sandbox.control().fault(Fault::on(api(service), what));
        let calls = asking(service).map(|tool| {
            let call = fixture.any(tool, given.clone());
            async move { (tool, call.await) }
        });
        for (tool, answer) in crate::sync::all(calls).await {
            // The response to following may be empty.
            let says_nothing = shown.contains("code: 200") || shown.ends_with("Truncate");
            let is_fine = tool.contains("follow_") && says_nothing && answer.is_ok();
            assert!(is_fine || answer == Err(expected.to_owned()), "{shown} {tool}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_retry_after_header_is_passed_on() {
    for service in services() {
        let fixture = owner(service);
        let tool = asking(service).take(2).last().unwrap();
        let given = arguments(&fixture);
        fixture.sandbox.control().fault(Fault::on(api(service), status(429, Some("120"), None)));
        let problem = fixture.problem(tool, given).await;
        assert_eq!(problem["retry_after_seconds"], 120, "{tool}");
        assert_eq!(problem["retryable"], true, "{tool}");
    }
}

#[tokio::test]
async fn only_tools_with_outside_reach_send_requests() {
    for service in services() {
        let fixture = owner(service);
        let given = arguments(&fixture);
        // One of these waits for the owner to type a code.
        for tool in tools(service).iter().filter(|tool| !tool.name.ends_with("_oauth")) {
            fixture.sandbox.control().reset_counters();
            let _ = fixture.any(tool.name, given.clone()).await;
            let asked = fixture.sandbox.control().counters().requests;
            // It sends a request only if needed.
            let is_quiet = tool.name.starts_with("auto_refresh");
            match tool.reach {
                Reach::Here => assert_eq!(asked, 0, "{}", tool.name),
                Reach::Outside => assert!(asked > 0 || is_quiet, "{}", tool.name),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_calls_with_an_old_token_make_one_refresh_and_keep_the_old_refresh_token() {
    for service in [&youtube::SERVICE, &spotify::SERVICE, &reddit::SERVICE] {
        let fixture = owner(service);
        let before = fixture.ctx.accounts.load(service.name).unwrap().unwrap();
        fixture.sandbox.control().expire(sandbox::TokenKind::Access);
        let tool = match service.name {
            youtube::NAME => "get_youtube_subscriptions",
            spotify::NAME => "get_user_saved_tracks",
            _ => "get_user_subreddits",
        };
        let calls = (0..10).map(|_| fixture.good(tool, json!({})));
        assert_eq!(crate::sync::all(calls).await.len(), 10);
        assert_eq!(fixture.sandbox.control().counters().refreshes, 1, "{}", service.name);
        let after = fixture.ctx.accounts.load(service.name).unwrap().unwrap();
        assert!(after.access != before.access && after.refresh == before.refresh);
    }
}

/// Valid arguments for every tool of a service.
fn arguments(fixture: &Fixture) -> Value {
    let first = |kind: &str, field: &str| {
        let all = fixture.sandbox.control().records(kind).unwrap();
        all[0][field].clone()
    };
    match fixture.service.name {
        steam::NAME => json!({ "app_id": 200_000, "friend_steamid": first("friend", "steamid") }),
        youtube::NAME => json!({
            "query": "rust", "video_id": first("video", "id"), "channel_id": first("channel", "id"),
        }),
        bilibili::NAME => {
            json!({ "uid": first("following", "mid"), "bvid": first("video", "bvid"), "keyword": "x" })
        }
        spotify::NAME => json!({
            "user_id": "other-user", "ids": "someone", "follow_type": "user",
            "playlist_id": first("playlist", "id"), "authorization_code": "x",
        }),
        _ => required_arguments(fixture.service),
    }
}

/// Every required argument of the tools of a service, with a value of its type.
fn required_arguments(service: &Service) -> Value {
    let mut arguments = serde_json::Map::new();
    for schema in tools(service).iter().map(Tool::input_schema) {
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            let is_text = schema["properties"][name]["type"] == "string";
            arguments.insert(name.to_owned(), if is_text { json!("x") } else { json!(1) });
        }
    }
    Value::Object(arguments)
}

#[tokio::test]
async fn malformed_responses_become_outputs_or_problems() {
    crate::sync::all(services().map(malformed_responses)).await;
}

async fn malformed_responses(service: &'static Service) {
    for how in WARPS {
        let fixture = owner(service);
        let given = arguments(&fixture);
        fixture.sandbox.control().fault(Fault::on(api(service), FaultKind::Warp { how }));
        for tool in asking(service) {
            let answer = fixture.any(tool, given.clone()).await;
            // Additional or differently written members are understood; other users are refused to
            // an application in Development Mode.
            let is_readable = matches!(how, Warp::More | Warp::Texts | Warp::Numbers);
            let is_refused = ["get_user_profile", "get_user_playlists"].contains(&tool);
            assert!(!is_readable || is_refused || answer.is_ok(), "{tool} {how:?}: {answer:?}");
        }
    }
}
