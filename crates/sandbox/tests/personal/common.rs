//! Tests for all five services: faults, reproducible bytes, manual edits, advancing time.

use sandbox::{Fault, FaultKind, Service};
use serde_json::{Value, json};

use crate::service_test::{DAY_US, ServiceTest, of, start};
use crate::wire::{send, try_send};

/// A path with a list, its record kind, and the pointer to the list.
pub(crate) fn list_of(test: &ServiceTest, name: &str) -> (String, &'static str, &'static str) {
    match name {
        "spotify" => ("/api/v1/me/tracks?limit=50".to_owned(), "saved_track", "/items"),
        "steam" => {
            let id = &test.records("player")[0]["steamid"];
            let id = id.as_str().unwrap();
            (
                format!("/ISteamUser/GetFriendList/v0001/?steamid={id}"),
                "friend",
                "/friendslist/friends",
            )
        }
        "reddit" => {
            let me = test.json("/oauth/api/v1/me")["name"].as_str().unwrap().to_owned();
            (format!("/oauth/user/{me}/saved?limit=100"), "saved", "/data/children")
        }
        "youtube" => (
            "/www/youtube/v3/videos?part=snippet&myRating=like&maxResults=50".to_owned(),
            "like",
            "/items",
        ),
        _ => ("/x/v2/history/toview".to_owned(), "toview", "/data/list"),
    }
}

pub(crate) const PERSONAL: &[&str] = &["spotify", "steam", "reddit", "youtube", "bilibili"];

fn error(code: u16) -> FaultKind {
    FaultKind::Status {
        code,
        retry_after: (code == 429).then(|| "7".to_owned()),
        reset: None,
        body: None,
    }
}

