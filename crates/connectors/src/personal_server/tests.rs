//! The published tool names and parameters, independent of the tool tables.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use store::secret::Secret;

use super::{CONNECTOR, MEMBERS, SERVICE};
use crate::Effect;
use crate::testing::signed_out_fixture;

/// Tool, its effect, and its parameters with types; an optional one has a mark.
const KNOWN: &[(&str, &str, &str)] = &[
    ("add", "Read", "a:integer b:integer"),
    ("test_connection", "Read", ""),
    ("get_personalization_status", "Read", ""),
    ("list_daily_metrics", "Read", ""),
    ("relate_daily_metrics", "Read", "x:string y:string ?lag_days:integer ?days:integer"),
    ("survey_daily_metrics", "Read", "?days:integer"),
    ("test_steam_credentials", "Read", ""),
    ("get_steam_library", "Read", "?steamid:string"),
    ("get_steam_friends", "Read", "?steamid:string ?limit:integer ?offset:integer"),
    ("my_steam_recent_activity", "Read", ""),
    ("get_steam_profile", "Read", "?steamid:string"),
    ("get_steam_config", "Read", ""),
    ("get_steam_recent_activity", "Read", "?steamid:string"),
    ("get_player_summary", "Read", "?steamids:string"),
    ("get_player_achievements", "Read", "app_id:integer"),
    ("get_user_game_stats", "Read", "app_id:integer"),
    ("get_friends_current_games", "Read", ""),
    ("compare_games_with_friend", "Read", "friend_steamid:string"),
    ("get_friend_game_recommendations", "Read", "friend_steamid:string"),
    ("test_youtube_credentials", "Read", ""),
    ("refresh_youtube_token", "Write", ""),
    ("auto_refresh_youtube_token_if_needed", "Write", ""),
    ("get_youtube_token_status", "Read", ""),
    ("setup_youtube_oauth", "Write", "client_id:string client_secret:string"),
    ("complete_youtube_oauth", "Write", "client_id:string client_secret:string device_code:string"),
    ("get_youtube_subscriptions", "Read", "?access_token:string"),
    ("get_youtube_playlists", "Read", "?access_token:string"),
    ("get_youtube_liked_videos", "Read", "?access_token:string ?max_results:integer"),
    ("search_youtube_videos", "Read", "query:string ?max_results:integer"),
    ("get_video_details", "Read", "video_id:string"),
    ("get_channel_info", "Read", "channel_id:string"),
    ("get_trending_videos", "Read", "?region_code:string ?max_results:integer"),
    ("get_youtube_config", "Read", ""),
    ("test_bilibili_credentials", "Read", ""),
    ("get_bilibili_config", "Read", ""),
    ("get_bilibili_user_info", "Read", "uid:integer"),
    ("get_my_bilibili_profile", "Read", ""),
    ("get_bilibili_following_list", "Read", "?uid:integer ?page:integer"),
    ("search_bilibili_videos", "Read", "keyword:string ?page:integer ?order:string"),
    ("get_bilibili_user_videos", "Read", "uid:integer ?page:integer"),
    ("get_bilibili_video_info", "Read", "bvid:string"),
    ("get_bilibili_watch_history", "Read", "?page:integer"),
    ("get_bilibili_favorites", "Read", "?uid:integer ?page:integer"),
    ("get_bilibili_toview_list", "Read", ""),
    ("test_spotify_credentials", "Read", ""),
    ("get_spotify_config", "Read", ""),
    ("setup_spotify_oauth", "Read", "client_id:string client_secret:string ?redirect_uri:string"),
    (
        "complete_spotify_oauth",
        "Write",
        "client_id:string client_secret:string authorization_code:string ?redirect_uri:string",
    ),
    ("refresh_spotify_token", "Write", ""),
    ("auto_refresh_spotify_token_if_needed", "Write", ""),
    ("get_spotify_token_status", "Read", ""),
    ("get_current_user_profile", "Read", "?access_token:string"),
    ("get_user_profile", "Read", "user_id:string ?access_token:string"),
    (
        "get_user_top_items",
        "Read",
        "?item_type:string ?time_range:string ?limit:integer ?access_token:string",
    ),
    ("get_followed_artists", "Read", "?limit:integer ?access_token:string"),
    ("follow_artists_or_users", "Write", "ids:string ?follow_type:string ?access_token:string"),
    (
        "unfollow_artists_or_users",
        "Destructive",
        "ids:string ?follow_type:string ?access_token:string",
    ),
    ("follow_playlist", "Write", "playlist_id:string ?public:boolean ?access_token:string"),
    ("unfollow_playlist", "Destructive", "playlist_id:string ?access_token:string"),
    ("get_user_saved_tracks", "Read", "?limit:integer ?offset:integer ?access_token:string"),
    ("get_user_saved_albums", "Read", "?limit:integer ?offset:integer ?access_token:string"),
    ("get_user_saved_shows", "Read", "?limit:integer ?offset:integer ?access_token:string"),
    ("get_user_saved_episodes", "Read", "?limit:integer ?offset:integer ?access_token:string"),
    ("get_user_saved_audiobooks", "Read", "?limit:integer ?offset:integer ?access_token:string"),
    ("get_current_user_playlists", "Read", "?limit:integer ?offset:integer ?access_token:string"),
    (
        "get_user_playlists",
        "Read",
        "user_id:string ?limit:integer ?offset:integer ?access_token:string",
    ),
    (
        "get_playlist_items",
        "Read",
        "playlist_id:string ?limit:integer ?offset:integer ?access_token:string",
    ),
    ("get_user_recently_played", "Read", "?limit:integer ?access_token:string"),
    ("test_reddit_credentials", "Read", "?random_string:string"),
    ("get_reddit_config", "Read", "?random_string:string"),
    ("setup_reddit_oauth", "Read", "client_id:string client_secret:string ?redirect_uri:string"),
    (
        "complete_reddit_oauth",
        "Write",
        "client_id:string client_secret:string authorization_code:string ?redirect_uri:string",
    ),
    ("refresh_reddit_token", "Write", "?random_string:string"),
    ("auto_refresh_reddit_token_if_needed", "Write", "?random_string:string"),
    ("get_reddit_token_status", "Read", "?random_string:string"),
    ("get_user_subreddits", "Read", "?access_token:string ?limit:integer"),
    ("get_user_trophies", "Read", "?access_token:string"),
    ("get_user_preferences", "Read", "?access_token:string"),
    ("get_user_karma_breakdown", "Read", "?access_token:string"),
    ("get_moderated_subreddits", "Read", "?access_token:string ?limit:integer"),
    ("get_contributor_subreddits", "Read", "?access_token:string ?limit:integer"),
    (
        "get_user_submitted_posts",
        "Read",
        "?username:string ?access_token:string ?limit:integer ?sort:string",
    ),
    (
        "get_user_comments",
        "Read",
        "?username:string ?access_token:string ?limit:integer ?sort:string",
    ),
    (
        "get_user_overview",
        "Read",
        "?username:string ?access_token:string ?limit:integer ?sort:string",
    ),
    ("get_saved_content", "Read", "?username:string ?access_token:string ?limit:integer"),
    ("get_hidden_posts", "Read", "?username:string ?access_token:string ?limit:integer"),
    ("get_upvoted_content", "Read", "?username:string ?access_token:string ?limit:integer"),
    ("get_downvoted_content", "Read", "?username:string ?access_token:string ?limit:integer"),
    ("get_inbox_messages", "Read", "?access_token:string ?limit:integer"),
    ("get_unread_messages", "Read", "?access_token:string ?limit:integer"),
    ("get_sent_messages", "Read", "?access_token:string ?limit:integer"),
];

