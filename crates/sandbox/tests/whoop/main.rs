//! The stand-in for WHOOP through a real socket.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod client;
mod control;
mod faults;

use client::{Got, get, send, start, token};
use sandbox::services::whoop;
use sandbox::{Config, Limit, Sandbox, Service, StartError};
use serde_json::{Value, json};

const V2: &str = "/developer/v2";

/// All records of a collection, page by page.
fn read_all(url: &str, bearer: &str, path: &str, query: &str) -> Vec<Value> {
    let mut records = Vec::new();
    let mut token = String::new();
    loop {
        let next = if token.is_empty() { String::new() } else { format!("&nextToken={token}") };
        let got = get(url, &format!("{V2}/{path}?limit=25{query}{next}"), bearer);
        assert_eq!(got.status, 200, "{}", got.text());
        let page = got.json();
        records.extend(page["records"].as_array().unwrap().clone());
        match page["next_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return records,
        }
    }
}

#[test]
fn pages_contain_every_record_once() {
    let running = start(|settings| settings.limits.clear());
    let bearer = token(&running);
    for (path, kind, key) in [
        ("cycle", "cycle", "id"),
        ("activity/sleep", "sleep", "id"),
        ("recovery", "recovery", "sleep_id"),
        ("activity/workout", "workout", "id"),
    ] {
        let mut known = running.control().records(kind).unwrap();
        known.reverse();
        let ids = |list: &[Value]| list.iter().map(|r| r[key].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&read_all(running.url(), &bearer, path, "")), ids(&known), "{path}");
        assert!(known.len() > 30, "{path}: {}", known.len());
    }
}

#[test]
fn a_window_includes_overlapping_records() {
    let running = start(|settings| settings.limits.clear());
    let bearer = token(&running);
    let cycles = running.control().records("cycle").unwrap();
    let [one, two] = [&cycles[40], &cycles[41]];
    let query = format!("&start={}&end={}", at(one, "start"), at(two, "start"));
    let found = read_all(running.url(), &bearer, "cycle", &query);
    // The previous one ended exactly at the start of the window, which is inclusive.
    let ids: Vec<&Value> = found.iter().map(|cycle| &cycle["id"]).collect();
    assert_eq!(ids, [&one["id"], &cycles[39]["id"]]);
    let offset = at(one, "start").replace('Z', "%2B00:00");
    let same = read_all(running.url(), &bearer, "cycle", &format!("&start={offset}"));
    assert_eq!(same.len(), cycles.len() - 39);
}

fn at(record: &Value, name: &str) -> String {
    record[name].as_str().unwrap().to_owned()
}

#[test]
fn single_records_are_found_by_their_id_and_by_their_cycle() {
    let running = start(|_| ());
    let bearer = token(&running);
    let recovery = running.control().records("recovery").unwrap()[5].clone();
    let (cycle, sleep) = (&recovery["cycle_id"], at(&recovery, "sleep_id"));
    let fetch = |path: String| get(running.url(), &format!("{V2}/{path}"), &bearer);
    assert_eq!(fetch(format!("cycle/{cycle}/recovery")).json(), recovery);
    let night = fetch(format!("cycle/{cycle}/sleep")).json();
    assert_eq!(night["id"], sleep.as_str());
    assert_eq!(fetch(format!("activity/sleep/{sleep}")).json(), night);
    assert_eq!(fetch(format!("cycle/{cycle}")).json()["id"], *cycle);
    let workout = running.control().records("workout").unwrap()[3].clone();
    assert_eq!(fetch(format!("activity/workout/{}", at(&workout, "id"))).json(), workout);
    for path in ["user/profile/basic", "user/measurement/body"] {
        assert_eq!(fetch(path.to_owned()).status, 200, "{path}");
    }
}

