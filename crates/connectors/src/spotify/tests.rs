//! Every tool against the sandbox: success and failure.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod sync;

use sandbox::{Config, Fault, FaultKind, TokenKind};
use serde_json::{Value, json};

use super::SERVICE;
use crate::testing::{Fixture, signed_out_fixture};
use store::clock::Clock;

fn look(name: &str, url: &str) -> Option<String> {
    Some(match name {
        "SPOTIFY_API_BASE_URL" => format!("{url}/api"),
        "SPOTIFY_OAUTH_BASE_URL" => format!("{url}/accounts"),
        "SPOTIFY_CLIENT_ID" => "sandbox-spotify-client".to_owned(),
        "SPOTIFY_CLIENT_SECRET" => "sandbox-spotify-secret".to_owned(),
        _ => return None,
    })
}

fn signed_out() -> Fixture {
    signed_out_fixture(&SERVICE, Config::spotify(7, 5, Clock::System.now().wall_us), look)
}

fn fixture() -> Fixture {
    signed_out().sign_in()
}

fn fault(fixture: &Fixture, path: &str, what: FaultKind) {
    fixture.sandbox.control().clear_faults();
    fixture.sandbox.control().fault(Fault::on(path, what));
}

fn status(code: u16) -> FaultKind {
    FaultKind::Status { code, retry_after: None, reset: None, body: None }
}

/// The ids of one own playlist and of one that belongs to another user.
fn playlists(fixture: &Fixture) -> (String, String) {
    let id = |kind: &str| {
        let all = fixture.sandbox.control().records(kind).unwrap();
        all[0]["id"].as_str().unwrap().to_owned()
    };
    (id("playlist"), id("other_playlist"))
}

#[tokio::test]
async fn paging_reaches_the_end_of_every_list() {
    let fixture = fixture();
    for (tool, kind) in [
        ("get_user_saved_tracks", "saved_track"),
        ("get_user_saved_albums", "saved_album"),
        ("get_user_saved_shows", "saved_show"),
        ("get_user_saved_episodes", "saved_episode"),
        ("get_user_saved_audiobooks", "saved_audiobook"),
        ("get_current_user_playlists", "playlist"),
    ] {
        let expected = fixture.sandbox.control().records(kind).unwrap().len();
        let (mut offset, mut seen) = (json!(null), 0);
        loop {
            let page = fixture.good(tool, json!({ "limit": "7", "offset": offset })).await;
            assert_eq!(page["total"], expected, "{tool}");
            seen += page["items"].as_array().unwrap().len();
            offset = page["next_offset"].clone();
            if offset.is_null() {
                break;
            }
        }
        assert_eq!(seen, expected, "{tool}");
        let all = fixture.good(tool, json!({ "limit": null, "offset": "null" })).await;
        let shown = all["items"].as_array().unwrap().len();
        let is_cut = all["truncated"] == json!(true);
        assert!(if is_cut { shown < expected } else { shown == expected.min(50) }, "{tool}");
        assert!(!all.to_string().contains("available_markets"), "{tool}");
    }
    let followed = fixture.sandbox.control().records("followed_artist").unwrap().len();
    let (mut after, mut seen) = (json!(""), 0);
    while !after.is_null() {
        let page =
            fixture.good("get_followed_artists", json!({ "limit": 4, "after": after })).await;
        seen += page["artists"].as_array().unwrap().len();
        after = page["next_after"].clone();
    }
    assert_eq!(seen, followed);
    for (kind, range) in [("tracks", "short_term"), ("artists", "long_term")] {
        let asked = json!({ "item_type": kind, "time_range": range, "limit": 3 });
        let top = fixture.good("get_user_top_items", asked).await;
        assert_eq!((&top["item_type"], &top["time_range"]), (&json!(kind), &json!(range)));
        assert_eq!(top["items"].as_array().unwrap().len(), 3);
        assert_eq!(top["next_offset"], 3);
    }
    let plays = fixture.good("get_user_recently_played", json!({ "limit": 5 })).await;
    assert_eq!(plays["total_tracks"], 5);
    assert!(plays["tracks"][0]["track_name"].is_string());
    let before = plays["cursors"]["before"].as_str().unwrap();
    let older = fixture.good("get_user_recently_played", json!({ "before": before })).await;
    assert!(older["tracks"][0]["played_at"].as_str() < plays["tracks"][4]["played_at"].as_str());
}