#[test]
fn every_service_supports_every_fault_in_its_own_error_format() {
    for name in PERSONAL {
        let test = start(name);
        let (path, ..) = list_of(&test, name);
        let control = test.running.control();
        for code in [403, 404, 429, 500] {
            control.fault(Fault::on(path.split('?').next().unwrap(), error(code)).next(1));
            let got = test.get(&path);
            assert_eq!(got.status, code, "{name}");
            assert_eq!(got.header("retry-after"), (code == 429).then_some("7"), "{name}");
            let form = match *name {
                "spotify" => got.json()["error"]["status"].clone(),
                "youtube" => got.json()["error"]["code"].clone(),
                "reddit" => got.json()["error"].clone(),
                "bilibili" => json!(-got.json()["code"].as_i64().unwrap()),
                _ => json!(u16::from(got.text().starts_with("<html>")) * code),
            };
            assert_eq!(form, json!(code), "{name}");
        }
        control.fault(Fault::on("/", FaultKind::Html).next(1));
        let page = test.get(&path);
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html")), "{name}");
        control.fault(Fault::on("/", FaultKind::Truncate).next(1));
        let half = test.get(&path);
        assert!(serde_json::from_slice::<Value>(&half.body).is_err(), "{name}");
        control.fault(Fault::on("/", FaultKind::Pad { bytes: 3_000_000 }).next(1));
        let huge = test.get(&path);
        assert!(huge.body.len() > 3_000_000 && huge.json() == test.json(&path), "{name}");
        control.fault(Fault::on("/", FaultKind::HangUp).next(1));
        assert!(try_send(test.running.url(), "GET", &path, &[], "").is_none(), "{name}");
        assert_eq!(test.get(&path).status, 200, "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for name in PERSONAL {
        let text = |test: &ServiceTest| {
            let (path, ..) = list_of(test, name);
            test.get(&path).text().replace(test.running.url(), "")
        };
        let first = text(&start(name));
        assert_eq!(first, text(&start(name)), "{name}");
        let config =
            sandbox::Config::of(Service::named(name).unwrap(), 43, 90, crate::service_test::NOW_US);
        let other = sandbox::Sandbox::start(config).unwrap();
        let kind = list_of(&start(name), name).1;
        let (these, others) = (start(name).records(kind), other.control().records(kind).unwrap());
        assert_ne!(these, others, "{name}");
    }
}

#[test]
fn a_list_can_be_cleared_and_filled_manually() {
    for name in PERSONAL {
        let test = start(name);
        let (path, kind, place) = list_of(&test, name);
        let length = || test.json(&path).pointer(place).unwrap().as_array().unwrap().len();
        assert!(length() > 20, "{name}");
        let control = test.running.control();
        let added = control.add(kind, &json!({ "note": "by hand" })).unwrap();
        assert_eq!(control.records(kind).unwrap().last(), Some(&added), "{name}");
        let gone =
            send(test.running.url(), "DELETE", &format!("/_sandbox/records/{kind}"), &[], "");
        assert_eq!((gone.status, length()), (204, 0), "{name}");
        control.add(kind, &added).unwrap();
        assert_eq!(length(), 1, "{name}");
        assert!(control.records("nonsense").is_err());
        assert!(control.remove(kind, "nonsense").is_err());
    }
}

#[test]
fn advancing_days_adds_records() {
    for (name, kind) in [
        ("spotify", "play"),
        ("spotify", "saved_track"),
        ("reddit", "comment"),
        ("youtube", "like"),
        ("bilibili", "history"),
    ] {
        let test = start(name);
        let before = test.records(kind);
        test.running.control().advance(20 * DAY_US);
        let after = test.records(kind);
        let new = after.iter().filter(|record| !before.contains(record)).count();
        let kept = after.iter().filter(|record| before.contains(record)).count();
        assert!(new > 2 && kept > 20, "{name} {kind}: {new} new, {kept} kept");
    }
    let steam = start("steam");
    let minutes = || -> i64 {
        steam.records("game").iter().filter_map(|game| game["playtime_forever"].as_i64()).sum()
    };
    let before = minutes();
    steam.running.control().advance(20 * DAY_US);
    assert!(minutes() > before);
}

#[test]
fn a_next_page_can_repeat_forever() {
    for (name, path, next, again) in [
        ("spotify", "/api/v1/me/tracks", "/next", "offset=20&limit=20"),
        ("reddit", "/oauth/subreddits/mine/subscriber", "/data/after", "after="),
        (
            "youtube",
            "/www/youtube/v3/subscriptions?part=id&mine=true",
            "/nextPageToken",
            "pageToken=",
        ),
        ("bilibili", "/x/web-interface/history/cursor", "/data/cursor/view_at", "view_at="),
    ] {
        let test = start(name);
        let said = |body: &Value| match body.pointer(next).unwrap() {
            Value::String(value) => value.clone(),
            other => other.to_string(),
        };
        let first = said(&test.json(path));
        let mark = if path.contains('?') { '&' } else { '?' };
        let second = match name {
            "spotify" => format!("{path}?{again}"),
            _ => format!("{path}{mark}{again}{first}"),
        };
        let moved = test.json(&second);
        assert_ne!(said(&moved), first, "{name}");
        test.running.control().fault(Fault::on("/", FaultKind::RepeatToken));
        assert!(said(&test.json(&second)).ends_with(&first), "{name}");
    }
}

#[test]
fn unknown_settings_are_refused() {
    for name in PERSONAL {
        let test = start(name);
        let control = test.running.control();
        assert!(control.set(&json!({ "colour": "red" })).is_err(), "{name}");
        assert!(control.set(&json!({ "limits": "many" })).is_err(), "{name}");
        control.set(&json!({ "limits": [[1, 60]] })).unwrap();
        let (path, ..) = list_of(&test, name);
        let second = test.get(&path);
        let refused = match *name {
            "bilibili" => {
                second.json()["code"] == json!(-799)
                    || test.get(&path).json()["code"] == json!(-799)
            }
            _ => second.status == 429 || test.get(&path).status == 429,
        };
        assert!(refused, "{name}");
        control.set(&json!({ "limits": null })).unwrap();
        assert_eq!(test.get(&path).status, 200, "{name}");
    }
}

#[test]
fn ready_lists_the_hosts_and_credentials() {
    for (name, host, value) in [
        ("spotify", "api.spotify.com", ""),
        ("steam", "api.steampowered.com", "STEAM_USER_ID"),
        ("reddit", "oauth.reddit.com", ""),
        ("youtube", "oauth2.googleapis.com", "YOUTUBE_API_KEY"),
        ("bilibili", "api.bilibili.com", "BILIBILI_SESSDATA"),
    ] {
        let test = of(Service::named(name).unwrap());
        let ready = test.running.control().ready();
        assert!(ready["hosts"][host].as_str().unwrap().starts_with(test.running.url()), "{name}");
        assert_eq!(ready["values"][value].is_string(), !value.is_empty(), "{name}");
        assert_eq!(ready["client_id"].is_string(), ready["tokens"].is_object(), "{name}");
    }
}
