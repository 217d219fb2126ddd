//! Every tool against the sandbox, good and bad.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Config, Fault, What, Which};
use serde_json::{Value, json};
use store::clock::Clock;
use store::secret::Secret;

use super::SERVICE;
use crate::personal::stage::{Stage, stranger};

fn look(name: &str, url: &str) -> Option<String> {
    Some(match name {
        "YOUTUBE_API_BASE_URL" => format!("{url}/www"),
        "YOUTUBE_OAUTH_BASE_URL" => format!("{url}/oauth2"),
        "YOUTUBE_CLIENT_ID" => "sandbox-youtube-client".to_owned(),
        "YOUTUBE_CLIENT_SECRET" => "sandbox-youtube-secret".to_owned(),
        _ => return None,
    })
}

fn nobody() -> Stage {
    stranger(&SERVICE, Config::youtube(7, 5, Clock::System.now().wall_us), look)
}

fn stage() -> Stage {
    nobody().sign_in()
}

/// Nobody signed in, but with a key.
fn with_key(key: Option<&str>) -> Stage {
    let mut stage = nobody();
    let ready = stage.sandbox.control().ready();
    let key = key.or(ready["values"]["YOUTUBE_API_KEY"].as_str()).unwrap();
    let mut settings = stage.desk.settings.of(&SERVICE).unwrap().clone();
    settings.values.insert("api_key", Secret::new(key));
    stage.desk.settings.put(&SERVICE, settings);
    stage
}

fn all(stage: &Stage, kind: &str) -> Vec<Value> {
    stage.sandbox.control().records(kind).unwrap()
}

