//! Every tool against the sandbox: success and failure.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sandbox::{Config, Fault, FaultKind, TokenKind};
use serde_json::{Value, json};
use store::clock::Clock;
use store::secret::Secret;

use super::SERVICE;
use crate::testing::{Fixture, signed_out_fixture};

fn signed_out() -> Fixture {
    let look = |name: &str, url: &str| (name == "STEAM_API_BASE_URL").then(|| url.to_owned());
    signed_out_fixture(&SERVICE, Config::steam(7, 40, Clock::System.now().wall_us), look)
}

/// With the key and the id from environment variables.
fn fixture() -> Fixture {
    let mut fixture = signed_out();
    let ready = fixture.sandbox.control().ready();
    let mut settings = fixture.ctx.settings.of(&SERVICE).unwrap().clone();
    for (field, name) in [("api_key", "STEAM_API_KEY"), ("user_id", "STEAM_USER_ID")] {
        settings.values.insert(field, Secret::new(ready["values"][name].as_str().unwrap()));
    }
    fixture.ctx.settings.put(&SERVICE, settings);
    fixture
}

fn own_id(fixture: &Fixture) -> String {
    fixture.sandbox.control().ready()["values"]["STEAM_USER_ID"].as_str().unwrap().to_owned()
}

/// Friends by number, from 1; every seventh is private.
fn friend(fixture: &Fixture, number: usize) -> String {
    let friends = fixture.sandbox.control().records("friend").unwrap();
    friends[number - 1]["steamid"].as_str().unwrap().to_owned()
}

fn status(code: u16) -> FaultKind {
    FaultKind::Status { code, retry_after: None, reset: None, body: None }
}

#[tokio::test]
async fn every_tool_works() {
    let fixture = fixture();
    let (own, friend) = (own_id(&fixture), friend(&fixture, 1));
    let app = 200_000;
    for (tool, arguments, keys) in [
        ("test_steam_credentials", json!({}), &["result"][..]),
        ("get_steam_config", json!({}), &["result"]),
        ("get_steam_library", json!({}), &["result", "total_games", "top_games"]),
        ("get_steam_library", json!({ "steamid": friend }), &["result", "recent_games"]),
        ("get_steam_friends", json!({ "steamid": null }), &["result", "total_friends"]),
        ("my_steam_recent_activity", json!({}), &["result", "recent_games"]),
        ("get_steam_profile", json!({ "steamid": "null" }), &["result", "status"]),
        ("get_steam_recent_activity", json!({ "steamid": "" }), &["steamid", "recent_games"]),
        ("get_player_summary", json!({}), &["steam_id", "persona_name", "account_created"]),
        ("get_player_summary", json!({ "steamids": own }), &["players", "total_players"]),
        ("get_player_achievements", json!({ "app_id": app }), &["completion_rate"]),
        ("get_user_game_stats", json!({ "app_id": app.to_string() }), &["stats", "summary"]),
        ("get_friends_current_games", json!({}), &["result", "playing"]),
        ("compare_games_with_friend", json!({ "friend_steamid": friend }), &["common_games"]),
        ("get_friend_game_recommendations", json!({ "friend_steamid": friend }), &["result"]),
    ] {
        let answer = fixture.good(tool, arguments).await;
        for key in keys {
            assert!(!answer[*key].is_null(), "{tool}: no {key} in {answer}");
        }
    }
}

#[tokio::test]
async fn totals_match_the_library() {
    let fixture = fixture();
    let games = fixture.sandbox.control().records("game").unwrap();
    let minutes = |game: &Value| game["playtime_forever"].as_i64().unwrap();
    let library = fixture.good("get_steam_library", json!({})).await;
    assert_eq!(library["total_games"], games.len());
    let most = games.iter().max_by_key(|game| minutes(game)).unwrap();
    let top = library["top_games"].as_array().unwrap();
    assert_eq!(top.len(), 10);
    assert_eq!(top[0]["app_id"], most["appid"]);
    let played = games.iter().filter(|game| !game["playtime_2weeks"].is_null()).count();
    assert_eq!(library["recent_count"], played);
    let recent = fixture.good("my_steam_recent_activity", json!({})).await;
    assert_eq!(recent["total_recent_games"], played);
}

