//! Reddit: listings, scopes, agents and approval.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::service_test::{AGENT, ServiceTest, start};
use crate::wire::send;

fn name(test: &ServiceTest) -> String {
    test.json("/oauth/api/v1/me")["name"].as_str().unwrap().to_owned()
}

/// All things of a listing, following `after`.
fn read_all(test: &ServiceTest, path: &str) -> Vec<Value> {
    let mut things = Vec::new();
    let mut after = String::new();
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let page = test.json(&format!("{path}{mark}limit=100&raw_json=1{after}"))["data"].clone();
        assert_eq!(page["dist"], json!(page["children"].as_array().unwrap().len()));
        things.extend(page["children"].as_array().unwrap().clone());
        match page["after"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return things,
        }
    }
}

#[test]
fn every_listing_is_read_to_its_end() {
    let test = start("reddit");
    let me = name(&test);
    for (path, kinds) in [
        ("/oauth/subreddits/mine/subscriber".to_owned(), &["subscribed"][..]),
        ("/oauth/subreddits/mine/moderator".to_owned(), &["moderated"]),
        ("/oauth/subreddits/mine/contributor".to_owned(), &["contributor"]),
        (format!("/oauth/user/{me}/submitted"), &["post"]),
        (format!("/oauth/user/{me}/comments?sort=new"), &["comment"]),
        (format!("/oauth/user/{me}/overview"), &["post", "comment"]),
        (format!("/oauth/user/{me}/saved"), &["saved"]),
        (format!("/oauth/user/{me}/hidden"), &["hidden"]),
        (format!("/oauth/user/{me}/upvoted"), &["upvoted"]),
        (format!("/oauth/user/{me}/downvoted"), &["downvoted"]),
        ("/oauth/message/inbox".to_owned(), &["inbox"]),
        ("/oauth/message/sent".to_owned(), &["sent"]),
    ] {
        let read = read_all(&test, &path);
        let names: BTreeSet<String> =
            read.iter().map(|thing| thing["data"]["name"].to_string()).collect();
        let known: usize = kinds.iter().map(|kind| test.records(kind).len()).sum();
        assert_eq!((read.len(), names.len()), (known, known), "{path}");
        assert!(read.iter().all(|thing| thing.get("at").is_none()), "{path}");
    }
    assert_eq!(read_all(&test, "/oauth/message/unread").len(), 3);
}

