//! Every tool against the sandbox: success and failure.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Config, Fault, FaultKind, TokenKind};
use serde_json::{Value, json};
use store::clock::Clock;
use store::secret::Secret;

use super::SERVICE;
use crate::testing::{Fixture, signed_out_fixture};

fn look(name: &str, url: &str) -> Option<String> {
    Some(match name {
        "YOUTUBE_API_BASE_URL" => format!("{url}/www"),
        "YOUTUBE_OAUTH_BASE_URL" => format!("{url}/oauth2"),
        "YOUTUBE_CLIENT_ID" => "sandbox-youtube-client".to_owned(),
        "YOUTUBE_CLIENT_SECRET" => "sandbox-youtube-secret".to_owned(),
        _ => return None,
    })
}

fn signed_out() -> Fixture {
    signed_out_fixture(&SERVICE, Config::youtube(7, 5, Clock::System.now().wall_us), look)
}

fn fixture() -> Fixture {
    signed_out().sign_in()
}

/// Signed out, with an API key.
fn with_key(key: Option<&str>) -> Fixture {
    let mut fixture = signed_out();
    let ready = fixture.sandbox.control().ready();
    let key = key.or(ready["values"]["YOUTUBE_API_KEY"].as_str()).unwrap();
    let mut settings = fixture.ctx.settings.of(&SERVICE).unwrap().clone();
    settings.values.insert("api_key", Secret::new(key));
    fixture.ctx.settings.put(&SERVICE, settings);
    fixture
}

fn all(fixture: &Fixture, kind: &str) -> Vec<Value> {
    fixture.sandbox.control().records(kind).unwrap()
}

#[tokio::test]
async fn paging_reaches_the_end_of_every_list() {
    let fixture = fixture();
    for (tool, list, total, kind) in [
        ("get_youtube_subscriptions", "subscriptions", "total_subscriptions", "subscription"),
        ("get_youtube_playlists", "playlists", "total_playlists", "playlist"),
        ("get_youtube_liked_videos", "liked_videos", "total_liked_videos", "like"),
    ] {
        let expected = all(&fixture, kind).len();
        let (mut token, mut seen, mut pages) = (json!(null), 0, 0);
        loop {
            let asked = json!({ "max_results": 40, "page_token": token });
            let page = fixture.good(tool, asked).await;
            assert_eq!(page[total], expected, "{tool}");
            seen += page[list].as_array().unwrap().len();
            token = page["next_page_token"].clone();
            pages += 1;
            if token.is_null() {
                break;
            }
        }
        assert_eq!((seen, pages > 1), (expected, true), "{tool}");
    }
    let first = fixture.good("get_youtube_subscriptions", json!({})).await;
    assert!(first["subscriptions"][0]["channel_url"].as_str().unwrap().contains("/channel/UC"));
}

#[tokio::test]
async fn public_tools_work_with_a_key_and_with_a_login() {
    for fixture in [fixture(), with_key(None)] {
        let asked = json!({ "query": "rust", "max_results": 3 });
        let found = fixture.good("search_youtube_videos", asked).await;
        let first = &found["videos"][0];
        assert_eq!(found["videos"].as_array().unwrap().len(), 3);
        assert!(!found.to_string().contains("&amp;"));
        let id = first["video_id"].clone();
        let video = fixture.good("get_video_details", json!({ "video_id": id })).await;
        assert_eq!(video["title"], first["title"]);
        assert!(video["view_count"].is_string() && video["tags"].is_array());
        let chart = fixture.good("get_trending_videos", json!({ "region_code": "de" })).await;
        assert_eq!(
            (chart["region"].as_str(), chart["trending_videos"].as_array().unwrap().len()),
            (Some("DE"), 10)
        );
        let channel = all(&fixture, "channel")[4].clone();
        for given in [&channel["id"], &channel["snippet"]["customUrl"]] {
            let info = fixture.good("get_channel_info", json!({ "channel_id": given })).await;
            assert_eq!(info["channel_id"], channel["id"]);
            assert_eq!(info["subscriber_count"], "Hidden");
        }
        fixture.good("test_youtube_credentials", json!({})).await;
        fixture.good("get_youtube_config", json!({})).await;
    }
}

