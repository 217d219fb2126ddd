//! Every tool against the sandbox, good and bad.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashSet;

use sandbox::{Config, Fault, What, Which};
use serde_json::{Value, json};
use store::clock::Clock;
use store::secret::Secret;

use super::{SERVICE, picture, plain};
use crate::personal::stage::{Stage, stranger};

fn nobody() -> Stage {
    let look = |name: &str, url: &str| (name == "BILIBILI_API_BASE_URL").then(|| url.to_owned());
    stranger(&SERVICE, Config::bilibili(7, 30, Clock::System.now().wall_us), look)
}

/// The cookies come from the environment, as people copy them there.
fn stage_with(form: fn(&str) -> String) -> Stage {
    let mut stage = nobody();
    let ready = stage.sandbox.control().ready();
    let mut settings = stage.desk.settings.of(&SERVICE).unwrap().clone();
    for (field, name) in [
        ("SESSDATA", "BILIBILI_SESSDATA"),
        ("bili_jct", "BILIBILI_BILI_JCT"),
        ("buvid3", "BILIBILI_BUVID3"),
    ] {
        let value = form(ready["values"][name].as_str().unwrap());
        settings.values.insert(field, Secret::new(value));
    }
    stage.desk.settings.put(&SERVICE, settings);
    stage
}

fn stage() -> Stage {
    stage_with(str::to_owned)
}

/// A video that everybody may see, and one that nobody may.
fn videos(stage: &Stage) -> (String, String) {
    let all = stage.sandbox.control().records("video").unwrap();
    let id = |is_shown: bool| {
        let found = all.iter().find(|video| (video["state"] == 0) == is_shown).unwrap();
        found["bvid"].as_str().unwrap().to_owned()
    };
    (id(true), id(false))
}

/// Those who upload, by number; every fifth shows nothing.
fn up(stage: &Stage, number: usize) -> i64 {
    let all = stage.sandbox.control().records("following").unwrap();
    let mut mids: Vec<i64> = all.iter().map(|one| one["mid"].as_i64().unwrap()).collect();
    mids.sort_unstable();
    mids[number]
}

const SIGNED: [&str; 2] = ["search_bilibili_videos", "get_bilibili_user_videos"];

