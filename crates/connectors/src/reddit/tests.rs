//! Every tool against the sandbox, good and bad.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashSet;

use sandbox::{Config, Fault, What, Which};
use serde_json::{Value, json};
use store::clock::Clock;

use super::SERVICE;
use crate::personal::stage::{Stage, stranger};

fn look(name: &str, url: &str) -> Option<String> {
    Some(match name {
        "REDDIT_API_BASE_URL" => format!("{url}/oauth"),
        "REDDIT_OAUTH_BASE_URL" => format!("{url}/www"),
        "REDDIT_CLIENT_ID" => "sandbox-reddit-client".to_owned(),
        "REDDIT_CLIENT_SECRET" => "sandbox-reddit-secret".to_owned(),
        _ => return None,
    })
}

fn nobody() -> Stage {
    stranger(&SERVICE, Config::reddit(7, 20, Clock::System.now().wall_us), look)
}

fn stage() -> Stage {
    nobody().sign_in()
}

fn status(code: u16) -> What {
    What::Status { code, retry_after: None, reset: None, body: None }
}

/// What signs in and what says how it stands; the rest are data.
fn is_data(name: &str) -> bool {
    !name.ends_with("_oauth") && !name.contains("token") && name != "get_reddit_config"
}

const LISTS: &[(&str, &str, &str)] = &[
    ("get_user_subreddits", "subreddits", "subscribed"),
    ("get_moderated_subreddits", "moderated_subreddits", "moderated"),
    ("get_contributor_subreddits", "contributor_subreddits", "contributor"),
    ("get_user_submitted_posts", "submitted_posts", "post"),
    ("get_user_comments", "comments", "comment"),
    ("get_saved_content", "saved_content", "saved"),
    ("get_hidden_posts", "hidden_posts", "hidden"),
    ("get_upvoted_content", "upvoted_content", "upvoted"),
    ("get_downvoted_content", "downvoted_content", "downvoted"),
    ("get_inbox_messages", "inbox_messages", "inbox"),
    ("get_sent_messages", "sent_messages", "sent"),
];

#[tokio::test]
async fn lists_lead_to_their_end_page_by_page() {
    let stage = stage();
    for (tool, key, kind) in LISTS {
        let expected = stage.sandbox.control().records(kind).unwrap().len();
        let (mut after, mut seen) = (json!(null), HashSet::new());
        loop {
            let page = stage.good(tool, json!({ "limit": "60", "after": after })).await;
            let items = page[*key].as_array().unwrap();
            assert_eq!(page["count"], items.len(), "{tool}");
            seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
            after = page["after"].clone();
            if after.is_null() {
                break;
            }
        }
        assert_eq!(seen.len(), expected, "{tool}");
        let usual = stage.good(tool, json!({ "limit": 5_000, "access_token": "null" })).await;
        assert_eq!(usual["count"], expected.min(100), "{tool}");
    }
}

#[tokio::test]
async fn the_other_tools_answer() {
    let stage = stage();
    for (tool, arguments, keys) in [
        ("test_reddit_credentials", json!({ "random_string": "x" }), &["result"][..]),
        ("get_reddit_config", json!({}), &["status", "redirect_uri", "has_client_id"]),
        ("setup_reddit_oauth", json!({ "redirect_uri": "" }), &["authorization_url"]),
        ("refresh_reddit_token", json!({ "random_string": null }), &["message", "expires_at"]),
        ("auto_refresh_reddit_token_if_needed", json!({}), &["message", "token_refreshed"]),
        ("get_reddit_token_status", json!({ "random_string": "" }), &["token_info"]),
        ("get_reddit_user_profile", json!({}), &["user_profile"]),
        ("get_user_trophies", json!({}), &["trophies"]),
        ("get_user_preferences", json!({}), &["preferences"]),
        ("get_user_karma_breakdown", json!({}), &["karma_breakdown"]),
        ("get_user_overview", json!({ "sort": "top" }), &["overview"]),
        ("get_unread_messages", json!({}), &["unread_messages"]),
        ("get_user_comments", json!({ "username": "u/tea_and_types" }), &["comments"]),
    ] {
        let answer = stage.good(tool, arguments).await;
        for key in keys {
            assert!(!answer[*key].is_null(), "{tool}: no {key} in {answer}");
        }
    }
    let unread = stage.good("get_unread_messages", json!({})).await;
    assert_eq!(unread["count"], 3);
    let trophies = stage.good("get_user_trophies", json!({})).await;
    assert_eq!(trophies["trophies"][0]["name"], "Twelve-Year Club");
}