#[tokio::test]
async fn more_than_a_hundred_friends_are_fetched_in_batches() {
    let fixture = fixture();
    fixture.sandbox.control().reset_counters();
    let playing = fixture.good("get_friends_current_games", json!({})).await;
    assert_eq!(playing["friends_checked"], 120);
    assert_eq!(fixture.sandbox.control().counters().requests, 3);
    let friends = fixture.good("get_steam_friends", json!({})).await;
    assert!(friends["result"].as_str().unwrap().ends_with("... and 110 more friends"));
    let listed = friends["friends"].as_array().unwrap();
    assert_eq!((listed.len(), &friends["next_offset"]), (100, &json!(100)));
    assert!(listed.iter().all(|one| one["persona_name"].is_string()), "{friends}");
    let rest = fixture.good("get_steam_friends", json!({ "offset": 100 })).await;
    assert_eq!(rest["friends"].as_array().unwrap().len(), 20);
    assert_eq!(rest["next_offset"], json!(null));
    let ids: Vec<String> = (1..=3).rev().map(|number| friend(&fixture, number)).collect();
    let many = fixture.good("get_player_summary", json!({ "steamids": ids.join(", ") })).await;
    let order: Vec<&str> = many["players"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["steam_id"].as_str().unwrap())
        .collect();
    assert_eq!(order, ids);
}

#[tokio::test]
async fn statistics_and_achievements_agree() {
    let fixture = fixture();
    let game = json!({ "app_id": 200_000 });
    let achievements = fixture.good("get_player_achievements", game.clone()).await;
    let stats = fixture.good("get_user_game_stats", game).await;
    for count in ["total_achievements", "achieved_count"] {
        assert_eq!(stats["summary"][count], achievements[count], "{count}");
    }
}

#[tokio::test]
async fn a_profile_is_found_by_id_url_and_name() {
    let fixture = fixture();
    let own = own_id(&fixture);
    for given in [
        own.clone(),
        format!("https://steamcommunity.com/profiles/{own}/"),
        "sandbox_player".to_owned(),
        "https://steamcommunity.com/id/sandbox_player".to_owned(),
    ] {
        let profile = fixture.good("get_steam_profile", json!({ "steamid": given })).await;
        assert_eq!(profile["steam_id"], own, "{given}");
    }
    for (given, code) in [
        ("nobody_has_this_name", "not_found"),
        ("../IPlayerService", "not_found"),
        ("123", "invalid_argument"),
        ("a?key=b", "invalid_argument"),
        ("a\nb", "invalid_argument"),
        ("x&y", "invalid_argument"),
    ] {
        assert_eq!(
            fixture.bad("get_steam_library", json!({ "steamid": given })).await,
            code,
            "{given}"
        );
    }
}

#[tokio::test]
async fn private_profiles_are_reported_as_private() {
    let fixture = fixture();
    let hidden = json!({ "steamid": friend(&fixture, 7) });
    let friend_hidden = json!({ "friend_steamid": friend(&fixture, 7) });
    for (tool, arguments) in [
        ("get_steam_library", &hidden),
        ("get_steam_friends", &hidden),
        ("compare_games_with_friend", &friend_hidden),
        ("get_friend_game_recommendations", &friend_hidden),
    ] {
        assert_eq!(fixture.bad(tool, arguments.clone()).await, "private_profile", "{tool}");
    }
    fixture.set(
        &json!({ "private_games": ["me"], "private_friends": ["me"], "private_stats": ["me"] }),
    );
    let game = json!({ "app_id": 200_000 });
    for (tool, arguments) in [
        ("get_steam_library", json!({})),
        ("get_friends_current_games", json!({})),
        ("get_player_achievements", game.clone()),
        ("get_user_game_stats", game),
        ("get_steam_recent_activity", json!({})),
        ("my_steam_recent_activity", json!({})),
    ] {
        assert_eq!(fixture.bad(tool, arguments).await, "private_profile", "{tool}");
    }
}

#[tokio::test]
async fn no_recent_games_differs_from_a_private_history() {
    let fixture = fixture();
    let none = r#"{"response":{"total_count":0}}"#.to_owned();
    let what = FaultKind::Status { code: 200, retry_after: None, reset: None, body: Some(none) };
    fixture.sandbox.control().fault(Fault::on("/IPlayerService/GetRecentlyPlayedGames", what));
    let recent = fixture.good("get_steam_recent_activity", json!({})).await;
    assert_eq!(recent["total_recent_games"], 0);
    assert!(recent["message"].is_string());
}