#[tokio::test]
async fn a_profile_may_lack_fields() {
    let fixture = fixture();
    let me = fixture.good("get_current_user_profile", json!({})).await;
    assert!(me["user_profile"]["id"].is_string());
    assert!(me["user_profile"]["account_id"].is_string());
    assert!(me["user_profile"]["email"].is_null());
    assert_eq!(fixture.good("get_spotify_user_profile", json!({})).await, me);
    fixture.set(&json!({ "mode": "extended" }));
    let me = fixture.good("get_current_user_profile", json!({})).await;
    assert_eq!(me["user_profile"]["email"], "listener@example.com");
    let tested = fixture.good("test_spotify_credentials", json!({})).await;
    assert!(tested["result"].as_str().unwrap().contains("works"));
    let config = fixture.good("get_spotify_config", json!({})).await;
    assert!(config["result"].as_str().unwrap().contains("Login: valid"));
}

#[tokio::test]
async fn a_removed_path_is_remembered_and_not_retried() {
    for removed_status in [403, 404] {
        let fixture = fixture();
        fixture.set(&json!({ "removed_status": removed_status }));
        let me = fixture.good("get_current_user_profile", json!({})).await;
        let own = me["user_profile"]["id"].clone();
        let other = json!({ "user_id": "somebody_else" });
        assert_eq!(fixture.bad("get_user_profile", other.clone()).await, "removed_by_upstream");
        let before = fixture.sandbox.control().counters().requests;
        assert_eq!(fixture.bad("get_user_playlists", other).await, "removed_by_upstream");
        // Only the owner's id is fetched; the removed path is not tried again.
        assert_eq!(fixture.sandbox.control().counters().requests, before + 1);
        let mine = fixture.good("get_user_profile", json!({ "user_id": own })).await;
        assert_eq!(mine["user_profile"]["id"], own);
        let lists = fixture.good("get_user_playlists", json!({ "user_id": own, "limit": 2 })).await;
        assert_eq!(lists["items"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn an_application_that_still_has_the_old_paths_uses_them() {
    let fixture = fixture();
    fixture.set(&json!({ "mode": "extended" }));
    let (_, other) = playlists(&fixture);
    let owner =
        fixture.sandbox.control().records("other_playlist").unwrap()[0]["owner"]["id"].clone();
    let user = fixture.good("get_user_profile", json!({ "user_id": owner })).await;
    assert_eq!(user["user_profile"]["id"], owner);
    let lists = fixture.good("get_user_playlists", json!({ "user_id": owner })).await;
    assert!(lists["total"].as_u64().unwrap() > 0);
    assert_eq!(
        fixture.bad("get_user_profile", json!({ "user_id": "no-such-user" })).await,
        "not_found"
    );
    let items = fixture.good("get_playlist_items", json!({ "playlist_id": other })).await;
    assert!(items["items"].is_array());
    let artist = json!({ "ids": "0OdUWJ0sBjDrqHygGUXeCF" });
    fixture.good("follow_artists_or_users", artist.clone()).await;
    fixture.good("unfollow_artists_or_users", artist).await;
}

#[tokio::test]
async fn entries_of_own_playlists_only() {
    let fixture = fixture();
    let (own, other) = playlists(&fixture);
    let expected = fixture.sandbox.control().records("playlist_item").unwrap();
    let expected = expected.iter().filter(|item| item["playlist"] == own.as_str()).count();
    let uri = format!("spotify:playlist:{own}");
    let (mut offset, mut seen) = (json!(0), Vec::new());
    while !offset.is_null() {
        let asked = json!({ "playlist_id": uri, "offset": offset });
        let page = fixture.good("get_playlist_items", asked).await;
        seen.extend(page["items"].as_array().unwrap().clone());
        offset = page["next_offset"].clone();
    }
    assert_eq!(seen.len(), expected);
    assert!(seen.iter().all(|entry| entry.get("track").is_some() && entry.get("item").is_none()));
    let asked = json!({ "playlist_id": other });
    assert_eq!(fixture.bad("get_playlist_items", asked.clone()).await, "restricted_resource");
    assert_eq!(fixture.bad("get_playlist_items", asked).await, "restricted_resource");
    let unknown = json!({ "playlist_id": "0000000000000000000000" });
    assert_eq!(fixture.bad("get_playlist_items", unknown).await, "not_found");
}

#[tokio::test]
async fn following_goes_through_the_library() {
    let fixture = fixture();
    let (_, other) = playlists(&fixture);
    let has = |fixture: &Fixture, kind: &str, id: &str| {
        fixture.sandbox.control().record(kind, id).is_ok()
    };
    for public in [true, false] {
        let asked = json!({ "playlist_id": other, "public": public });
        fixture.good("follow_playlist", asked).await;
        assert!(has(&fixture, "playlist", &other));
        fixture.good("unfollow_playlist", json!({ "playlist_id": other })).await;
        assert!(!has(&fixture, "playlist", &other));
    }
    let many: Vec<String> = (0..90).map(|n| format!("user{n}")).collect();
    let users = json!({ "ids": many.join(","), "follow_type": "user" });
    fixture.good("follow_artists_or_users", users.clone()).await;
    assert!(has(&fixture, "followed_user", "user89"));
    fixture.good("unfollow_artists_or_users", users).await;
    assert!(!has(&fixture, "followed_user", "user89"));
    let artist = json!({ "ids": "0OdUWJ0sBjDrqHygGUXeCF" });
    for _ in 0..2 {
        let code = fixture.bad("follow_artists_or_users", artist.clone()).await;
        assert_eq!(code, "removed_by_upstream");
    }
    fixture.set(&json!({ "artist_uris": true }));
    fixture.good("follow_artists_or_users", artist.clone()).await;
    fixture.good("unfollow_artists_or_users", artist).await;
}

#[tokio::test]
async fn invalid_arguments_are_refused_without_a_request() {
    let fixture = fixture();
    let before = fixture.sandbox.control().counters().requests;
    for (tool, arguments) in [
        ("get_user_top_items", json!({ "item_type": "albums" })),
        ("get_user_top_items", json!({ "time_range": "for ever" })),
        ("get_user_saved_tracks", json!({ "limit": "many" })),
        ("get_user_saved_tracks", json!({ "offset": -1 })),
        ("get_user_profile", json!({})),
        ("get_user_profile", json!({ "user_id": "../me" })),
        ("get_playlist_items", json!({ "playlist_id": "a?b#c\n" })),
        ("get_playlist_items", json!({ "playlist_id": null })),
        ("follow_playlist", json!({ "playlist_id": "" })),
        ("follow_artists_or_users", json!({ "ids": "null" })),
        ("follow_artists_or_users", json!({ "ids": "a,../b" })),
        ("unfollow_artists_or_users", json!({ "ids": "a", "follow_type": "band" })),
        ("get_user_recently_played", json!({ "before": 1, "after": 2 })),
        ("complete_spotify_oauth", json!({ "authorization_code": "x" })),
        ("setup_spotify_oauth", json!({ "redirect_uri": "http://localhost:8888/callback" })),
        ("setup_spotify_oauth", json!({ "redirect_uri": "http://evil.example/" })),
    ] {
        assert_eq!(fixture.bad(tool, arguments.clone()).await, "invalid_argument", "{arguments}");
    }
    assert_eq!(fixture.sandbox.control().counters().requests, before);
}

#[tokio::test]
async fn bad_responses_become_problems() {
    let fixture = fixture();
    let tool = "get_user_saved_tracks";
    for (settings, code) in [
        (json!({ "premium": false }), "premium_required"),
        (json!({ "premium": true, "allowlisted": false }), "user_not_allowlisted"),
    ] {
        fixture.set(&settings);
        assert_eq!(fixture.bad(tool, json!({})).await, code);
    }
    fixture.set(&json!({ "allowlisted": true }));
    let far =
        FaultKind::Status { code: 429, retry_after: Some("600".into()), reset: None, body: None };
    for (what, code) in [
        (status(403), "restricted_resource"),
        (status(404), "not_found"),
        (status(400), "invalid_argument"),
        (FaultKind::Html, "upstream_error"),
        (FaultKind::Garbage, "upstream_error"),
        (FaultKind::Truncate, "upstream_error"),
        (far, "rate_limited"),
    ] {
        let shown = format!("{what:?}");
        fault(&fixture, "/api/v1/me/tracks", what);
        assert_eq!(fixture.bad(tool, json!({})).await, code, "{shown}");
    }
}

#[tokio::test]
async fn a_scope_that_was_not_granted_is_named() {
    let fixture = signed_out();
    fixture.sign_in_with(&fixture.sandbox.control().tokens_for(&["user-read-private"]));
    assert_eq!(fixture.bad("get_user_saved_tracks", json!({})).await, "insufficient_scope");
    let problem = fixture.problem("get_user_saved_tracks", json!({})).await;
    assert!(problem["message"].as_str().unwrap().contains("user-library-read"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("tollgate connect spotify"), "{problem}");
}

/// Some refusals are plain text.
#[tokio::test]
async fn a_plain_text_refusal_is_understood() {
    let fixture = fixture();
    for (message, code) in [
        ("User not registered in the Developer Dashboard", "user_not_allowlisted"),
        ("Active premium subscription required for the owner of the app.", "premium_required"),
        (r#"{"error":"Insufficient client scope"}"#, "insufficient_scope"),
        ("<html>Forbidden</html>", "restricted_resource"),
    ] {
        let body = Some(message.to_owned());
        fault(
            &fixture,
            "/api",
            FaultKind::Status { code: 403, retry_after: None, reset: None, body },
        );
        assert_eq!(fixture.bad("get_current_user_profile", json!({})).await, code, "{message}");
    }
}

#[tokio::test]
async fn an_environment_token_is_used_until_sign_in() {
    let mut fixture = signed_out();
    let token = fixture.sandbox.control().tokens()["access_token"].as_str().unwrap().to_owned();
    let mut settings = fixture.ctx.settings.of(&SERVICE).unwrap().clone();
    settings.access = Some(store::secret::Secret::new(token.as_str()));
    fixture.ctx.settings.put(&SERVICE, settings);
    fixture.good("get_user_saved_tracks", json!({ "limit": 1 })).await;
    let told = fixture.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"]["has_refresh_token"], false);
    assert!(!told.to_string().contains(&token));
    fixture.sandbox.control().expire(TokenKind::Access);
    assert_eq!(fixture.bad("get_user_saved_tracks", json!({})).await, "auth_expired");
    assert_eq!(fixture.sandbox.control().counters().refreshes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_calls_with_an_expired_token_make_one_refresh() {
    let fixture = fixture();
    let before = fixture.ctx.accounts.load("spotify").unwrap().unwrap();
    fixture.sandbox.control().expire(TokenKind::Access);
    let calls = (0..10).map(|_| fixture.good("get_user_saved_tracks", json!({ "limit": 1 })));
    assert_eq!(crate::sync::all(calls).await.len(), 10);
    assert_eq!(fixture.sandbox.control().counters().refreshes, 1);
    // The response has no refresh token; the stored one is kept.
    let after = fixture.ctx.accounts.load("spotify").unwrap().unwrap();
    assert!(after.access != before.access && after.refresh == before.refresh);
}

#[tokio::test]
async fn an_expired_login_says_what_to_run() {
    let fixture = fixture();
    let told = fixture.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"]["state"], "valid");
    assert_eq!(told["token_info"]["consent_days_left"], 179);
    let told = fixture.good("refresh_spotify_token", json!({})).await;
    assert_eq!(told["token_refreshed"], true);
    assert!(told["expires_in_seconds"].as_i64().unwrap() > 3_000);
    let told = fixture.good("auto_refresh_spotify_token_if_needed", json!({})).await;
    assert_eq!(told["token_refreshed"], false);
    fixture.sandbox.control().expire(TokenKind::Refresh);
    fixture.sandbox.control().expire(TokenKind::Access);
    for tool in ["get_user_saved_tracks", "refresh_spotify_token"] {
        assert_eq!(fixture.bad(tool, json!({})).await, "reauthorization_required", "{tool}");
    }
    let told = fixture.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"]["state"], "ended");
    let problem = fixture.problem("get_user_saved_tracks", json!({})).await;
    let hint = problem["hint"].as_str().unwrap();
    assert!(hint.contains("tollgate connect spotify") && hint.contains("setup_spotify_oauth"));
    // The token is revoked, so it is deleted.
    assert!(fixture.ctx.accounts.load("spotify").unwrap().unwrap().refresh.is_none());
}

#[tokio::test]
async fn without_a_login_tools_say_how_to_connect() {
    let fixture = signed_out();
    for tool in super::CONNECTOR.tools {
        if tool.name.starts_with("get_spotify_") && !tool.name.ends_with("profile")
            || tool.name.contains("_oauth")
        {
            continue;
        }
        let arguments = json!({ "user_id": "a", "playlist_id": "a", "ids": "a" });
        assert_eq!(fixture.bad(tool.name, arguments).await, "not_configured", "{}", tool.name);
    }
    let told = fixture.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"], json!({ "has_tokens": false, "state": "not_configured" }));
}

#[tokio::test]
async fn long_lists_are_cut_and_give_the_next_offset() {
    let fixture = fixture();
    let (own, _) = playlists(&fixture);
    for (tool, kind, extra) in [
        ("get_user_saved_albums", "saved_album", json!({})),
        ("get_user_saved_tracks", "saved_track", json!({})),
        ("get_playlist_items", "", json!({ "playlist_id": own })),
    ] {
        let (mut offset, mut seen, mut total) = (json!(0), 0, json!(null));
        while !offset.is_null() {
            let mut arguments = extra.clone();
            arguments["offset"] = offset.clone();
            let page = fixture.good(tool, arguments).await;
            assert!(page.to_string().len() <= 52_000, "{tool}: {}", page.to_string().len());
            let shown = page["items"].as_array().unwrap().len();
            seen += shown;
            let is_cut = page["truncated"] == json!(true);
            assert_eq!(is_cut, page["hint"].is_string(), "{tool}");
            total = page["total"].clone();
            offset = page["next_offset"].clone();
        }
        if kind.is_empty() {
            assert!(
                seen > 0 && seen as u64 <= total.as_u64().unwrap(),
                "{tool}: {seen} of {total}"
            );
        } else {
            assert_eq!(seen, fixture.sandbox.control().records(kind).unwrap().len(), "{tool}");
        }
    }
}

#[tokio::test]
async fn a_sign_in_uses_the_configured_application_whatever_an_agent_sends() {
    let fixture = signed_out();
    let said = json!({ "client_id": "foreign-app", "client_secret": "invented" });
    let begun = fixture.good("setup_spotify_oauth", said).await;
    let url = url::Url::parse(begun["authorization_url"].as_str().unwrap()).unwrap();
    let client = url.query_pairs().find(|(name, _)| name == "client_id").unwrap().1.into_owned();
    assert_eq!(client, "sandbox-spotify-client");
}

#[tokio::test]
async fn an_agent_can_sign_in_without_seeing_a_secret() {
    let fixture = signed_out();
    let begun = fixture.good("setup_spotify_oauth", json!({ "client_id": "" })).await;
    let url = url::Url::parse(begun["authorization_url"].as_str().unwrap()).unwrap();
    let asked: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    assert!(asked.contains(&"state".to_owned()) && asked.contains(&"code_challenge".to_owned()));
    assert_eq!(begun["redirect_uri"], "http://127.0.0.1:8888/callback");
    let wrong =
        json!({ "authorization_code": "http://127.0.0.1:8888/callback?code=x&state=other" });
    assert_eq!(fixture.bad("complete_spotify_oauth", wrong).await, "invalid_argument");
    // Acts as the browser: the sandbox consents at once and redirects with a code.
    let base =
        crate::BaseUrl::parse(&format!("{}/accounts/authorize", fixture.sandbox.url())).unwrap();
    let mut request = crate::http::Request::get(&base, &[]);
    for (name, value) in url.query_pairs() {
        request = request.query(&name, &value);
    }
    let reply = fixture.ctx.http.send(request).await.unwrap();
    let back = reply.header("location").unwrap().to_owned();
    let done = fixture.good("complete_spotify_oauth", json!({ "authorization_code": back })).await;
    assert_eq!(done["tokens_saved"], true);
    let me: Value = fixture.good("get_current_user_profile", json!({})).await;
    assert_eq!(me["status"], "success");
}