#[test]
fn a_v1_id_maps_to_the_new_one() {
    let settings = whoop::WhoopSettings { limits: Vec::new(), ..whoop::WhoopSettings::default() };
    let service = Service::Whoop(settings);
    // 1 June 2025, when records still had both.
    let config = Config { service, ..Config::whoop(8, 20, 1_748_779_200_000_000) };
    let running = Sandbox::start(config).unwrap();
    let bearer = token(&running);
    let sleep = running.control().records("sleep").unwrap()[2].clone();
    let got =
        get(running.url(), &format!("/developer/v1/activity-mapping/{}", sleep["v1_id"]), &bearer);
    assert_eq!(got.json(), json!({ "v2_activity_id": sleep["id"] }));
    assert_eq!(get(running.url(), "/developer/v1/activity-mapping/1", &bearer).status, 404);
}

#[test]
fn errors_have_the_status_of_the_service() {
    let running = start(|_| ());
    let bearer = token(&running);
    let missing = "00000000-0000-4000-8000-000000000000";
    for (path, status) in [
        ("/developer/v2/cycle?start=2026-01-01", 404),
        ("/developer/v2/cycle?end=2026-01-01T00:00:00", 404),
        ("/developer/v2/cycle?start=2026-01-01T00:00:00+02:00", 404),
        ("/developer/v2/cycle?limit=26", 400),
        ("/developer/v2/cycle?limit=0", 400),
        ("/developer/v2/cycle?limit=ten", 400),
        ("/developer/v2/cycle?nextToken=made-up", 400),
        ("/developer/v2/cycle/abc", 400),
        ("/developer/v2/cycle/1", 404),
        ("/developer/v2/cycle/1/recovery", 404),
        ("/developer/v2/activity/sleep/12", 400),
        (&format!("/developer/v2/activity/sleep/{missing}"), 404),
        (&format!("/developer/v2/activity/workout/{missing}"), 404),
        ("/developer/v2/recovery/1", 404),
        ("/v2/cycle", 404),
    ] {
        assert_eq!(get(running.url(), path, &bearer).status, status, "{path}");
    }
    assert_eq!(get(running.url(), "/developer/v2/cycle", "made-up").status, 401);
    assert_eq!(send(running.url(), "GET", "/developer/v2/cycle", &[], "").status, 401);
    let narrow = running.control().tokens_for(&["read:sleep"]);
    let narrow = narrow["access_token"].as_str().unwrap();
    assert_eq!(get(running.url(), "/developer/v2/cycle", narrow).status, 401);
    assert_eq!(get(running.url(), "/developer/v2/activity/sleep", narrow).status, 200);
}

#[test]
fn the_default_limit_is_ten_and_a_wrong_token_name_is_ignored() {
    let running = start(|_| ());
    let bearer = token(&running);
    let first = get(running.url(), "/developer/v2/cycle", &bearer).json();
    assert_eq!(first["records"].as_array().unwrap().len(), 10);
    let next = first["next_token"].as_str().unwrap();
    let wrong = get(running.url(), &format!("/developer/v2/cycle?next_token={next}"), &bearer);
    assert_eq!(wrong.json()["records"], first["records"]);
}

#[test]
fn limits_are_reported_and_enforced() {
    let two = vec![Limit { requests: 2, window_s: 60 }, Limit { requests: 50, window_s: 86_400 }];
    let running = start(|settings| settings.limits = two);
    let bearer = token(&running);
    let ask = || get(running.url(), "/developer/v2/user/profile/basic", &bearer);
    let first = ask();
    assert_eq!(first.header("x-ratelimit-limit"), Some("2, 2;window=60, 50;window=86400"));
    assert_eq!(first.header("x-ratelimit-remaining"), Some("1"));
    assert_eq!(first.header("x-ratelimit-reset"), Some("60"));
    assert_eq!(ask().status, 200);
    let third = ask();
    assert_eq!((third.status, third.header("retry-after")), (429, None));
    running.control().advance(60_000_000);
    assert_eq!(ask().status, 200);
    let counters = running.control().counters();
    assert_eq!((counters.rate_limited, counters.requests), (1, 4));
    running.control().set(&json!({ "limits": null })).unwrap();
    assert_eq!(ask().header("x-ratelimit-limit"), None);
}