/// Steam refuses a private list and a bad key alike, with an HTML page or an almost empty body.
#[tokio::test]
async fn a_refusal_means_a_private_profile_while_the_key_works() {
    let fixture = fixture();
    for (code, body) in [(401, "<html>Unauthorized</html>"), (401, "{}"), (403, ""), (403, "{}")] {
        fixture.sandbox.control().clear_faults();
        let body = Some(body.to_owned());
        let refused = FaultKind::Status { code, retry_after: None, reset: None, body };
        fixture.sandbox.control().fault(Fault::on("/ISteamUser/GetFriendList", refused.clone()));
        fixture.sandbox.control().fault(Fault::on("/ISteamUserStats", refused.clone()));
        for tool in ["get_steam_friends", "get_friends_current_games", "get_player_achievements"] {
            let found = fixture.bad(tool, json!({ "app_id": 200_000 })).await;
            assert_eq!(found, "private_profile", "{tool} {code}");
        }
        fixture.sandbox.control().fault(Fault::on("/ISteamUser/GetPlayerSummaries", refused));
        assert_eq!(fixture.bad("get_steam_friends", json!({})).await, "auth_expired", "{code}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_named() {
    let fixture = fixture();
    for (tool, arguments, code) in [
        ("get_player_achievements", json!({}), "invalid_argument"),
        ("get_player_achievements", json!({ "app_id": "many" }), "invalid_argument"),
        ("get_user_game_stats", json!({ "app_id": -1 }), "invalid_argument"),
        ("compare_games_with_friend", json!({ "friend_steamid": "" }), "invalid_argument"),
        ("get_friend_game_recommendations", json!({}), "invalid_argument"),
        ("get_steam_library", json!({ "steamid": 7 }), "invalid_argument"),
        // Game 8 has no statistics, game 4 no achievements.
        ("get_player_achievements", json!({ "app_id": 210_960 }), "not_found"),
        ("get_user_game_stats", json!({ "app_id": 210_960 }), "not_found"),
        ("get_player_achievements", json!({ "app_id": 205_480 }), "not_found"),
        ("get_player_summary", json!({ "steamids": "76561197960265728" }), "not_found"),
    ] {
        assert_eq!(fixture.bad(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn bad_responses_become_problems_without_the_key_in_them() {
    let fixture = fixture();
    for (what, code) in [
        (FaultKind::Html, "upstream_error"),
        (FaultKind::Garbage, "upstream_error"),
        (FaultKind::Truncate, "upstream_error"),
        (status(404), "not_found"),
        (status(403), "auth_expired"),
    ] {
        fixture.sandbox.control().clear_faults();
        fixture.sandbox.control().fault(Fault::on("/", what));
        for tool in ["test_steam_credentials", "get_steam_library", "get_steam_profile"] {
            assert_eq!(fixture.bad(tool, json!({})).await, code, "{tool}");
        }
    }
    fixture.sandbox.control().clear_faults();
    fixture.set(&json!({ "limits": [[1, 86_400]] }));
    fixture.good("get_steam_profile", json!({})).await;
    assert_eq!(fixture.bad("get_steam_profile", json!({})).await, "rate_limited");
}

#[tokio::test]
async fn an_invalid_key_differs_from_a_private_profile() {
    let fixture = fixture();
    fixture.good("get_steam_profile", json!({})).await;
    fixture.sandbox.control().expire(TokenKind::All);
    assert_eq!(fixture.bad("get_steam_profile", json!({})).await, "auth_expired");
}

#[tokio::test]
async fn without_a_key_every_tool_says_how_to_get_one() {
    let fixture = signed_out();
    let config = fixture.good("get_steam_config", json!({})).await;
    assert!(config["result"].as_str().unwrap().contains("not set"));
    for tool in super::CONNECTOR.tools.iter().filter(|tool| tool.name != "get_steam_config") {
        let arguments = json!({ "app_id": 200_000, "friend_steamid": "sandbox_player" });
        assert_eq!(fixture.bad(tool.name, arguments).await, "not_configured", "{}", tool.name);
    }
}

#[tokio::test]
async fn games_are_mirrored() {
    use super::mirror::MIRROR;
    use crate::sync::{SyncRequest, run};
    let fixture = fixture();
    let games = fixture.sandbox.control().records("game").unwrap();
    let count = || usize::try_from(fixture.ctx.records.count("steam", "games").unwrap()).unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(count(), games.len());
    let again = run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(again["resources"]["games"]["records_upserted"], 0, "{again}");
    let gone = games[0]["appid"].as_i64().unwrap().to_string();
    let played = games[1]["appid"].as_i64().unwrap().to_string();
    fixture.sandbox.control().remove("game", &gone).unwrap();
    fixture
        .sandbox
        .control()
        .edit("game", &played, &json!({ "playtime_forever": 123_456 }))
        .unwrap();
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_eq!(result["resources"]["games"]["records_removed"], 1, "{result}");
    assert_eq!(result["resources"]["games"]["records_upserted"], 1, "{result}");
    let row = fixture.ctx.records.one("steam", "games", &played).unwrap().unwrap();
    let flat: Value = serde_json::from_str(&row.flat).unwrap();
    assert_eq!(flat["minutes_total"], 123_456);
    fixture.set(&json!({ "private_games": ["me"] }));
    let result =
        run(&fixture.ctx, &MIRROR, &SyncRequest::default(), &|_| {}).await.unwrap().value();
    assert_ne!(result["status"], "success", "{result}");
    assert_eq!(count(), games.len() - 1, "a library that turned private is kept");
}