#[tokio::test]
async fn things_keep_their_kind_their_text_and_their_address() {
    let stage = stage();
    let saved = stage.good("get_saved_content", json!({})).await;
    let kinds: HashSet<&str> = saved["saved_content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, HashSet::from(["post", "comment"]));
    let overview = stage.good("get_user_overview", json!({})).await;
    for thing in overview["overview"].as_array().unwrap() {
        assert!(!thing.to_string().contains("&amp;"), "{thing}");
        let link = thing["permalink"].as_str().unwrap();
        assert!(link.starts_with("https://www.reddit.com/r/"), "{link}");
        assert!(thing["created_at"].as_str().unwrap().ends_with('Z'), "{thing}");
    }
}

#[tokio::test]
async fn one_signs_in_with_the_address_the_browser_ends_at() {
    let stage = nobody();
    let begun = stage.good("setup_reddit_oauth", json!({})).await;
    let address = begun["authorization_url"].as_str().unwrap();
    assert!(address.contains("duration=permanent") && address.contains("privatemessages"));
    assert!(!begun.to_string().contains("sandbox-reddit-secret"));
    for (arguments, code) in [
        (json!({}), "invalid_argument"),
        (
            json!({ "authorization_code": "http://localhost:8888/callback?state=x" }),
            "invalid_argument",
        ),
        (json!({ "authorization_code": "a wrong one" }), "invalid_argument"),
        (json!({ "authorization_code": "nobody-gave-this" }), "auth_expired"),
        (json!({ "authorization_code": "anything" }), "invalid_argument"),
    ] {
        assert_eq!(
            stage.bad("complete_reddit_oauth", arguments.clone()).await,
            code,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn a_wrong_call_says_what_is_wrong() {
    let stage = stage();
    for (tool, arguments, code) in [
        ("get_user_comments", json!({ "sort": "random" }), "invalid_argument"),
        ("get_user_comments", json!({ "limit": "many" }), "invalid_argument"),
        ("get_user_comments", json!({ "username": "../me" }), "invalid_argument"),
        ("get_user_comments", json!({ "username": "a?b" }), "invalid_argument"),
        ("get_user_comments", json!({ "username": "a\nb" }), "invalid_argument"),
        ("get_inbox_messages", json!({ "after": "a&b" }), "invalid_argument"),
        ("get_user_comments", json!({ "username": "nobody_at_all" }), "not_found"),
        ("get_saved_content", json!({ "username": "borrowchecked" }), "restricted_resource"),
        ("get_hidden_posts", json!({ "username": "borrowchecked" }), "restricted_resource"),
        ("get_upvoted_content", json!({ "username": "borrowchecked" }), "restricted_resource"),
        ("get_downvoted_content", json!({ "username": "borrowchecked" }), "restricted_resource"),
    ] {
        assert_eq!(stage.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn a_login_without_the_scopes_says_so() {
    let stage = nobody();
    stage.sign_in_with(&stage.sandbox.control().tokens_for(&["identity"]));
    for tool in
        ["get_inbox_messages", "get_unread_messages", "get_sent_messages", "get_user_subreddits"]
    {
        assert_eq!(stage.bad(tool, json!({})).await, "insufficient_scope", "{tool}");
    }
    stage.good("get_reddit_user_profile", json!({})).await;
}

#[tokio::test]
async fn without_approval_every_tool_says_what_to_do() {
    let stage = stage();
    stage.set(&json!({ "approved": false }));
    for tool in SERVICE.tools.iter().filter(|tool| is_data(tool.name)) {
        assert_eq!(stage.bad(tool.name, json!({})).await, "approval_required", "{}", tool.name);
    }
    assert_eq!(stage.bad("refresh_reddit_token", json!({})).await, "approval_required");
    stage.good("setup_reddit_oauth", json!({})).await;
    let code = json!({ "authorization_code": "abc" });
    assert_eq!(stage.bad("complete_reddit_oauth", code).await, "approval_required");
    let none =
        stranger(&SERVICE, Config::reddit(7, 1, Clock::System.now().wall_us), |name, url| {
            look(name, url).filter(|_| name.ends_with("_BASE_URL"))
        });
    for tool in ["get_user_comments", "setup_reddit_oauth", "refresh_reddit_token"] {
        assert_eq!(none.bad(tool, json!({})).await, "approval_required", "{tool}");
    }
    let config = none.good("get_reddit_config", json!({})).await;
    assert_eq!(config["status"], "not_configured");
}

#[tokio::test]
async fn a_login_that_is_not_there_or_has_ended_is_told_apart() {
    let stage = nobody();
    for tool in SERVICE.tools.iter().filter(|tool| is_data(tool.name)) {
        assert_eq!(stage.bad(tool.name, json!({})).await, "not_configured", "{}", tool.name);
    }
    let standing = stage.good("get_reddit_token_status", json!({})).await;
    assert_eq!(standing["token_info"]["has_tokens"], false);
    let stage = stage.sign_in();
    stage.sandbox.control().expire(Which::Access);
    stage.good("get_reddit_user_profile", json!({})).await;
    stage.sandbox.control().expire(Which::All);
    assert_eq!(stage.bad("get_user_comments", json!({})).await, "auth_expired");
}

#[tokio::test]
async fn bad_answers_become_problems() {
    let stage = stage();
    for (what, code) in [
        (What::Html, "upstream_error"),
        (What::Garbage, "upstream_error"),
        (What::Truncate, "upstream_error"),
        (status(404), "not_found"),
        (status(403), "restricted_resource"),
    ] {
        stage.sandbox.control().clear_faults();
        stage.sandbox.control().fault(Fault::on("/oauth/", what));
        for tool in ["get_user_subreddits", "get_user_trophies", "get_user_overview"] {
            assert_eq!(stage.bad(tool, json!({})).await, code, "{tool}");
        }
    }
    stage.sandbox.control().clear_faults();
    stage.set(&json!({ "limits": [[1, 86_400]] }));
    let first: Value = stage.good("get_user_trophies", json!({})).await;
    assert_eq!(first["status"], "success");
    assert_eq!(stage.bad("get_user_trophies", json!({})).await, "rate_limited");
}

#[tokio::test]
async fn what_was_written_saved_and_voted_on_is_mirrored_and_follows() {
    use super::mirror::MIRROR;
    use crate::sync::{Asked, EventsAsked, run};
    const KINDS: [(&str, &str); 6] = [
        ("posts", "post"),
        ("comments", "comment"),
        ("saved", "saved"),
        ("upvoted", "upvoted"),
        ("downvoted", "downvoted"),
        ("hidden", "hidden"),
    ];
    let stage = stage();
    let all = |kind: &str| stage.sandbox.control().records(kind).unwrap();
    let kept =
        |kind: &str| usize::try_from(stage.desk.records.count("reddit", kind).unwrap()).unwrap();
    let result = run(&stage.desk, &MIRROR, &Asked::default(), &|_| {}).await.unwrap();
    assert_eq!(result["status"], "success", "{result}");
    for (kind, of) in KINDS {
        assert_eq!(kept(kind), all(of).len(), "{kind}");
    }
    assert!(kept("messages") > 0 && kept("subreddits") > 0);
    let before = kept("saved");
    let gone = all("saved")[0]["data"]["name"].as_str().unwrap().to_owned();
    let row = stage.desk.records.one("reddit", "saved", &gone).unwrap().unwrap();
    let flat: Value = serde_json::from_str(&row.flat).unwrap();
    assert!(flat["link"].as_str().unwrap().starts_with("https://www.reddit.com/"), "{flat}");
    stage.sandbox.control().remove("saved", &gone).unwrap();
    let full = Asked { full: true, ..Asked::default() };
    let again = run(&stage.desk, &MIRROR, &full, &|_| {}).await.unwrap();
    assert_eq!(again["resources"]["posts"]["records_upserted"], 0, "{again}");
    assert_eq!(again["resources"]["saved"]["records_removed"], 1, "{again}");
    assert_eq!(kept("saved"), before - 1);
    // What came and went is told by the time it was seen, not by the time it was written.
    let hour_ago = crate::when::utc_micros(stage.desk.clock.now().wall_us - 3_600_000_000);
    let asked = EventsAsked { since: &hour_ago, until: None, resources: None, limit: 5_000 };
    let told = (MIRROR.events)(&stage.desk, &asked).unwrap();
    let told = told["events"].as_array().unwrap();
    let saved = told.iter().filter(|event| event["resource"] == "saved").count();
    assert_eq!(saved, before, "each of them once");
    assert_eq!(told.iter().filter(|event| event["removed"] == true).count(), 1);
}

/// What the browser does: the sandbox consents at once and sends it back with a code.
async fn consent(stage: &Stage, address: &str) -> String {
    let url = url::Url::parse(address).unwrap();
    let base = format!("{}/www/api/v1/authorize", stage.sandbox.url());
    let mut request = crate::http::Request::get(&crate::Base::parse(&base).unwrap(), &[]);
    for (name, value) in url.query_pairs() {
        request = request.query(&name, &value);
    }
    let reply = stage.desk.http.send(request).await.unwrap();
    reply.header("location").unwrap().to_owned()
}

#[tokio::test]
async fn one_signs_in_from_a_conversation_and_reads_all_lists() {
    let stage = nobody();
    let begun = stage.good("setup_reddit_oauth", json!({ "client_id": "" })).await;
    let address = begun["authorization_url"].as_str().unwrap();
    assert!(address.contains("state=") && address.contains("duration=permanent"), "{address}");
    let wrong = json!({ "authorization_code": "http://localhost:8888/callback?code=x&state=y" });
    assert_eq!(stage.bad("complete_reddit_oauth", wrong).await, "invalid_argument");
    let back = consent(&stage, address).await;
    let done = stage.good("complete_reddit_oauth", json!({ "authorization_code": back })).await;
    assert_eq!(done["tokens_saved"], true);
    let told = stage.good("get_reddit_token_status", json!({})).await;
    assert_eq!(told["token_info"]["has_refresh_token"], true);
    for (tool, key, _) in LISTS {
        assert!(stage.good(tool, json!({})).await[*key].is_array(), "{tool}");
    }
    // The code has been used; a second time it is nothing.
    let again = json!({ "authorization_code": "used" });
    assert_eq!(stage.bad("complete_reddit_oauth", again).await, "invalid_argument");
}

#[tokio::test]
async fn a_refusal_at_the_end_of_a_sign_in_is_told() {
    let stage = nobody();
    let begun = stage.good("setup_reddit_oauth", json!({})).await;
    let back = consent(&stage, begun["authorization_url"].as_str().unwrap()).await;
    stage.set(&json!({ "approved": false }));
    let code = stage.bad("complete_reddit_oauth", json!({ "authorization_code": back })).await;
    assert_eq!(code, "approval_required");
}

#[tokio::test]
async fn requests_carry_the_owners_name_once_it_is_known() {
    let stage = stage();
    let name =
        stage.good("get_reddit_user_profile", json!({})).await["user_profile"]["name"].clone();
    let name = name.as_str().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let agent = stage.desk.user_agent(&SERVICE);
    assert_eq!(agent, format!("cli:tollgate:v{version} (by /u/{name})"));
    // From now on nothing else is let in, at the API and at the token endpoint.
    stage.set(&json!({ "strict_agent": true }));
    stage.good("get_user_subreddits", json!({})).await;
    stage.good("refresh_reddit_token", json!({})).await;
    let bare = nobody().sign_in();
    bare.set(&json!({ "strict_agent": true }));
    assert_eq!(bare.bad("get_user_subreddits", json!({})).await, "restricted_resource");
}

#[tokio::test]
async fn a_permission_that_was_not_given_is_told_from_what_others_hide() {
    let stage = nobody();
    stage.sign_in_with(&stage.sandbox.control().tokens_for(&["identity", "history"]));
    let forbidden = Some(r#"{"message":"Forbidden","error":403}"#.to_owned());
    let what = What::Status { code: 403, retry_after: None, reset: None, body: forbidden };
    stage.sandbox.control().fault(Fault::on("/oauth/", what));
    assert_eq!(stage.bad("get_inbox_messages", json!({})).await, "insufficient_scope");
    let other = json!({ "username": "tea_and_types" });
    assert_eq!(stage.bad("get_saved_content", other).await, "restricted_resource");
}
