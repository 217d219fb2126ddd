//! Every tool against the sandbox: success and failure.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashSet;

use sandbox::{Config, Fault, FaultKind, TokenKind};
use serde_json::{Value, json};
use store::clock::Clock;

use super::SERVICE;
use crate::testing::{Fixture, signed_out_fixture};

fn look(name: &str, url: &str) -> Option<String> {
    Some(match name {
        "REDDIT_API_BASE_URL" => format!("{url}/oauth"),
        "REDDIT_OAUTH_BASE_URL" => format!("{url}/www"),
        "REDDIT_CLIENT_ID" => "sandbox-reddit-client".to_owned(),
        "REDDIT_CLIENT_SECRET" => "sandbox-reddit-secret".to_owned(),
        _ => return None,
    })
}

fn signed_out() -> Fixture {
    signed_out_fixture(&SERVICE, Config::reddit(7, 20, Clock::System.now().wall_us), look)
}

fn fixture() -> Fixture {
    signed_out().sign_in()
}

fn status(code: u16) -> FaultKind {
    FaultKind::Status { code, retry_after: None, reset: None, body: None }
}

/// False for the sign-in and status tools.
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
async fn paging_reaches_the_end_of_every_list() {
    let fixture = fixture();
    for (tool, key, kind) in LISTS {
        let expected = fixture.sandbox.control().records(kind).unwrap().len();
        let (mut after, mut seen) = (json!(null), HashSet::new());
        loop {
            let page = fixture.good(tool, json!({ "limit": "60", "after": after })).await;
            let items = page[*key].as_array().unwrap();
            assert_eq!(page["count"], items.len(), "{tool}");
            seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
            after = page["after"].clone();
            if after.is_null() {
                break;
            }
        }
        assert_eq!(seen.len(), expected, "{tool}");
        let usual = fixture.good(tool, json!({ "limit": 5_000, "access_token": "null" })).await;
        assert_eq!(usual["count"], expected.min(100), "{tool}");
    }
}

#[tokio::test]
async fn the_other_tools_work() {
    let fixture = fixture();
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
        let answer = fixture.good(tool, arguments).await;
        for key in keys {
            assert!(!answer[*key].is_null(), "{tool}: no {key} in {answer}");
        }
    }
    let unread = fixture.good("get_unread_messages", json!({})).await;
    assert_eq!(unread["count"], 3);
    let trophies = fixture.good("get_user_trophies", json!({})).await;
    assert_eq!(trophies["trophies"][0]["name"], "Twelve-Year Club");
}