#[tokio::test]
async fn the_owners_lists_lead_to_their_end_page_by_page() {
    let stage = stage();
    for (tool, list, total, kind) in [
        ("get_youtube_subscriptions", "subscriptions", "total_subscriptions", "subscription"),
        ("get_youtube_playlists", "playlists", "total_playlists", "playlist"),
        ("get_youtube_liked_videos", "liked_videos", "total_liked_videos", "like"),
    ] {
        let expected = all(&stage, kind).len();
        let (mut token, mut seen, mut pages) = (json!(null), 0, 0);
        loop {
            let asked = json!({ "max_results": 40, "page_token": token });
            let page = stage.good(tool, asked).await;
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
    let first = stage.good("get_youtube_subscriptions", json!({})).await;
    assert!(first["subscriptions"][0]["channel_url"].as_str().unwrap().contains("/channel/UC"));
}

#[tokio::test]
async fn public_things_are_shown_by_key_and_by_login() {
    for stage in [stage(), with_key(None)] {
        let asked = json!({ "query": "rust", "max_results": 3 });
        let found = stage.good("search_youtube_videos", asked).await;
        let first = &found["videos"][0];
        assert_eq!(found["videos"].as_array().unwrap().len(), 3);
        assert!(!found.to_string().contains("&amp;"));
        let id = first["video_id"].clone();
        let video = stage.good("get_video_details", json!({ "video_id": id })).await;
        assert_eq!(video["title"], first["title"]);
        assert!(video["view_count"].is_string() && video["tags"].is_array());
        let chart = stage.good("get_trending_videos", json!({ "region_code": "de" })).await;
        assert_eq!(
            (chart["region"].as_str(), chart["trending_videos"].as_array().unwrap().len()),
            (Some("DE"), 10)
        );
        let channel = all(&stage, "channel")[4].clone();
        for said in [&channel["id"], &channel["snippet"]["customUrl"]] {
            let info = stage.good("get_channel_info", json!({ "channel_id": said })).await;
            assert_eq!(info["channel_id"], channel["id"]);
            assert_eq!(info["subscriber_count"], "Hidden");
        }
        stage.good("test_youtube_credentials", json!({})).await;
        stage.good("get_youtube_config", json!({})).await;
    }
}

#[tokio::test]
async fn videos_without_pictures_or_figures_are_shown_all_the_same() {
    let stage = stage();
    for video in all(&stage, "video").iter().take(20) {
        let id = &video["id"];
        let shown = stage.good("get_video_details", json!({ "video_id": id })).await;
        assert_eq!(shown["video_id"], *id);
        let views = video.pointer("/statistics/viewCount").cloned().unwrap_or(json!("N/A"));
        assert_eq!(shown["view_count"], views);
        let picture = video.pointer("/snippet/thumbnails/high/url").cloned().unwrap_or_default();
        assert_eq!(shown["thumbnail"], picture);
    }
}

#[tokio::test]
async fn what_is_not_there_or_does_not_fit_is_told() {
    let stage = stage();
    for (tool, arguments, code) in [
        ("get_video_details", json!({ "video_id": "unknown" }), "not_found"),
        ("get_channel_info", json!({ "channel_id": "UCunknown" }), "not_found"),
        ("get_channel_info", json!({ "channel_id": "@nobody" }), "not_found"),
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
        assert_eq!(stage.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
    stage.set(&json!({ "subscriptions_private": true }));
    assert_eq!(stage.bad("get_youtube_subscriptions", json!({})).await, "private_profile");
    let other = with_key(Some("AIzaNotTheKey"));
    assert_eq!(other.bad("get_trending_videos", json!({})).await, "not_configured");
    assert_eq!(other.bad("get_youtube_playlists", json!({})).await, "not_configured");
}

#[tokio::test]
async fn an_empty_bucket_is_named_and_the_other_still_serves() {
    let stage = stage();
    stage.set(&json!({ "search_quota": 1 }));
    let asked = json!({ "query": "rust" });
    stage.good("search_youtube_videos", asked.clone()).await;
    assert_eq!(stage.bad("search_youtube_videos", asked).await, "quota_exceeded");
    stage.good("get_trending_videos", json!({})).await;
    stage.set(&json!({ "read_quota": 0 }));
    assert_eq!(stage.bad("get_trending_videos", json!({})).await, "quota_exceeded");
}

#[tokio::test]
async fn bad_answers_become_plain_problems() {
    let stage = stage();
    let status = |code| What::Status { code, retry_after: None, reset: None, body: None };
    let far = What::Status { code: 429, retry_after: Some("600".into()), reset: None, body: None };
    for (what, code) in [
        (status(403), "restricted_resource"),
        (status(404), "not_found"),
        (What::Html, "upstream_error"),
        (What::Garbage, "upstream_error"),
        (What::Truncate, "upstream_error"),
        (far, "rate_limited"),
    ] {
        let shown = format!("{what:?}");
        stage.sandbox.control().clear_faults();
        stage.sandbox.control().fault(Fault::on("/www/youtube/v3/playlists", what));
        assert_eq!(stage.bad("get_youtube_playlists", json!({})).await, code, "{shown}");
    }
}

#[tokio::test]
async fn who_is_not_connected_is_told_how() {
    let stage = nobody();
    for tool in SERVICE.tools {
        if ["get_youtube_config", "get_youtube_token_status"].contains(&tool.name)
            || tool.name.contains("_oauth")
        {
            continue;
        }
        let arguments = json!({ "query": "x", "video_id": "a", "channel_id": "a" });
        assert_eq!(stage.bad(tool.name, arguments).await, "not_configured", "{}", tool.name);
    }
}

#[tokio::test]
async fn a_code_is_typed_and_the_login_is_kept_refreshed_and_taken_back() {
    let stage = nobody();
    stage.set(&json!({ "device_interval_s": 1, "device_pending": 2 }));
    let nothing = stage.bad("complete_youtube_oauth", json!({})).await;
    assert_eq!(nothing, "invalid_argument");
    let begun = stage.good("setup_youtube_oauth", json!({ "client_id": null })).await;
    assert_eq!(begun["status"], "waiting_for_authorization");
    assert!(begun["user_code"].is_string() && begun["verification_url"].is_string());
    let done = stage.good("complete_youtube_oauth", json!({})).await;
    assert_eq!(done["tokens_saved"], true);
    let kept = stage.desk.accounts.load("youtube").unwrap().unwrap();
    let told = stage.good("refresh_youtube_token", json!({})).await;
    assert_eq!(told["token_refreshed"], true);
    let after = stage.desk.accounts.load("youtube").unwrap().unwrap();
    assert!(after.access != kept.access && after.refresh == kept.refresh);
    let told = stage.good("auto_refresh_youtube_token_if_needed", json!({})).await;
    assert_eq!(told["action"], "no_refresh_needed");
    let told = stage.good("get_youtube_token_status", json!({})).await;
    assert_eq!(told["token_info"]["state"], "valid");
    crate::account::check(&stage.desk, &SERVICE).await.unwrap();
    assert!(crate::account::revoke(&stage.desk, &SERVICE).await.unwrap());
    assert!(!crate::account::revoke(&stage.desk, &SERVICE).await.unwrap());
}

#[tokio::test]
async fn an_owner_who_refuses_is_heard() {
    let stage = nobody();
    stage.set(&json!({ "device_interval_s": 1, "device_pending": 1, "device_lets_in": false }));
    stage.good("setup_youtube_oauth", json!({})).await;
    let code = stage.bad("complete_youtube_oauth", json!({})).await;
    assert_eq!(code, "auth_expired");
}

#[tokio::test]
async fn a_login_that_ended_leads_to_a_plain_instruction() {
    let stage = stage();
    stage.sandbox.control().expire(Which::Refresh);
    stage.sandbox.control().expire(Which::Access);
    let code = stage.bad("get_youtube_playlists", json!({})).await;
    assert_eq!(code, "auth_expired");
}

#[tokio::test]
async fn subscriptions_and_likes_are_mirrored_and_follow() {
    use crate::sync::{Asked, run};
    use crate::youtube::mirror::MIRROR;
    let stage = stage();
    let count = |kind| usize::try_from(stage.desk.records.count("youtube", kind).unwrap()).unwrap();
    let result = run(&stage.desk, &MIRROR, &Asked::default(), &|_| {}).await.unwrap();
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(count("subscriptions"), all(&stage, "subscription").len());
    assert_eq!(count("likes"), all(&stage, "like").len());
    assert_eq!(count("playlists"), all(&stage, "playlist").len());
    assert_eq!(count("playlist_items"), all(&stage, "playlist_item").len());
    let playlist = all(&stage, "playlist")[0]["id"].as_str().unwrap().to_owned();
    let items = stage.desk.records.by_parent("youtube", "playlist_items", &playlist).unwrap().len();
    let like = all(&stage, "like")[0]["video"]["id"].as_str().unwrap().to_owned();
    stage.sandbox.control().remove("like", &like).unwrap();
    let result = run(&stage.desk, &MIRROR, &Asked::default(), &|_| {}).await.unwrap();
    assert_eq!(result["resources"]["likes"]["records_removed"], 1, "{result}");
    assert_eq!(result["resources"]["subscriptions"]["records_upserted"], 0);
    let row = stage.desk.records.one("youtube", "likes", &like).unwrap();
    assert!(row.is_none());
    // Nothing of the playlists has changed, so none of their entries was asked for.
    assert_eq!(result["resources"]["playlist_items"]["records_fetched"], 0, "{result}");
    stage.sandbox.control().remove("playlist", &playlist).unwrap();
    let result = run(&stage.desk, &MIRROR, &Asked::default(), &|_| {}).await.unwrap();
    assert_eq!(result["resources"]["playlists"]["records_removed"], 1, "{result}");
    assert_eq!(result["resources"]["playlist_items"]["records_removed"], items, "{result}");
}