#[test]
fn a_sign_in_works_with_page_code_and_refresh() {
    let running = start(|_| ());
    let ready = running.control().ready();
    let (id, secret) = (at(&ready, "client_id"), at(&ready, "client_secret"));
    let back = "http://127.0.0.1:8765/callback";
    let page = send(
        running.url(),
        "GET",
        &format!(
            "/oauth/oauth2/auth?response_type=code&client_id={id}&redirect_uri={back}\
             &scope=read:cycles%20offline&state=abcdefghij"
        ),
        &[],
        "",
    );
    assert_eq!(page.status, 302);
    let to = url::Url::parse(page.header("location").unwrap()).unwrap();
    let pair = |name: &str| to.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    assert_eq!(pair("state"), "abcdefghij");
    let code = pair("code");
    let post = |form: &str| {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let form = format!("{form}&client_id={id}&client_secret={secret}");
        send(running.url(), "POST", "/oauth/oauth2/token", &[kind], &form)
    };
    let first =
        post(&format!("grant_type=authorization_code&code={code}&redirect_uri={back}")).json();
    assert_eq!(first["expires_in"], 3_600);
    let refresh = |token: &Value| {
        post(&format!(
            "grant_type=refresh_token&scope=offline&refresh_token={}",
            token.as_str().unwrap()
        ))
    };
    let second = refresh(&first["refresh_token"]).json();
    let old = get(running.url(), "/developer/v2/cycle", first["access_token"].as_str().unwrap());
    let new = get(running.url(), "/developer/v2/cycle", second["access_token"].as_str().unwrap());
    assert_eq!((old.status, new.status), (401, 200));
    let again = refresh(&first["refresh_token"]);
    assert_eq!((again.status, again.json()["error"].clone()), (400, json!("invalid_grant")));
    let counters = running.control().counters();
    assert_eq!((counters.refreshes, counters.refreshes_granted), (2, 1));
    assert_eq!(counters.unauthorized, 1);
}

#[test]
fn revoked_access_is_invalid() {
    let running = start(|_| ());
    let bearer = token(&running);
    let header = ("authorization", format!("Bearer {bearer}"));
    let gone: Got =
        send(running.url(), "DELETE", "/developer/v2/user/access", &[(header.0, &header.1)], "");
    assert_eq!((gone.status, gone.body.len()), (204, 0));
    assert_eq!(get(running.url(), "/developer/v2/cycle", &bearer).status, 401);
}

#[test]
fn a_sleep_stream_has_the_requested_types() {
    let running = start(|_| ());
    let bearer = token(&running);
    let sleep = running.control().records("sleep").unwrap()[4].clone();
    let path = format!("{V2}/activity/sleep/{}/stream", at(&sleep, "id"));
    let all = get(running.url(), &path, &bearer).json();
    let points = all["stream"].as_array().unwrap();
    assert!(points.len() > 1_000, "{}", points.len());
    assert_eq!(points[0].as_object().unwrap().len(), 7);
    assert_eq!(points[0]["timestamp"], sleep["start"]);
    let some = get(running.url(), &format!("{path}?types=hr&types=skin_temp"), &bearer).json();
    let keys: Vec<&String> = some["stream"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["timestamp", "hr", "skin_temp"]);
    assert_eq!(get(running.url(), &format!("{path}?types=mood"), &bearer).status, 400);
    running.control().set(&json!({ "stream": false })).unwrap();
    let closed = get(running.url(), &path, &bearer);
    assert_eq!((closed.status, closed.json()), (403, json!({ "error": "deactivated_user" })));
}

#[test]
fn a_sandbox_listens_on_loopback_only_and_stops_when_dropped() {
    let mut config = Config::whoop(1, 3, client::NOW_US);
    config.bind = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(Sandbox::start(config), Err(StartError::NotLoopback(_))));
    let running = start(|_| ());
    let address = running.url().strip_prefix("http://").unwrap().to_owned();
    drop(running);
    assert!(std::net::TcpStream::connect(address).is_err());
}
