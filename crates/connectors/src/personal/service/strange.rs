//! Every tool of every service against answers that are sound JSON and not what anybody documented:
//! each is an answer that keeps to its schema, or a problem with a code and a next step.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Config, Fault, Warp, What};
use serde_json::{Value, json};
use store::clock::Clock;

use super::super::stage::{Stage, stranger};
use crate::{Reach, Service, Tool, bilibili, reddit, spotify, steam, youtube};

/// Ways in which a sound answer can be wrong.
const WARPS: [Warp; 7] = [
    Warp::Nulls,
    Warp::Hollow,
    Warp::Texts,
    Warp::Numbers,
    Warp::Swapped,
    Warp::More,
    Warp::Listed,
];

/// Where the sandbox has the hosts of the services.
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
                _ => return None,
            };
            format!("sandbox-{}-{word}", service.to_lowercase())
        }
    })
}

const SERVICES: [&Service; 5] =
    [&steam::SERVICE, &youtube::SERVICE, &bilibili::SERVICE, &spotify::SERVICE, &reddit::SERVICE];

/// The owner, with a login or with what stands for one.
fn owner(service: &'static Service) -> Stage {
    let now_us = Clock::System.now().wall_us;
    let config = match service.name {
        steam::NAME => Config::steam(7, 20, now_us),
        youtube::NAME => Config::youtube(7, 5, now_us),
        bilibili::NAME => Config::bilibili(7, 20, now_us),
        spotify::NAME => Config::spotify(7, 5, now_us),
        _ => Config::reddit(7, 20, now_us),
    };
    let mut stage = stranger(service, config, look);
    let account = service.account.unwrap();
    if account.sign_in.fields().is_empty() {
        return stage.sign_in();
    }
    let ready = stage.sandbox.control().ready();
    let mut settings = stage.desk.settings.of(service).unwrap().clone();
    for field in account.sign_in.fields().iter().chain(account.values) {
        let value = ready["values"][field.variable].as_str().unwrap();
        settings.values.insert(field.name, store::secret::Secret::new(value));
    }
    stage.desk.settings.put(service, settings);
    stage
}

fn status(code: u16, retry_after: Option<&str>, body: Option<&str>) -> What {
    let (retry_after, body) = (retry_after.map(str::to_owned), body.map(str::to_owned));
    What::Status { code, retry_after, reset: None, body }
}

/// Where the API of a service is in the sandbox; its token endpoint has tests of its own.
fn api(service: &Service) -> &'static str {
    match service.name {
        spotify::NAME => "/api",
        youtube::NAME => "/www",
        reddit::NAME => "/oauth",
        _ => "",
    }
}