/// Tool names that no other server has.
const ADDED: [&str; 2] = ["get_reddit_user_profile", "get_spotify_user_profile"];

/// Parameters that older servers required and tollgate ignores.
const KEPT_HERE: [&str; 3] = ["client_id", "client_secret", "device_code"];

/// The services whose tools are in `KNOWN`.
const KNOWN_SERVICES: [&str; 5] = ["steam", "youtube", "bilibili", "spotify", "reddit"];

#[test]
fn every_published_name_exists_and_only_five_are_new() {
    assert_eq!(KNOWN.len(), 91);
    let known: BTreeSet<&str> = KNOWN.iter().map(|(name, ..)| *name).chain(ADDED).collect();
    let later = MEMBERS.iter().filter(|member| !KNOWN_SERVICES.contains(&member.connector.name()));
    let later: Vec<&str> =
        later.flat_map(|one| one.connector.tools).map(|tool| tool.name).collect();
    let shown = CONNECTOR.tools.iter().map(|tool| tool.name);
    let shown: Vec<&str> = shown.filter(|name| !later.contains(name)).collect();
    assert_eq!(shown.len(), 93);
    assert_eq!(known, shown.into_iter().collect());
}

#[test]
fn every_published_parameter_is_accepted_and_no_other_is_required() {
    for (name, _, parameters) in KNOWN {
        let tool = CONNECTOR.tool(name).unwrap();
        let schema = tool.input_schema();
        let required =
            schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut expected = Vec::new();
        for word in parameters.split_whitespace() {
            let (parameter, kind) = word.trim_start_matches('?').split_once(':').unwrap();
            let taken = schema.pointer(&format!("/properties/{parameter}")).unwrap_or(&Value::Null);
            let types = match taken.get("type") {
                Some(Value::Array(types)) => types.clone(),
                Some(one) => vec![one.clone()],
                None => Vec::new(),
            };
            assert!(types.contains(&json!(kind)), "{name}.{parameter}: {taken}");
            let is_secret = ["access_token", "client_secret"].contains(&parameter);
            assert!(!is_secret || taken.get("deprecated") == Some(&json!(true)), "{name}");
            if word.starts_with('?') {
                assert!(types.contains(&json!("null")), "{name}.{parameter} takes no null");
            } else if !KEPT_HERE.contains(&parameter) {
                expected.push(json!(parameter));
            }
        }
        assert_eq!(required, expected, "{name}");
    }
}