#[tokio::test]
async fn items_keep_their_kind_text_and_url() {
    let fixture = fixture();
    let saved = fixture.good("get_saved_content", json!({})).await;
    let kinds: HashSet<&str> = saved["saved_content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, HashSet::from(["post", "comment"]));
    let overview = fixture.good("get_user_overview", json!({})).await;
    for thing in overview["overview"].as_array().unwrap() {
        assert!(!thing.to_string().contains("&amp;"), "{thing}");
        let link = thing["permalink"].as_str().unwrap();
        assert!(link.starts_with("https://www.reddit.com/r/"), "{link}");
        assert!(thing["created_at"].as_str().unwrap().ends_with('Z'), "{thing}");
    }
}

#[tokio::test]
async fn the_redirect_url_completes_a_sign_in() {
    let fixture = signed_out();
    let begun = fixture.good("setup_reddit_oauth", json!({})).await;
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
        (json!({ "authorization_code": "invented-code" }), "auth_expired"),
        (json!({ "authorization_code": "anything" }), "invalid_argument"),
    ] {
        assert_eq!(
            fixture.bad("complete_reddit_oauth", arguments.clone()).await,
            code,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn invalid_arguments_are_named() {
    let fixture = fixture();
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
        assert_eq!(fixture.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn a_login_without_the_scopes_says_so() {
    let fixture = signed_out();
    fixture.sign_in_with(&fixture.sandbox.control().tokens_for(&["identity"]));
    for tool in
        ["get_inbox_messages", "get_unread_messages", "get_sent_messages", "get_user_subreddits"]
    {
        assert_eq!(fixture.bad(tool, json!({})).await, "insufficient_scope", "{tool}");
    }
    fixture.good("get_reddit_user_profile", json!({})).await;
}

#[tokio::test]
async fn without_approval_every_tool_says_what_to_do() {
    let fixture = fixture();
    fixture.set(&json!({ "approved": false }));
    for tool in super::CONNECTOR.tools.iter().filter(|tool| is_data(tool.name)) {
        assert_eq!(fixture.bad(tool.name, json!({})).await, "approval_required", "{}", tool.name);
    }
    assert_eq!(fixture.bad("refresh_reddit_token", json!({})).await, "approval_required");
    fixture.good("setup_reddit_oauth", json!({})).await;
    let code = json!({ "authorization_code": "abc" });
    assert_eq!(fixture.bad("complete_reddit_oauth", code).await, "approval_required");
    let none = signed_out_fixture(
        &SERVICE,
        Config::reddit(7, 1, Clock::System.now().wall_us),
        |name, url| look(name, url).filter(|_| name.ends_with("_BASE_URL")),
    );
    for tool in ["get_user_comments", "setup_reddit_oauth", "refresh_reddit_token"] {
        assert_eq!(none.bad(tool, json!({})).await, "approval_required", "{tool}");
    }
    let config = none.good("get_reddit_config", json!({})).await;
    assert_eq!(config["status"], "not_configured");
}

#[tokio::test]
async fn a_missing_login_differs_from_an_expired_one() {
    let fixture = signed_out();
    for tool in super::CONNECTOR.tools.iter().filter(|tool| is_data(tool.name)) {
        assert_eq!(fixture.bad(tool.name, json!({})).await, "not_configured", "{}", tool.name);
    }
    let standing = fixture.good("get_reddit_token_status", json!({})).await;
    assert_eq!(standing["token_info"]["has_tokens"], false);
    let fixture = fixture.sign_in();
    fixture.sandbox.control().expire(TokenKind::Access);
    fixture.good("get_reddit_user_profile", json!({})).await;
    fixture.sandbox.control().expire(TokenKind::All);
    assert_eq!(fixture.bad("get_user_comments", json!({})).await, "auth_expired");
}

#[tokio::test]
async fn bad_responses_become_problems() {
    let fixture = fixture();
    for (what, code) in [
        (FaultKind::Html, "upstream_error"),
        (FaultKind::Garbage, "upstream_error"),
        (FaultKind::Truncate, "upstream_error"),
        (status(404), "not_found"),
        (status(403), "restricted_resource"),
    ] {
        fixture.sandbox.control().clear_faults();
        fixture.sandbox.control().fault(Fault::on("/oauth/", what));
        for tool in ["get_user_subreddits", "get_user_trophies", "get_user_overview"] {
            assert_eq!(fixture.bad(tool, json!({})).await, code, "{tool}");
        }
    }
    fixture.sandbox.control().clear_faults();
    fixture.set(&json!({ "limits": [[1, 86_400]] }));
    let first: Value = fixture.good("get_user_trophies", json!({})).await;
    assert_eq!(first["status"], "success");
    assert_eq!(fixture.bad("get_user_trophies", json!({})).await, "rate_limited");
}

#[tokio::test]
async fn written_saved_and_voted_items_are_mirrored() {
    use super::mirror::MIRROR;
    use crate::sync::{EventsRequest, SyncRequest, run};
    const KINDS: [(&str, &str); 6] = [
        ("posts", "post"),
        ("comments", "comment"),
        ("saved", "saved"),
        ("upvoted", "upvoted"),
        ("downvoted", "downvoted"),
        ("hidden", "hidden"),
    ];
    let fixture = fixture();
    let all = |kind: &str| fixture.sandbox.control().records(kind).unwrap();
    let kept =
        |kind: &str| usize::try_from(fixture.ctx.records.count("reddit", kind).unwrap()).unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
    for (kind, of) in KINDS {
        assert_eq!(kept(kind), all(of).len(), "{kind}");
    }
    assert!(kept("messages") > 0 && kept("subreddits") > 0);
    let before = kept("saved");
    let gone = all("saved")[0]["data"]["name"].as_str().unwrap().to_owned();
    let row = fixture.ctx.records.one("reddit", "saved", &gone).unwrap().unwrap();
    let flat: Value = serde_json::from_str(&row.flat).unwrap();
    assert!(flat["link"].as_str().unwrap().starts_with("https://www.reddit.com/"), "{flat}");
    fixture.sandbox.control().remove("saved", &gone).unwrap();
    let full = SyncRequest { full: true, ..SyncRequest::default() };
    let again = run(&fixture.ctx, &MIRROR, &full, &|_| {}).await.unwrap().value();
    assert_eq!(again["resources"]["posts"]["records_upserted"], 0, "{again}");
    assert_eq!(again["resources"]["saved"]["records_removed"], 1, "{again}");
    assert_eq!(kept("saved"), before - 1);
    // Events are ordered by when the sync saw a change, not by when the item was written.
    let hour_ago = crate::when::utc_micros(fixture.ctx.clock.now().wall_us - 3_600_000_000);
    let asked = EventsRequest { since: &hour_ago, until: None, resources: None, limit: 5_000 };
    let told = (MIRROR.events)(&fixture.ctx, &asked).unwrap();
    let told = told["events"].as_array().unwrap();
    let saved = told.iter().filter(|event| event["resource"] == "saved").count();
    assert_eq!(saved, before, "each of them once");
    assert_eq!(told.iter().filter(|event| event["removed"] == true).count(), 1);
}

/// Acts as the browser: the sandbox consents at once and redirects with a code.
async fn consent(fixture: &Fixture, address: &str) -> String {
    let url = url::Url::parse(address).unwrap();
    let base = format!("{}/www/api/v1/authorize", fixture.sandbox.url());
    let mut request = crate::http::Request::get(&crate::BaseUrl::parse(&base).unwrap(), &[]);
    for (name, value) in url.query_pairs() {
        request = request.query(&name, &value);
    }
    let reply = fixture.ctx.http.send(request).await.unwrap();
    reply.header("location").unwrap().to_owned()
}

#[tokio::test]
async fn an_agent_can_sign_in_and_read_all_lists() {
    let fixture = signed_out();
    let begun = fixture.good("setup_reddit_oauth", json!({ "client_id": "" })).await;
    let address = begun["authorization_url"].as_str().unwrap();
    assert!(address.contains("state=") && address.contains("duration=permanent"), "{address}");
    let wrong = json!({ "authorization_code": "http://localhost:8888/callback?code=x&state=y" });
    assert_eq!(fixture.bad("complete_reddit_oauth", wrong).await, "invalid_argument");
    let back = consent(&fixture, address).await;
    let done = fixture.good("complete_reddit_oauth", json!({ "authorization_code": back })).await;
    assert_eq!(done["tokens_saved"], true);
    let told = fixture.good("get_reddit_token_status", json!({})).await;
    assert_eq!(told["token_info"]["has_refresh_token"], true);
    for (tool, key, _) in LISTS {
        assert!(fixture.good(tool, json!({})).await[*key].is_array(), "{tool}");
    }
    // A code works once.
    let again = json!({ "authorization_code": "used" });
    assert_eq!(fixture.bad("complete_reddit_oauth", again).await, "invalid_argument");
}

#[tokio::test]
async fn a_refused_sign_in_is_reported() {
    let fixture = signed_out();
    let begun = fixture.good("setup_reddit_oauth", json!({})).await;
    let back = consent(&fixture, begun["authorization_url"].as_str().unwrap()).await;
    fixture.set(&json!({ "approved": false }));
    let code = fixture.bad("complete_reddit_oauth", json!({ "authorization_code": back })).await;
    assert_eq!(code, "approval_required");
}

#[tokio::test]
async fn requests_carry_the_owners_name_once_it_is_known() {
    let fixture = fixture();
    let name =
        fixture.good("get_reddit_user_profile", json!({})).await["user_profile"]["name"].clone();
    let name = name.as_str().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let agent = fixture.ctx.user_agent(&SERVICE);
    assert_eq!(agent, format!("cli:tollgate:v{version} (by /u/{name})"));
    // From now on the API and the token endpoint refuse any other user agent.
    fixture.set(&json!({ "strict_agent": true }));
    fixture.good("get_user_subreddits", json!({})).await;
    fixture.good("refresh_reddit_token", json!({})).await;
    let bare = signed_out().sign_in();
    bare.set(&json!({ "strict_agent": true }));
    assert_eq!(bare.bad("get_user_subreddits", json!({})).await, "restricted_resource");
}

#[tokio::test]
async fn a_missing_scope_differs_from_private_content() {
    let fixture = signed_out();
    fixture.sign_in_with(&fixture.sandbox.control().tokens_for(&["identity", "history"]));
    let forbidden = Some(r#"{"message":"Forbidden","error":403}"#.to_owned());
    let what = FaultKind::Status { code: 403, retry_after: None, reset: None, body: forbidden };
    fixture.sandbox.control().fault(Fault::on("/oauth/", what));
    assert_eq!(fixture.bad("get_inbox_messages", json!({})).await, "insufficient_scope");
    let other = json!({ "username": "tea_and_types" });
    assert_eq!(fixture.bad("get_saved_content", other).await, "restricted_resource");
}