/// Tools that ask the API of their service.
fn asking(service: &'static Service) -> impl Iterator<Item = &'static str> {
    let is_data = |tool: &&Tool| {
        let name = tool.name;
        tool.reach == Reach::Outside && !name.ends_with("_oauth") && !name.contains("refresh_")
    };
    service.tools.iter().filter(is_data).map(|tool| tool.name)
}

#[tokio::test]
async fn bad_answers_are_the_same_problem_in_every_tool() {
    crate::sync::all(SERVICES.into_iter().map(bad_answers)).await;
}

async fn bad_answers(service: &'static Service) {
    for (what, expected) in [
        (status(500, None, None), "upstream_error"),
        (status(503, Some("0"), Some("<html>Busy</html>")), "upstream_error"),
        (status(200, None, Some("")), "upstream_error"),
        (status(200, None, Some("[]")), "upstream_error"),
        (status(302, None, Some("")), "upstream_error"),
        (What::Html, "upstream_error"),
        (What::Garbage, "upstream_error"),
        (What::Truncate, "upstream_error"),
        (What::HangUp, "upstream_error"),
        (status(429, None, None), "rate_limited"),
        (status(429, Some("120"), Some("<html>Slow down</html>")), "rate_limited"),
    ] {
        let stage = owner(service);
        let given = arguments(&stage);
        let shown = format!("{} {what:?}", service.name);
        stage.sandbox.control().fault(Fault::on(api(service), what));
        let calls = asking(service).map(|tool| {
            let call = stage.any(tool, given.clone());
            async move { (tool, call.await) }
        });
        for (tool, answer) in crate::sync::all(calls).await {
            // Following need not be answered with anything.
            let says_nothing = shown.contains("code: 200") || shown.ends_with("Truncate");
            let is_fine = tool.contains("follow_") && says_nothing && answer.is_ok();
            assert!(is_fine || answer == Err(expected.to_owned()), "{shown} {tool}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn how_long_to_wait_is_said_where_the_service_says_it() {
    for service in SERVICES {
        let stage = owner(service);
        let tool = asking(service).nth(1).unwrap();
        let given = arguments(&stage);
        stage.sandbox.control().fault(Fault::on(api(service), status(429, Some("120"), None)));
        let problem = stage.problem(tool, given).await;
        assert_eq!(problem["retry_after_seconds"], 120, "{tool}");
        assert_eq!(problem["retryable"], true, "{tool}");
    }
}

#[tokio::test]
async fn a_tool_says_whether_it_asks_anybody() {
    for service in SERVICES {
        let stage = owner(service);
        let given = arguments(&stage);
        // One of these waits for the owner to type a code.
        for tool in service.tools.iter().filter(|tool| !tool.name.ends_with("_oauth")) {
            stage.sandbox.control().reset_counters();
            let _ = stage.any(tool.name, given.clone()).await;
            let asked = stage.sandbox.control().counters().requests;
            // It asks when there is need.
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
        let stage = owner(service);
        let before = stage.desk.accounts.load(service.name).unwrap().unwrap();
        stage.sandbox.control().expire(sandbox::Which::Access);
        let tool = match service.name {
            youtube::NAME => "get_youtube_subscriptions",
            spotify::NAME => "get_user_saved_tracks",
            _ => "get_user_subreddits",
        };
        let calls = (0..10).map(|_| stage.good(tool, json!({})));
        assert_eq!(crate::sync::all(calls).await.len(), 10);
        assert_eq!(stage.sandbox.control().counters().refreshes, 1, "{}", service.name);
        let after = stage.desk.accounts.load(service.name).unwrap().unwrap();
        assert!(after.access != before.access && after.refresh == before.refresh);
    }
}

/// Arguments that every tool of a service finds something by.
fn arguments(stage: &Stage) -> Value {
    let first = |kind: &str, field: &str| {
        let all = stage.sandbox.control().records(kind).unwrap();
        all[0][field].clone()
    };
    match stage.service.name {
        steam::NAME => json!({ "app_id": 200_000, "friend_steamid": first("friend", "steamid") }),
        youtube::NAME => json!({
            "query": "rust", "video_id": first("video", "id"), "channel_id": first("channel", "id"),
        }),
        bilibili::NAME => {
            json!({ "uid": first("following", "mid"), "bvid": first("video", "bvid"), "keyword": "x" })
        }
        spotify::NAME => json!({
            "user_id": "somebody", "ids": "someone", "follow_type": "user",
            "playlist_id": first("playlist", "id"), "authorization_code": "x",
        }),
        _ => json!({ "authorization_code": "x" }),
    }
}

#[tokio::test]
async fn strange_answers_become_answers_or_problems_and_nothing_else() {
    crate::sync::all(SERVICES.into_iter().map(strange_answers)).await;
}

async fn strange_answers(service: &'static Service) {
    for how in WARPS {
        let stage = owner(service);
        let given = arguments(&stage);
        stage.sandbox.control().fault(Fault::on(api(service), What::Warp { how }));
        for tool in asking(service) {
            let answer = stage.any(tool, given.clone()).await;
            // What is only more, or only written otherwise, is understood; other users are not for
            // an application in Development Mode.
            let is_readable = matches!(how, Warp::More | Warp::Texts | Warp::Numbers);
            let is_refused = ["get_user_profile", "get_user_playlists"].contains(&tool);
            assert!(!is_readable || is_refused || answer.is_ok(), "{tool} {how:?}: {answer:?}");
        }
    }
}