#[test]
fn each_tool_has_its_published_effect() {
    for (name, does, _) in KNOWN {
        let effect = CONNECTOR.tool(name).unwrap().effect;
        let fits = match *does {
            // Starting a sign-in changes nothing yet, but creates state.
            "Read" => effect == Effect::Reads || name.starts_with("setup_"),
            "Write" => matches!(effect, Effect::Adds | Effect::Runs),
            _ => effect == Effect::Destroys,
        };
        assert!(fits, "{name}: {does} but {effect:?}");
    }
}

#[tokio::test]
async fn the_common_tools_work() {
    let config = sandbox::Config::steam(7, 1, store::clock::Clock::System.now().wall_us);
    let mut fixture = signed_out_fixture(&SERVICE, config, |name, url| match name {
        "STEAM_API_KEY" | "STEAM_USER_ID" | "YOUTUBE_API_KEY" => Some("planted-value".to_owned()),
        "STEAM_API_BASE_URL" => Some(url.to_owned()),
        _ => None,
    });
    for (a, b, sum) in [(json!(2), json!("3"), 5), (json!(-7), json!(0), -7)] {
        let answer = fixture.good("add", json!({ "a": a, "b": b })).await;
        assert_eq!(answer.get("result"), Some(&json!(sum)));
    }
    for (a, b) in [(json!(i64::MAX), json!(1)), (json!(null), json!(1)), (json!("x"), json!(1))] {
        assert_eq!(fixture.bad("add", json!({ "a": a, "b": b })).await, "invalid_argument");
    }
    fixture.good("test_connection", json!({})).await;
    let status = fixture.good("get_personalization_status", json!({})).await;
    assert!(!status.to_string().contains("planted-value"));
    // Steam refused the key.
    for (service, expected) in [
        ("steam", "refused"),
        ("youtube", "public_only"),
        ("bilibili", "not_connected"),
        ("spotify", "not_connected"),
        ("reddit", "not_connected"),
    ] {
        let found = status.pointer(&format!("/platforms/{service}/state"));
        assert_eq!(found, Some(&json!(expected)), "{service}");
    }
    assert_eq!(status.get("active"), Some(&json!(1)));
    let ready = fixture.sandbox.control().ready();
    let steam = &crate::steam::SERVICE;
    let mut settings = fixture.ctx.settings.of(steam).unwrap().clone();
    for (field, name) in [("api_key", "STEAM_API_KEY"), ("user_id", "STEAM_USER_ID")] {
        settings.values.insert(
            field,
            Secret::new(ready.pointer(&format!("/values/{name}")).and_then(Value::as_str).unwrap()),
        );
    }
    fixture.ctx.settings.put(steam, settings);
    let status = fixture.good("get_personalization_status", json!({})).await;
    assert_eq!(status.pointer("/platforms/steam/state"), Some(&json!("connected")));
    assert_eq!(status.get("active"), Some(&json!(2)));
}

#[tokio::test]
async fn a_problem_names_its_service() {
    let config = sandbox::Config::steam(7, 1, store::clock::Clock::System.now().wall_us);
    let fixture = signed_out_fixture(&SERVICE, config, |_, _| None);
    for (tool, platform) in [("get_steam_profile", "steam"), ("get_user_saved_tracks", "spotify")] {
        let tool = CONNECTOR.tool(tool).unwrap();
        let none = serde_json::Map::new();
        let caller = &crate::Caller::of_grant("alice");
        let call = crate::ToolCall {
            ctx: &fixture.ctx,
            caller,
            on_progress: None,
            gate: None,
            bound: None,
        };
        let value = match (tool.handler.run)(call, &none).await {
            crate::Answer::Refused(value) => value,
            answer => panic!("{answer:?}"),
        };
        assert_eq!(value.pointer("/error/platform"), Some(&json!(platform)));
        assert_eq!(value.pointer("/error/code"), Some(&json!("not_configured")));
    }
}
