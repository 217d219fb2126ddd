//! Every tool against the sandbox: success and failure.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashSet;

use sandbox::{Config, Fault, FaultKind, TokenKind};
use serde_json::{Value, json};
use store::clock::Clock;
use store::secret::Secret;

use super::{SERVICE, picture, plain};
use crate::testing::{Fixture, signed_out_fixture};

fn signed_out() -> Fixture {
    let look = |name: &str, url: &str| (name == "BILIBILI_API_BASE_URL").then(|| url.to_owned());
    signed_out_fixture(&SERVICE, Config::bilibili(7, 30, Clock::System.now().wall_us), look)
}

/// With cookies from environment variables.
fn stage_with(form: fn(&str) -> String) -> Fixture {
    let mut fixture = signed_out();
    let ready = fixture.sandbox.control().ready();
    let mut settings = fixture.ctx.settings.of(&SERVICE).unwrap().clone();
    for (field, name) in [
        ("SESSDATA", "BILIBILI_SESSDATA"),
        ("bili_jct", "BILIBILI_BILI_JCT"),
        ("buvid3", "BILIBILI_BUVID3"),
    ] {
        let value = form(ready["values"][name].as_str().unwrap());
        settings.values.insert(field, Secret::new(value));
    }
    fixture.ctx.settings.put(&SERVICE, settings);
    fixture
}

fn fixture() -> Fixture {
    stage_with(str::to_owned)
}

/// The ids of a public and of a private video.
fn videos(fixture: &Fixture) -> (String, String) {
    let all = fixture.sandbox.control().records("video").unwrap();
    let id = |is_shown: bool| {
        let found = all.iter().find(|video| (video["state"] == 0) == is_shown).unwrap();
        found["bvid"].as_str().unwrap().to_owned()
    };
    (id(true), id(false))
}

/// The uid of an uploader; every fifth has a private profile.
fn up(fixture: &Fixture, number: usize) -> i64 {
    let all = fixture.sandbox.control().records("following").unwrap();
    let mut mids: Vec<i64> = all.iter().map(|one| one["mid"].as_i64().unwrap()).collect();
    mids.sort_unstable();
    mids[number]
}

const SIGNED: [&str; 2] = ["search_bilibili_videos", "get_bilibili_user_videos"];

