//! Every tool against the sandbox, good and bad.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod sync;

use sandbox::{Config, Fault, What, Which};
use serde_json::{Value, json};

use super::SERVICE;
use crate::personal::stage::{Stage, stranger};
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

fn nobody() -> Stage {
    stranger(&SERVICE, Config::spotify(7, 5, Clock::System.now().wall_us), look)
}

fn stage() -> Stage {
    nobody().sign_in()
}

fn fault(stage: &Stage, path: &str, what: What) {
    stage.sandbox.control().clear_faults();
    stage.sandbox.control().fault(Fault::on(path, what));
}

fn status(code: u16) -> What {
    What::Status { code, retry_after: None, reset: None, body: None }
}

/// Whose playlists are whose: the id of an own one, and of another's.
fn playlists(stage: &Stage) -> (String, String) {
    let id = |kind: &str| {
        let all = stage.sandbox.control().records(kind).unwrap();
        all[0]["id"].as_str().unwrap().to_owned()
    };
    (id("playlist"), id("other_playlist"))
}

#[tokio::test]
async fn lists_lead_to_their_end_page_by_page() {
    let stage = stage();
    for (tool, kind) in [
        ("get_user_saved_tracks", "saved_track"),
        ("get_user_saved_albums", "saved_album"),
        ("get_user_saved_shows", "saved_show"),
        ("get_user_saved_episodes", "saved_episode"),
        ("get_user_saved_audiobooks", "saved_audiobook"),
        ("get_current_user_playlists", "playlist"),
    ] {
        let expected = stage.sandbox.control().records(kind).unwrap().len();
        let (mut offset, mut seen) = (json!(null), 0);
        loop {
            let page = stage.good(tool, json!({ "limit": "7", "offset": offset })).await;
            assert_eq!(page["total"], expected, "{tool}");
            seen += page["items"].as_array().unwrap().len();
            offset = page["next_offset"].clone();
            if offset.is_null() {
                break;
            }
        }
        assert_eq!(seen, expected, "{tool}");
        let all = stage.good(tool, json!({ "limit": null, "offset": "null" })).await;
        let shown = all["items"].as_array().unwrap().len();
        let is_cut = all["truncated"] == json!(true);
        assert!(if is_cut { shown < expected } else { shown == expected.min(50) }, "{tool}");
        assert!(!all.to_string().contains("available_markets"), "{tool}");
    }
    let followed = stage.sandbox.control().records("followed_artist").unwrap().len();
    let (mut after, mut seen) = (json!(""), 0);
    while !after.is_null() {
        let page = stage.good("get_followed_artists", json!({ "limit": 4, "after": after })).await;
        seen += page["artists"].as_array().unwrap().len();
        after = page["next_after"].clone();
    }
    assert_eq!(seen, followed);
    for (kind, range) in [("tracks", "short_term"), ("artists", "long_term")] {
        let asked = json!({ "item_type": kind, "time_range": range, "limit": 3 });
        let top = stage.good("get_user_top_items", asked).await;
        assert_eq!((&top["item_type"], &top["time_range"]), (&json!(kind), &json!(range)));
        assert_eq!(top["items"].as_array().unwrap().len(), 3);
        assert_eq!(top["next_offset"], 3);
    }
    let plays = stage.good("get_user_recently_played", json!({ "limit": 5 })).await;
    assert_eq!(plays["total_tracks"], 5);
    assert!(plays["tracks"][0]["track_name"].is_string());
    let before = plays["cursors"]["before"].as_str().unwrap();
    let older = stage.good("get_user_recently_played", json!({ "before": before })).await;
    assert!(older["tracks"][0]["played_at"].as_str() < plays["tracks"][4]["played_at"].as_str());
}

#[tokio::test]
async fn a_profile_is_shown_with_what_there_is() {
    let stage = stage();
    let me = stage.good("get_current_user_profile", json!({})).await;
    assert!(me["user_profile"]["id"].is_string());
    assert!(me["user_profile"]["account_id"].is_string());
    assert!(me["user_profile"]["email"].is_null());
    assert_eq!(stage.good("get_spotify_user_profile", json!({})).await, me);
    stage.set(&json!({ "mode": "extended" }));
    let me = stage.good("get_current_user_profile", json!({})).await;
    assert_eq!(me["user_profile"]["email"], "listener@example.com");
    let tested = stage.good("test_spotify_credentials", json!({})).await;
    assert!(tested["result"].as_str().unwrap().contains("works"));
    let config = stage.good("get_spotify_config", json!({})).await;
    assert!(config["result"].as_str().unwrap().contains("Login: valid"));
}