#[tokio::test]
async fn every_tool_answers() {
    let stage = stage();
    let (shown, _) = videos(&stage);
    let address = format!("https://www.bilibili.com/video/{shown}/?p=1");
    for (tool, arguments, keys) in [
        ("test_bilibili_credentials", json!({}), &["result"][..]),
        ("get_bilibili_config", json!({}), &["result"]),
        (
            "get_bilibili_user_info",
            json!({ "uid": up(&stage, 1) }),
            &["follower", "following", "note"],
        ),
        (
            "get_my_bilibili_profile",
            json!({}),
            &["uid", "name", "coins", "experience", "official_verify"],
        ),
        (
            "get_bilibili_following_list",
            json!({ "uid": null, "page": "2" }),
            &["total", "next_page"],
        ),
        ("get_bilibili_following_list", json!({ "uid": up(&stage, 1) }), &["following_list"]),
        ("get_bilibili_video_info", json!({ "bvid": shown }), &["title", "owner", "stats", "url"]),
        ("get_bilibili_video_info", json!({ "bvid": address }), &["published_at"]),
        ("get_bilibili_watch_history", json!({ "page": null }), &["watch_history", "total_count"]),
        ("get_bilibili_favorites", json!({ "uid": "null" }), &["favorite_folders", "uid"]),
        ("get_bilibili_toview_list", json!({}), &["toview_videos"]),
    ] {
        let answer = stage.good(tool, arguments).await;
        for key in keys {
            assert!(!answer[*key].is_null(), "{tool}: no {key} in {answer}");
        }
    }
    let own = stage.good("get_my_bilibili_profile", json!({})).await["uid"].clone();
    let me = stage.good("get_bilibili_user_info", json!({ "uid": own })).await;
    assert_eq!((&me["is_complete"], &me["level"]), (&json!(true), &json!(5)));
    let to_view = stage.good("get_bilibili_toview_list", json!({})).await;
    assert_eq!(to_view["total_count"], 34);
    let folders = stage.good("get_bilibili_favorites", json!({})).await;
    assert_eq!(folders["favorite_folders"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn pages_lead_to_the_end_of_a_list() {
    let stage = stage();
    for (tool, key, kind) in [
        ("get_bilibili_watch_history", "watch_history", "history"),
        ("get_bilibili_following_list", "following_list", "following"),
    ] {
        let expected = stage.sandbox.control().records(kind).unwrap().len();
        let (mut page, mut seen) = (json!(1), Vec::new());
        while !page.is_null() {
            let answer = stage.good(tool, json!({ "page": page })).await;
            seen.extend(answer[key].as_array().unwrap().clone());
            page = answer["next_page"].clone();
        }
        assert_eq!(seen.len(), expected, "{tool}");
        let far = stage.good(tool, json!({ "page": 49 })).await;
        assert!(far["next_page"].is_null(), "{tool}");
    }
}

#[tokio::test]
async fn what_was_watched_keeps_its_kind() {
    let stage = stage();
    let kinds: HashSet<String> = stage
        .sandbox
        .control()
        .records("history")
        .unwrap()
        .iter()
        .map(|entry| entry["history"]["business"].as_str().unwrap().to_owned())
        .collect();
    let mut shown = HashSet::new();
    let mut page = json!(1);
    while !page.is_null() {
        let answer = stage.good("get_bilibili_watch_history", json!({ "page": page })).await;
        for entry in answer["watch_history"].as_array().unwrap() {
            shown.insert(entry["type"].as_str().unwrap().to_owned());
            assert!(entry["owner"]["name"].is_string() && entry["viewed_at"].is_string());
            assert!(!entry["title"].as_str().unwrap().contains("<em"), "{entry}");
            assert!(entry["cover"].as_str().unwrap().starts_with("https://"), "{entry}");
            assert!(entry["url"].as_str().unwrap().starts_with("https://"), "{entry}");
        }
        page = answer["next_page"].clone();
    }
    assert_eq!(shown.len(), kinds.len(), "{shown:?} {kinds:?}");
    assert!(!shown.contains("other"));
}

#[tokio::test]
async fn what_needs_a_signature_says_so_and_asks_nothing() {
    let stage = stage();
    stage.sandbox.control().reset_counters();
    let arguments = json!({ "keyword": "rust", "uid": 7, "page": 1, "order": "click" });
    for tool in SIGNED {
        assert_eq!(stage.bad(tool, arguments.clone()).await, "unsupported_upstream", "{tool}");
    }
    assert_eq!(stage.sandbox.control().counters().requests, 0);
    for (tool, arguments) in [
        (SIGNED[0], json!({})),
        (SIGNED[0], json!({ "keyword": "x", "order": "best" })),
        (SIGNED[1], json!({ "uid": "" })),
    ] {
        assert_eq!(stage.bad(tool, arguments).await, "invalid_argument", "{tool}");
    }
}

#[tokio::test]
async fn a_wrong_call_says_what_is_wrong() {
    let stage = stage();
    let (_, hidden) = videos(&stage);
    for (tool, arguments, code) in [
        ("get_bilibili_video_info", json!({}), "invalid_argument"),
        ("get_bilibili_video_info", json!({ "bvid": "../x" }), "invalid_argument"),
        ("get_bilibili_video_info", json!({ "bvid": "BV1&aid=1" }), "invalid_argument"),
        ("get_bilibili_video_info", json!({ "bvid": "BV1none" }), "not_found"),
        ("get_bilibili_video_info", json!({ "bvid": hidden }), "private_profile"),
        ("get_bilibili_user_info", json!({}), "invalid_argument"),
        ("get_bilibili_user_info", json!({ "uid": -4 }), "invalid_argument"),
        ("get_bilibili_following_list", json!({ "page": "many" }), "invalid_argument"),
        ("get_bilibili_following_list", json!({ "uid": 12 }), "not_found"),
        ("get_bilibili_following_list", json!({ "uid": up(&stage, 5) }), "private_profile"),
        (
            "get_bilibili_following_list",
            json!({ "uid": up(&stage, 1), "page": 6 }),
            "restricted_resource",
        ),
    ] {
        assert_eq!(stage.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn codes_and_bad_answers_become_problems() {
    let stage = stage();
    let tools =
        ["test_bilibili_credentials", "get_my_bilibili_profile", "get_bilibili_toview_list"];
    for (risk, code) in
        [(-352, "restricted_resource"), (-412, "rate_limited"), (-799, "rate_limited")]
    {
        stage.set(&json!({ "risk": risk }));
        for tool in tools {
            assert_eq!(stage.bad(tool, json!({})).await, code, "{tool} {risk}");
        }
    }
    stage.set(&json!({ "risk": null }));
    for what in [What::Html, What::Garbage, What::Truncate] {
        stage.sandbox.control().clear_faults();
        stage.sandbox.control().fault(Fault::on("/x/", what));
        for tool in tools {
            assert_eq!(stage.bad(tool, json!({})).await, "upstream_error", "{tool}");
        }
    }
    stage.sandbox.control().clear_faults();
    stage.sandbox.control().expire(Which::All);
    for tool in tools {
        assert_eq!(stage.bad(tool, json!({})).await, "auth_expired", "{tool}");
    }
}

#[tokio::test]
async fn cookies_are_taken_plain_and_escaped() {
    let stage = stage_with(|value| value.replace("%2C", ","));
    stage.good("test_bilibili_credentials", json!({})).await;
}

#[tokio::test]
async fn without_cookies_public_things_answer_and_own_ones_say_what_to_do() {
    let stage = nobody();
    let (shown, _) = videos(&stage);
    stage.good("get_bilibili_video_info", json!({ "bvid": shown })).await;
    stage.good("get_bilibili_user_info", json!({ "uid": 7 })).await;
    for tool in [
        "test_bilibili_credentials",
        "get_my_bilibili_profile",
        "get_bilibili_following_list",
        "get_bilibili_watch_history",
        "get_bilibili_favorites",
        "get_bilibili_toview_list",
    ] {
        assert_eq!(stage.bad(tool, json!({})).await, "not_configured", "{tool}");
    }
}

#[test]
fn titles_lose_their_marks_and_pictures_get_a_scheme() {
    for (title, expected) in [
        ("Rust &amp; C++：<em class=\"keyword\">谁更快</em>？", "Rust & C++：谁更快？"),
        ("a < b > c", "a < b > c"),
        ("&lt;em&gt;", "<em>"),
        ("<embed>", "<embed>"),
    ] {
        assert_eq!(plain(&json!(title)), expected, "{title}");
    }
    for (address, expected) in [
        (json!("//i0.hdslb.com/a.jpg"), json!("https://i0.hdslb.com/a.jpg")),
        (json!("http://i0.hdslb.com/a.jpg"), json!("https://i0.hdslb.com/a.jpg")),
        (json!("https://i0.hdslb.com/a.jpg"), json!("https://i0.hdslb.com/a.jpg")),
        (Value::Null, Value::Null),
    ] {
        assert_eq!(picture(&address), expected);
    }
}

#[tokio::test]
async fn cookies_that_are_void_fail_the_check_of_an_account() {
    let stage = nobody();
    let ready = stage.sandbox.control().ready();
    let mut account = store::accounts::Account::new(super::NAME, 0);
    let cookie = Secret::new(ready["values"]["BILIBILI_SESSDATA"].as_str().unwrap());
    account.extra.insert("SESSDATA".to_owned(), cookie);
    stage.desk.accounts.lock(super::NAME).unwrap().save(&account).unwrap();
    assert!(crate::account::check(&stage.desk, &SERVICE).await.is_ok());
    stage.sandbox.control().expire(Which::All);
    let refused = crate::account::check(&stage.desk, &SERVICE).await.unwrap_err();
    assert!(refused.is_final());
}

#[tokio::test]
async fn history_stays_and_what_is_kept_follows() {
    use super::mirror::{MIRROR, SHELF};
    use crate::sync::{Asked, run};
    let stage = stage();
    let all = |kind: &str| stage.sandbox.control().records(kind).unwrap();
    let kept =
        |kind: &str| usize::try_from(stage.desk.records.count("bilibili", kind).unwrap()).unwrap();
    let result = run(&stage.desk, &MIRROR, &Asked::default(), &|_| {}).await.unwrap();
    assert_eq!(result["status"], "success", "{result}");
    for (kind, shelf) in [
        ("history", "history"),
        ("favorite_folders", "folder"),
        ("to_view", "toview"),
        ("followings", "following"),
    ] {
        assert_eq!(kept(kind), all(shelf).len(), "{kind}");
    }
    let before = (kept("history"), kept("to_view"));
    let gone = all("toview")[0]["bvid"].as_str().unwrap().to_owned();
    stage.sandbox.control().remove("toview", &gone).unwrap();
    stage.sandbox.control().clear("history").unwrap();
    let again = run(&stage.desk, &MIRROR, &Asked::default(), &|_| {}).await.unwrap();
    assert_eq!(again["resources"]["to_view"]["records_removed"], 1, "{again}");
    assert_eq!(again["resources"]["followings"]["records_upserted"], 0, "{again}");
    assert_eq!((kept("history"), kept("to_view")), (before.0, before.1 - 1));
    crate::shelves::prepare(&stage.desk.records).unwrap();
    let views = stage.desk.records.views().unwrap();
    for kind in SHELF.kinds {
        assert!(views.iter().any(|(name, _)| name == kind.view.name), "{}", kind.name);
    }
}

#[tokio::test]
async fn a_machine_in_between_that_holds_requests_back_is_a_limit() {
    let stage = stage();
    let body = Some("<html>The request was rejected</html>".to_owned());
    let what = What::Status { code: 412, retry_after: None, reset: None, body };
    stage.sandbox.control().fault(Fault::on("/x/", what));
    assert_eq!(stage.bad("get_my_bilibili_profile", json!({})).await, "rate_limited");
}

#[tokio::test]
async fn pages_of_the_history_that_are_shorter_than_asked_lead_on() {
    let stage = stage();
    let entry = |n: i64| json!({ "title": "x", "history": { "oid": n, "business": "archive" } });
    let list: Vec<Value> = (0..7).map(entry).collect();
    let cursor = json!({ "max": 9, "view_at": 1_700_000_000, "business": "archive" });
    let body = json!({ "code": 0, "data": { "cursor": cursor, "list": list } }).to_string();
    let what = What::Status { code: 200, retry_after: None, reset: None, body: Some(body) };
    stage.sandbox.control().fault(Fault::on("/x/web-interface/history/cursor", what).next(2));
    let first = stage.good("get_bilibili_watch_history", json!({})).await;
    assert_eq!((&first["total_count"], &first["next_page"]), (&json!(7), &json!(2)));
}