#[test]
fn listings_mix_things_and_some_authors_are_deleted() {
    let test = start("reddit");
    let saved = read_all(&test, &format!("/oauth/user/{}/saved", name(&test)));
    let kinds: BTreeSet<&str> = saved.iter().map(|thing| thing["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["t1", "t3"]));
    assert!(saved.iter().any(|thing| thing["data"]["author"] == "[deleted]"));
    let inbox = read_all(&test, "/oauth/message/inbox");
    let kinds: BTreeSet<&str> = inbox.iter().map(|thing| thing["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["t1", "t4"]));
    assert!(inbox.iter().any(|message| message["data"]["author"].is_null()));
}

#[test]
fn texts_are_escaped_by_default_and_limits_are_clamped() {
    let test = start("reddit");
    let page = |query: &str| {
        test.json(&format!("/oauth/subreddits/mine/subscriber{query}"))["data"].clone()
    };
    let words = |page: Value| {
        page["children"][0]["data"]["public_description"].as_str().unwrap().to_owned()
    };
    assert_eq!(words(page("")), "A place to talk &amp; share.");
    assert_eq!(words(page("?raw_json=1")), "A place to talk & share.");
    for (query, length) in
        [("", 25), ("?limit=500", 100), ("?limit=0", 25), ("?limit=x", 25), ("?limit=7", 7)]
    {
        assert_eq!(page(query)["dist"], json!(length), "{query}");
    }
    let third = page("?limit=10&after=t5_nothing");
    assert_eq!((third["dist"].clone(), third["after"].clone()), (json!(0), Value::Null));
    let first = page("?limit=10");
    let second = page(&format!("?limit=10&after={}", first["after"].as_str().unwrap()));
    let back = page(&format!("?limit=10&before={}", second["before"].as_str().unwrap()));
    assert_eq!(back["children"], first["children"]);
}

#[test]
fn the_account_endpoints_respond() {
    let test = start("reddit");
    let me = name(&test);
    test.check(&[
        ("/oauth/api/v1/me/karma", 200, "/kind", json!("KarmaList")),
        ("/oauth/api/v1/me/karma", 200, "/data/0/sr", json!("rust")),
        ("/oauth/api/v1/me/trophies", 200, "/data/trophies/0/kind", json!("t6")),
        ("/oauth/api/v1/me/prefs", 200, "/lang", json!("en-us")),
        (&format!("/oauth/user/{me}/about"), 200, "/data/name", json!(me)),
        (&format!("/oauth/user/{}/saved?limit=1", me.to_uppercase()), 200, "/data/dist", json!(1)),
        ("/oauth/user/tea_and_types/overview", 200, "/data/dist", json!(25)),
        ("/oauth/user/tea_and_types/saved", 403, "/message", json!("Forbidden")),
        ("/oauth/user/unknown/overview", 404, "/error", json!(404)),
        ("/oauth/user/..%2Fapi/saved", 404, "", Value::Null),
        ("/oauth/api/v1/you", 404, "", Value::Null),
    ]);
    let top = test.json(&format!("/oauth/user/{me}/submitted?sort=top&limit=100"));
    let scores: Vec<i64> = top["data"]["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|post| post["data"]["score"].as_i64().unwrap())
        .collect();
    assert!(scores.is_sorted_by(|a, b| a >= b));
}

#[test]
fn scopes_tokens_and_limits_are_in_headers() {
    let mut test = start("reddit");
    let narrow = test.running.control().tokens_for(&["identity"]);
    test.bear(narrow["access_token"].as_str().unwrap());
    assert_eq!(test.get("/oauth/api/v1/me").status, 200);
    let refused = test.get("/oauth/message/inbox");
    assert_eq!(
        (refused.status, refused.json()),
        (403, json!({ "message": "Forbidden", "error": 403 }))
    );
    assert!(refused.header("www-authenticate").unwrap().contains("insufficient_scope"));
    test.set(&json!({ "limits": [[2, 600]] }));
    let first = test.get("/oauth/api/v1/me");
    assert_eq!(
        ["used", "remaining", "reset"]
            .map(|name| first.header(&format!("x-ratelimit-{name}")).unwrap().to_owned()),
        ["1", "1.0", "600"]
    );
    assert_eq!(
        [test.get("/oauth/api/v1/me").status, test.get("/oauth/api/v1/me").status],
        [200, 429]
    );
    test.bear("void");
    let void = test.get("/oauth/api/v1/me");
    assert_eq!((void.status, void.json()["error"].clone()), (401, json!(401)));
}

#[test]
fn a_wrong_user_agent_gets_a_web_page() {
    let test = start("reddit");
    let token = test.running.control().tokens()["access_token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let status = |agent: &str| {
        let got = send(
            test.running.url(),
            "GET",
            "/oauth/api/v1/me",
            &[("authorization", &bearer), ("user-agent", agent)],
            "",
        );
        (got.status, got.text().starts_with("<!doctype html>"))
    };
    for agent in ["", "python-requests/2.31", "curl/8.1", "Mozilla/5.0 (X11)"] {
        assert_eq!(status(agent), (403, true), "{agent}");
    }
    assert_eq!(status("tollgate/1.0"), (200, false));
    test.set(&json!({ "strict_agent": true }));
    assert_eq!((status("tollgate/1.0"), status(AGENT)), ((403, true), (200, false)));
}

#[test]
fn without_approval_no_client_is_known() {
    let test = start("reddit");
    test.set(&json!({ "approved": false }));
    assert_eq!(test.get("/oauth/api/v1/me").status, 401);
    let token = test.post(
        "/www/api/v1/access_token",
        Some("c2FuZGJveDpz"),
        "grant_type=refresh_token&refresh_token=x",
    );
    assert_eq!(
        (token.status, token.json()),
        (401, json!({ "message": "Unauthorized", "error": 401 }))
    );
    let page = send(
        test.running.url(),
        "GET",
        "/www/api/v1/authorize?client_id=sandbox-reddit-client",
        &[("user-agent", "Mozilla/5.0")],
        "",
    );
    assert_eq!(page.status, 400);
}