#[tokio::test]
async fn what_spotify_removed_is_said_once_and_remembered() {
    for removed_status in [403, 404] {
        let stage = stage();
        stage.set(&json!({ "removed_status": removed_status }));
        let me = stage.good("get_current_user_profile", json!({})).await;
        let own = me["user_profile"]["id"].clone();
        let other = json!({ "user_id": "somebody_else" });
        assert_eq!(stage.bad("get_user_profile", other.clone()).await, "removed_by_upstream");
        let before = stage.sandbox.control().counters().requests;
        assert_eq!(stage.bad("get_user_playlists", other).await, "removed_by_upstream");
        // The owner's id is looked at; the dead path is not tried again.
        assert_eq!(stage.sandbox.control().counters().requests, before + 1);
        let mine = stage.good("get_user_profile", json!({ "user_id": own })).await;
        assert_eq!(mine["user_profile"]["id"], own);
        let lists = stage.good("get_user_playlists", json!({ "user_id": own, "limit": 2 })).await;
        assert_eq!(lists["items"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn an_application_that_still_has_the_old_paths_uses_them() {
    let stage = stage();
    stage.set(&json!({ "mode": "extended" }));
    let (_, other) = playlists(&stage);
    let owner =
        stage.sandbox.control().records("other_playlist").unwrap()[0]["owner"]["id"].clone();
    let user = stage.good("get_user_profile", json!({ "user_id": owner })).await;
    assert_eq!(user["user_profile"]["id"], owner);
    let lists = stage.good("get_user_playlists", json!({ "user_id": owner })).await;
    assert!(lists["total"].as_u64().unwrap() > 0);
    assert_eq!(stage.bad("get_user_profile", json!({ "user_id": "nobody" })).await, "not_found");
    let items = stage.good("get_playlist_items", json!({ "playlist_id": other })).await;
    assert!(items["items"].is_array());
    let artist = json!({ "ids": "0OdUWJ0sBjDrqHygGUXeCF" });
    stage.good("follow_artists_or_users", artist.clone()).await;
    stage.good("unfollow_artists_or_users", artist).await;
}

#[tokio::test]
async fn entries_of_own_playlists_only() {
    let stage = stage();
    let (own, other) = playlists(&stage);
    let expected = stage.sandbox.control().records("playlist_item").unwrap();
    let expected = expected.iter().filter(|item| item["playlist"] == own.as_str()).count();
    let uri = format!("spotify:playlist:{own}");
    let (mut offset, mut seen) = (json!(0), Vec::new());
    while !offset.is_null() {
        let asked = json!({ "playlist_id": uri, "offset": offset });
        let page = stage.good("get_playlist_items", asked).await;
        seen.extend(page["items"].as_array().unwrap().clone());
        offset = page["next_offset"].clone();
    }
    assert_eq!(seen.len(), expected);
    assert!(seen.iter().all(|entry| entry.get("track").is_some() && entry.get("item").is_none()));
    let asked = json!({ "playlist_id": other });
    assert_eq!(stage.bad("get_playlist_items", asked.clone()).await, "restricted_resource");
    assert_eq!(stage.bad("get_playlist_items", asked).await, "restricted_resource");
    let unknown = json!({ "playlist_id": "0000000000000000000000" });
    assert_eq!(stage.bad("get_playlist_items", unknown).await, "not_found");
}

#[tokio::test]
async fn following_goes_through_the_library() {
    let stage = stage();
    let (_, other) = playlists(&stage);
    let has =
        |stage: &Stage, kind: &str, id: &str| stage.sandbox.control().record(kind, id).is_ok();
    for public in [true, false] {
        let asked = json!({ "playlist_id": other, "public": public });
        stage.good("follow_playlist", asked).await;
        assert!(has(&stage, "playlist", &other));
        stage.good("unfollow_playlist", json!({ "playlist_id": other })).await;
        assert!(!has(&stage, "playlist", &other));
    }
    let many: Vec<String> = (0..90).map(|n| format!("user{n}")).collect();
    let users = json!({ "ids": many.join(","), "follow_type": "user" });
    stage.good("follow_artists_or_users", users.clone()).await;
    assert!(has(&stage, "followed_user", "user89"));
    stage.good("unfollow_artists_or_users", users).await;
    assert!(!has(&stage, "followed_user", "user89"));
    let artist = json!({ "ids": "0OdUWJ0sBjDrqHygGUXeCF" });
    for _ in 0..2 {
        let code = stage.bad("follow_artists_or_users", artist.clone()).await;
        assert_eq!(code, "removed_by_upstream");
    }
    stage.set(&json!({ "artist_uris": true }));
    stage.good("follow_artists_or_users", artist.clone()).await;
    stage.good("unfollow_artists_or_users", artist).await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_before_anything_is_asked() {
    let stage = stage();
    let before = stage.sandbox.control().counters().requests;
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
        assert_eq!(stage.bad(tool, arguments.clone()).await, "invalid_argument", "{arguments}");
    }
    assert_eq!(stage.sandbox.control().counters().requests, before);
}

#[tokio::test]
async fn bad_answers_become_plain_problems() {
    let stage = stage();
    let tool = "get_user_saved_tracks";
    for (settings, code) in [
        (json!({ "premium": false }), "premium_required"),
        (json!({ "premium": true, "allowlisted": false }), "user_not_allowlisted"),
    ] {
        stage.set(&settings);
        assert_eq!(stage.bad(tool, json!({})).await, code);
    }
    stage.set(&json!({ "allowlisted": true }));
    let far = What::Status { code: 429, retry_after: Some("600".into()), reset: None, body: None };
    for (what, code) in [
        (status(403), "restricted_resource"),
        (status(404), "not_found"),
        (status(400), "invalid_argument"),
        (What::Html, "upstream_error"),
        (What::Garbage, "upstream_error"),
        (What::Truncate, "upstream_error"),
        (far, "rate_limited"),
    ] {
        let shown = format!("{what:?}");
        fault(&stage, "/api/v1/me/tracks", what);
        assert_eq!(stage.bad(tool, json!({})).await, code, "{shown}");
    }
}

#[tokio::test]
async fn a_scope_that_was_not_granted_is_named() {
    let stage = nobody();
    stage.sign_in_with(&stage.sandbox.control().tokens_for(&["user-read-private"]));
    assert_eq!(stage.bad("get_user_saved_tracks", json!({})).await, "insufficient_scope");
    let problem = stage.problem("get_user_saved_tracks", json!({})).await;
    assert!(problem["message"].as_str().unwrap().contains("user-library-read"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("tollgate connect spotify"), "{problem}");
}

/// Some refusals come as plain words.
#[tokio::test]
async fn a_refusal_in_plain_words_is_understood() {
    let stage = stage();
    for (words, code) in [
        ("User not registered in the Developer Dashboard", "user_not_allowlisted"),
        ("Active premium subscription required for the owner of the app.", "premium_required"),
        (r#"{"error":"Insufficient client scope"}"#, "insufficient_scope"),
        ("<html>Forbidden</html>", "restricted_resource"),
    ] {
        let body = Some(words.to_owned());
        fault(&stage, "/api", What::Status { code: 403, retry_after: None, reset: None, body });
        assert_eq!(stage.bad("get_current_user_profile", json!({})).await, code, "{words}");
    }
}

#[tokio::test]
async fn a_token_of_the_environment_serves_until_somebody_signs_in() {
    let mut stage = nobody();
    let token = stage.sandbox.control().tokens()["access_token"].as_str().unwrap().to_owned();
    let mut settings = stage.desk.settings.of(&SERVICE).unwrap().clone();
    settings.access = Some(store::secret::Secret::new(token.as_str()));
    stage.desk.settings.put(&SERVICE, settings);
    stage.good("get_user_saved_tracks", json!({ "limit": 1 })).await;
    let told = stage.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"]["has_refresh_token"], false);
    assert!(!told.to_string().contains(&token));
    stage.sandbox.control().expire(Which::Access);
    assert_eq!(stage.bad("get_user_saved_tracks", json!({})).await, "auth_expired");
    assert_eq!(stage.sandbox.control().counters().refreshes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_calls_with_an_old_token_make_one_refresh() {
    let stage = stage();
    let before = stage.desk.accounts.load("spotify").unwrap().unwrap();
    stage.sandbox.control().expire(Which::Access);
    let calls = (0..10).map(|_| stage.good("get_user_saved_tracks", json!({ "limit": 1 })));
    assert_eq!(crate::sync::all(calls).await.len(), 10);
    assert_eq!(stage.sandbox.control().counters().refreshes, 1);
    // The answer has no refresh token; the one there was is kept.
    let after = stage.desk.accounts.load("spotify").unwrap().unwrap();
    assert!(after.access != before.access && after.refresh == before.refresh);
}

#[tokio::test]
async fn a_login_that_ended_leads_to_a_plain_instruction() {
    let stage = stage();
    let told = stage.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"]["state"], "valid");
    assert_eq!(told["token_info"]["consent_days_left"], 179);
    let told = stage.good("refresh_spotify_token", json!({})).await;
    assert_eq!(told["token_refreshed"], true);
    assert!(told["expires_in_seconds"].as_i64().unwrap() > 3_000);
    let told = stage.good("auto_refresh_spotify_token_if_needed", json!({})).await;
    assert_eq!(told["token_refreshed"], false);
    stage.sandbox.control().expire(Which::Refresh);
    stage.sandbox.control().expire(Which::Access);
    for tool in ["get_user_saved_tracks", "refresh_spotify_token"] {
        assert_eq!(stage.bad(tool, json!({})).await, "reauthorization_required", "{tool}");
    }
    let told = stage.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"]["state"], "ended");
    let problem = stage.problem("get_user_saved_tracks", json!({})).await;
    let hint = problem["hint"].as_str().unwrap();
    assert!(hint.contains("tollgate connect spotify") && hint.contains("setup_spotify_oauth"));
    // The token is void for good, so it is not kept.
    assert!(stage.desk.accounts.load("spotify").unwrap().unwrap().refresh.is_none());
}

#[tokio::test]
async fn who_is_not_connected_is_told_how() {
    let stage = nobody();
    for tool in SERVICE.tools {
        if tool.name.starts_with("get_spotify_") && !tool.name.ends_with("profile")
            || tool.name.contains("_oauth")
        {
            continue;
        }
        let arguments = json!({ "user_id": "a", "playlist_id": "a", "ids": "a" });
        assert_eq!(stage.bad(tool.name, arguments).await, "not_configured", "{}", tool.name);
    }
    let told = stage.good("get_spotify_token_status", json!({})).await;
    assert_eq!(told["token_info"], json!({ "has_tokens": false, "state": "not_configured" }));
}

#[tokio::test]
async fn whole_lists_fit_an_agent_and_lead_on() {
    let stage = stage();
    let (own, _) = playlists(&stage);
    for (tool, kind, extra) in [
        ("get_user_saved_albums", "saved_album", json!({})),
        ("get_user_saved_tracks", "saved_track", json!({})),
        ("get_playlist_items", "", json!({ "playlist_id": own })),
    ] {
        let (mut offset, mut seen, mut total) = (json!(0), 0, json!(null));
        while !offset.is_null() {
            let mut arguments = extra.clone();
            arguments["offset"] = offset.clone();
            let page = stage.good(tool, arguments).await;
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
            assert_eq!(seen, stage.sandbox.control().records(kind).unwrap().len(), "{tool}");
        }
    }
}

#[tokio::test]
async fn a_sign_in_uses_the_configured_application_whatever_an_agent_sends() {
    let stage = nobody();
    let said = json!({ "client_id": "somebody-elses", "client_secret": "invented" });
    let begun = stage.good("setup_spotify_oauth", said).await;
    let url = url::Url::parse(begun["authorization_url"].as_str().unwrap()).unwrap();
    let client = url.query_pairs().find(|(name, _)| name == "client_id").unwrap().1.into_owned();
    assert_eq!(client, "sandbox-spotify-client");
}

#[tokio::test]
async fn one_signs_in_from_a_conversation_and_no_secret_is_in_it() {
    let stage = nobody();
    let begun = stage.good("setup_spotify_oauth", json!({ "client_id": "" })).await;
    let url = url::Url::parse(begun["authorization_url"].as_str().unwrap()).unwrap();
    let asked: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    assert!(asked.contains(&"state".to_owned()) && asked.contains(&"code_challenge".to_owned()));
    assert_eq!(begun["redirect_uri"], "http://127.0.0.1:8888/callback");
    let wrong =
        json!({ "authorization_code": "http://127.0.0.1:8888/callback?code=x&state=other" });
    assert_eq!(stage.bad("complete_spotify_oauth", wrong).await, "invalid_argument");
    // The browser's part: the sandbox consents at once and sends it back with a code.
    let base = crate::Base::parse(&format!("{}/accounts/authorize", stage.sandbox.url())).unwrap();
    let mut request = crate::http::Request::get(&base, &[]);
    for (name, value) in url.query_pairs() {
        request = request.query(&name, &value);
    }
    let reply = stage.desk.http.send(request).await.unwrap();
    let back = reply.header("location").unwrap().to_owned();
    let done = stage.good("complete_spotify_oauth", json!({ "authorization_code": back })).await;
    assert_eq!(done["tokens_saved"], true);
    let me: Value = stage.good("get_current_user_profile", json!({})).await;
    assert_eq!(me["status"], "success");
}