#[tokio::test]
async fn videos_without_pictures_or_counts_are_listed() {
    let fixture = fixture();
    for video in all(&fixture, "video").iter().take(20) {
        let id = &video["id"];
        let shown = fixture.good("get_video_details", json!({ "video_id": id })).await;
        assert_eq!(shown["video_id"], *id);
        let views = video.pointer("/statistics/viewCount").cloned().unwrap_or(json!("N/A"));
        assert_eq!(shown["view_count"], views);
        let picture = video.pointer("/snippet/thumbnails/high/url").cloned().unwrap_or_default();
        assert_eq!(shown["thumbnail"], picture);
    }
}

#[tokio::test]
async fn unknown_ids_and_invalid_arguments_are_reported() {
    let fixture = fixture();
    for (tool, arguments, code) in [
        ("get_video_details", json!({ "video_id": "unknown" }), "not_found"),
        ("get_channel_info", json!({ "channel_id": "UCunknown" }), "not_found"),
        ("get_channel_info", json!({ "channel_id": "@no-such-channel" }), "not_found"),
        ("get_video_details", json!({}), "invalid_argument"),
        ("get_video_details", json!({ "video_id": "a&b" }), "invalid_argument"),
        ("search_youtube_videos", json!({ "query": "" }), "invalid_argument"),
        (
            "search_youtube_videos",
            json!({ "query": "x", "max_results": "few" }),
            "invalid_argument",
        ),
        ("get_trending_videos", json!({ "region_code": "Europe" }), "invalid_argument"),
        ("get_youtube_playlists", json!({ "page_token": "no token" }), "invalid_argument"),
    ] {
        assert_eq!(fixture.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
    fixture.set(&json!({ "subscriptions_private": true }));
    assert_eq!(fixture.bad("get_youtube_subscriptions", json!({})).await, "private_profile");
    let other = with_key(Some("AIzaNotTheKey"));
    assert_eq!(other.bad("get_trending_videos", json!({})).await, "not_configured");
    assert_eq!(other.bad("get_youtube_playlists", json!({})).await, "not_configured");
}

#[tokio::test]
async fn an_exhausted_quota_is_named_and_the_other_still_works() {
    let fixture = fixture();
    fixture.set(&json!({ "search_quota": 1 }));
    let asked = json!({ "query": "rust" });
    fixture.good("search_youtube_videos", asked.clone()).await;
    assert_eq!(fixture.bad("search_youtube_videos", asked).await, "quota_exceeded");
    fixture.good("get_trending_videos", json!({})).await;
    fixture.set(&json!({ "read_quota": 0 }));
    assert_eq!(fixture.bad("get_trending_videos", json!({})).await, "quota_exceeded");
}

#[tokio::test]
async fn bad_responses_become_problems() {
    let fixture = fixture();
    let status = |code| FaultKind::Status { code, retry_after: None, reset: None, body: None };
    let far =
        FaultKind::Status { code: 429, retry_after: Some("600".into()), reset: None, body: None };
    for (what, code) in [
        (status(403), "restricted_resource"),
        (status(404), "not_found"),
        (FaultKind::Html, "upstream_error"),
        (FaultKind::Garbage, "upstream_error"),
        (FaultKind::Truncate, "upstream_error"),
        (far, "rate_limited"),
    ] {
        let shown = format!("{what:?}");
        fixture.sandbox.control().clear_faults();
        fixture.sandbox.control().fault(Fault::on("/www/youtube/v3/playlists", what));
        assert_eq!(fixture.bad("get_youtube_playlists", json!({})).await, code, "{shown}");
    }
}

#[tokio::test]
async fn without_a_login_tools_say_how_to_connect() {
    let fixture = signed_out();
    for tool in super::CONNECTOR.tools {
        if ["get_youtube_config", "get_youtube_token_status"].contains(&tool.name)
            || tool.name.contains("_oauth")
        {
            continue;
        }
        let arguments = json!({ "query": "x", "video_id": "a", "channel_id": "a" });
        assert_eq!(fixture.bad(tool.name, arguments).await, "not_configured", "{}", tool.name);
    }
}

#[tokio::test]
async fn device_sign_in_refresh_and_revocation_work() {
    let fixture = signed_out();
    fixture.set(&json!({ "device_interval_s": 1, "device_pending": 2 }));
    let nothing = fixture.bad("complete_youtube_oauth", json!({})).await;
    assert_eq!(nothing, "invalid_argument");
    let begun = fixture.good("setup_youtube_oauth", json!({ "client_id": null })).await;
    assert_eq!(begun["status"], "waiting_for_authorization");
    assert!(begun["user_code"].is_string() && begun["verification_url"].is_string());
    let done = fixture.good("complete_youtube_oauth", json!({})).await;
    assert_eq!(done["tokens_saved"], true);
    let kept = fixture.ctx.accounts.load("youtube").unwrap().unwrap();
    let told = fixture.good("refresh_youtube_token", json!({})).await;
    assert_eq!(told["token_refreshed"], true);
    let after = fixture.ctx.accounts.load("youtube").unwrap().unwrap();
    assert!(after.access != kept.access && after.refresh == kept.refresh);
    let told = fixture.good("auto_refresh_youtube_token_if_needed", json!({})).await;
    assert_eq!(told["action"], "no_refresh_needed");
    let told = fixture.good("get_youtube_token_status", json!({})).await;
    assert_eq!(told["token_info"]["state"], "valid");
    crate::credentials::check(&fixture.ctx, &SERVICE).await.unwrap();
    assert!(crate::credentials::revoke(&fixture.ctx, &SERVICE).await.unwrap());
    assert!(!crate::credentials::revoke(&fixture.ctx, &SERVICE).await.unwrap());
}

#[tokio::test]
async fn a_declined_sign_in_is_reported() {
    let fixture = signed_out();
    fixture.set(&json!({ "device_interval_s": 1, "device_pending": 1, "device_lets_in": false }));
    fixture.good("setup_youtube_oauth", json!({})).await;
    let code = fixture.bad("complete_youtube_oauth", json!({})).await;
    assert_eq!(code, "auth_expired");
}

#[tokio::test]
async fn an_expired_login_says_what_to_run() {
    let fixture = fixture();
    fixture.sandbox.control().expire(TokenKind::Refresh);
    fixture.sandbox.control().expire(TokenKind::Access);
    let code = fixture.bad("get_youtube_playlists", json!({})).await;
    assert_eq!(code, "auth_expired");
}

#[tokio::test]
async fn subscriptions_and_likes_are_mirrored() {
    use crate::sync::{SyncRequest, run};
    use crate::youtube::mirror::MIRROR;
    let fixture = fixture();
    let count =
        |kind| usize::try_from(fixture.ctx.records.count("youtube", kind).unwrap()).unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(count("subscriptions"), all(&fixture, "subscription").len());
    assert_eq!(count("likes"), all(&fixture, "like").len());
    assert_eq!(count("playlists"), all(&fixture, "playlist").len());
    assert_eq!(count("playlist_items"), all(&fixture, "playlist_item").len());
    let playlist = all(&fixture, "playlist")[0]["id"].as_str().unwrap().to_owned();
    let items =
        fixture.ctx.records.by_parent("youtube", "playlist_items", &playlist).unwrap().len();
    let like = all(&fixture, "like")[0]["video"]["id"].as_str().unwrap().to_owned();
    fixture.sandbox.control().remove("like", &like).unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["resources"]["likes"]["records_removed"], 1, "{result}");
    assert_eq!(result["resources"]["subscriptions"]["records_upserted"], 0);
    let row = fixture.ctx.records.one("youtube", "likes", &like).unwrap();
    assert!(row.is_none());
    // No playlist changed, so no entries were requested.
    assert_eq!(result["resources"]["playlist_items"]["records_fetched"], 0, "{result}");
    fixture.sandbox.control().remove("playlist", &playlist).unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["resources"]["playlists"]["records_removed"], 1, "{result}");
    assert_eq!(result["resources"]["playlist_items"]["records_removed"], items, "{result}");
}