#[tokio::test]
async fn every_tool_answers() {
    let fixture = fixture();
    let (shown, _) = videos(&fixture);
    let address = format!("https://www.bilibili.com/video/{shown}/?p=1");
    for (tool, arguments, keys) in [
        ("test_bilibili_credentials", json!({}), &["result"][..]),
        ("get_bilibili_config", json!({}), &["result"]),
        (
            "get_bilibili_user_info",
            json!({ "uid": up(&fixture, 1) }),
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
        ("get_bilibili_following_list", json!({ "uid": up(&fixture, 1) }), &["following_list"]),
        ("get_bilibili_video_info", json!({ "bvid": shown }), &["title", "owner", "stats", "url"]),
        ("get_bilibili_video_info", json!({ "bvid": address }), &["published_at"]),
        ("get_bilibili_watch_history", json!({ "page": null }), &["watch_history", "total_count"]),
        ("get_bilibili_favorites", json!({ "uid": "null" }), &["favorite_folders", "uid"]),
        ("get_bilibili_toview_list", json!({}), &["toview_videos"]),
    ] {
        let answer = fixture.good(tool, arguments).await;
        for key in keys {
            assert!(!answer[*key].is_null(), "{tool}: no {key} in {answer}");
        }
    }
    let own = fixture.good("get_my_bilibili_profile", json!({})).await["uid"].clone();
    let me = fixture.good("get_bilibili_user_info", json!({ "uid": own })).await;
    assert_eq!((&me["is_complete"], &me["level"]), (&json!(true), &json!(5)));
    let to_view = fixture.good("get_bilibili_toview_list", json!({})).await;
    assert_eq!(to_view["total_count"], 34);
    let folders = fixture.good("get_bilibili_favorites", json!({})).await;
    assert_eq!(folders["favorite_folders"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn paging_reaches_the_end_of_a_list() {
    let fixture = fixture();
    for (tool, key, kind) in [
        ("get_bilibili_watch_history", "watch_history", "history"),
        ("get_bilibili_following_list", "following_list", "following"),
    ] {
        let expected = fixture.sandbox.control().records(kind).unwrap().len();
        let (mut page, mut seen) = (json!(1), Vec::new());
        while !page.is_null() {
            let answer = fixture.good(tool, json!({ "page": page })).await;
            seen.extend(answer[key].as_array().unwrap().clone());
            page = answer["next_page"].clone();
        }
        assert_eq!(seen.len(), expected, "{tool}");
        let far = fixture.good(tool, json!({ "page": 49 })).await;
        assert!(far["next_page"].is_null(), "{tool}");
    }
}

#[tokio::test]
async fn watch_history_entries_keep_their_kind() {
    let fixture = fixture();
    let kinds: HashSet<String> = fixture
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
        let answer = fixture.good("get_bilibili_watch_history", json!({ "page": page })).await;
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
async fn tools_that_need_a_signature_fail_without_a_request() {
    let fixture = fixture();
    fixture.sandbox.control().reset_counters();
    let arguments = json!({ "keyword": "rust", "uid": 7, "page": 1, "order": "click" });
    for tool in SIGNED {
        assert_eq!(fixture.bad(tool, arguments.clone()).await, "unsupported_upstream", "{tool}");
    }
    assert_eq!(fixture.sandbox.control().counters().requests, 0);
    for (tool, arguments) in [
        (SIGNED[0], json!({})),
        (SIGNED[0], json!({ "keyword": "x", "order": "best" })),
        (SIGNED[1], json!({ "uid": "" })),
    ] {
        assert_eq!(fixture.bad(tool, arguments).await, "invalid_argument", "{tool}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_named() {
    let fixture = fixture();
    let (_, hidden) = videos(&fixture);
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
        ("get_bilibili_following_list", json!({ "uid": up(&fixture, 5) }), "private_profile"),
        (
            "get_bilibili_following_list",
            json!({ "uid": up(&fixture, 1), "page": 6 }),
            "restricted_resource",
        ),
    ] {
        assert_eq!(fixture.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn error_codes_and_bad_responses_become_problems() {
    let fixture = fixture();
    let tools =
        ["test_bilibili_credentials", "get_my_bilibili_profile", "get_bilibili_toview_list"];
    for (risk, code) in
        [(-352, "restricted_resource"), (-412, "rate_limited"), (-799, "rate_limited")]
    {
        fixture.set(&json!({ "risk": risk }));
        for tool in tools {
            assert_eq!(fixture.bad(tool, json!({})).await, code, "{tool} {risk}");
        }
    }
    fixture.set(&json!({ "risk": null }));
    for what in [FaultKind::Html, FaultKind::Garbage, FaultKind::Truncate] {
        fixture.sandbox.control().clear_faults();
        fixture.sandbox.control().fault(Fault::on("/x/", what));
        for tool in tools {
            assert_eq!(fixture.bad(tool, json!({})).await, "upstream_error", "{tool}");
        }
    }
    fixture.sandbox.control().clear_faults();
    fixture.sandbox.control().expire(TokenKind::All);
    for tool in tools {
        assert_eq!(fixture.bad(tool, json!({})).await, "auth_expired", "{tool}");
    }
}

#[tokio::test]
async fn cookies_may_be_plain_or_escaped() {
    let fixture = stage_with(|value| value.replace("%2C", ","));
    fixture.good("test_bilibili_credentials", json!({})).await;
}

#[tokio::test]
async fn without_cookies_public_tools_work_and_others_say_what_to_do() {
    let fixture = signed_out();
    let (shown, _) = videos(&fixture);
    fixture.good("get_bilibili_video_info", json!({ "bvid": shown })).await;
    fixture.good("get_bilibili_user_info", json!({ "uid": 7 })).await;
    for tool in [
        "test_bilibili_credentials",
        "get_my_bilibili_profile",
        "get_bilibili_following_list",
        "get_bilibili_watch_history",
        "get_bilibili_favorites",
        "get_bilibili_toview_list",
    ] {
        assert_eq!(fixture.bad(tool, json!({})).await, "not_configured", "{tool}");
    }
}

#[test]
fn titles_lose_their_markup_and_pictures_get_a_scheme() {
    for (title, expected) in [
        ("Rust &amp; C++：<em class=\"keyword\">谁更快</em>？", "Rust & C++：谁更快？"),
        ("a < b > c", "a < b > c"),
        ("&lt;em&gt;", "<em>"),
        ("<embed>", "<embed>"),
    ] {
        assert_eq!(plain(title), expected, "{title}");
    }
    for (address, expected) in [
        ("//i0.hdslb.com/a.jpg", "https://i0.hdslb.com/a.jpg"),
        ("http://i0.hdslb.com/a.jpg", "https://i0.hdslb.com/a.jpg"),
        ("https://i0.hdslb.com/a.jpg", "https://i0.hdslb.com/a.jpg"),
    ] {
        assert_eq!(picture(address), expected);
    }
}

#[tokio::test]
async fn invalid_cookies_fail_the_account_check() {
    let fixture = signed_out();
    let ready = fixture.sandbox.control().ready();
    let mut account = store::accounts::Account::new(super::NAME, 0);
    let cookie = Secret::new(ready["values"]["BILIBILI_SESSDATA"].as_str().unwrap());
    account.extra.insert("SESSDATA".to_owned(), cookie);
    fixture.ctx.accounts.lock(super::NAME).unwrap().save(&account).unwrap();
    assert!(crate::credentials::check(&fixture.ctx, &SERVICE).await.is_ok());
    fixture.sandbox.control().expire(TokenKind::All);
    let refused = crate::credentials::check(&fixture.ctx, &SERVICE).await.unwrap_err();
    assert!(refused.is_final());
}

#[tokio::test]
async fn history_is_kept_and_lists_follow_the_service() {
    use super::mirror::{EXPORTS, MIRROR};
    use crate::sync::{SyncRequest, run};
    let fixture = fixture();
    let all = |kind: &str| fixture.sandbox.control().records(kind).unwrap();
    let kept =
        |kind: &str| usize::try_from(fixture.ctx.records.count("bilibili", kind).unwrap()).unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
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
    fixture.sandbox.control().remove("toview", &gone).unwrap();
    fixture.sandbox.control().clear("history").unwrap();
    let again = run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(again["resources"]["to_view"]["records_removed"], 1, "{again}");
    assert_eq!(again["resources"]["followings"]["records_upserted"], 0, "{again}");
    assert_eq!((kept("history"), kept("to_view")), (before.0, before.1 - 1));
    crate::prepare(&fixture.ctx.records).unwrap();
    let views = fixture.ctx.records.views().unwrap();
    for kind in EXPORTS.kinds {
        assert!(views.iter().any(|(name, _)| name == kind.view.name), "{}", kind.name);
    }
}

#[tokio::test]
async fn a_412_without_a_code_is_a_rate_limit() {
    let fixture = fixture();
    let body = Some("<html>The request was rejected</html>".to_owned());
    let what = FaultKind::Status { code: 412, retry_after: None, reset: None, body };
    fixture.sandbox.control().fault(Fault::on("/x/", what));
    assert_eq!(fixture.bad("get_my_bilibili_profile", json!({})).await, "rate_limited");
}

#[tokio::test]
async fn short_history_pages_do_not_end_the_paging() {
    let fixture = fixture();
    let entry = |n: i64| json!({ "title": "x", "history": { "oid": n, "business": "archive" } });
    let list: Vec<Value> = (0..7).map(entry).collect();
    let cursor = json!({ "max": 9, "view_at": 1_700_000_000, "business": "archive" });
    let body = json!({ "code": 0, "data": { "cursor": cursor, "list": list } }).to_string();
    let what = FaultKind::Status { code: 200, retry_after: None, reset: None, body: Some(body) };
    fixture.sandbox.control().fault(Fault::on("/x/web-interface/history/cursor", what).next(2));
    let first = fixture.good("get_bilibili_watch_history", json!({})).await;
    assert_eq!((&first["total_count"], &first["next_page"]), (&json!(7), &json!(2)));
}
