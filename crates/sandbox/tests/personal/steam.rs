//! Steam: library, friends, statistics, and private data.

use std::collections::BTreeSet;

use sandbox::TokenKind;
use serde_json::{Value, json};

use crate::service_test::{ServiceTest, start};

fn me(test: &ServiceTest) -> String {
    test.records("player")[0]["steamid"].as_str().unwrap().to_owned()
}

fn friend(test: &ServiceTest, number: usize) -> String {
    test.records("friend")[number - 1]["steamid"].as_str().unwrap().to_owned()
}

fn owned(test: &ServiceTest, id: &str, more: &str) -> Value {
    test.json(&format!("/IPlayerService/GetOwnedGames/v0001/?steamid={id}{more}"))["response"]
        .clone()
}

#[test]
fn a_library_has_names_and_free_games_only_on_request() {
    let test = start("steam");
    let id = me(&test);
    let all = owned(&test, &id, "&include_appinfo=1&include_played_free_games=1");
    let paid = owned(&test, &id, "&include_appinfo=true");
    let bare = owned(&test, &id, "");
    assert_eq!(all["games"].as_array().unwrap().len(), test.records("game").len());
    assert!(paid["game_count"].as_u64() < all["game_count"].as_u64());
    assert!(all["games"][0]["name"].is_string() && bare["games"][0].get("name").is_none());
    let newer = test.json(&format!("/IPlayerService/GetOwnedGames/v1?steamid={id}"));
    assert_eq!(newer["response"], bare);
}

#[test]
fn recent_games_are_those_of_two_weeks() {
    let test = start("steam");
    let path = format!("/IPlayerService/GetRecentlyPlayedGames/v0001/?steamid={}", me(&test));
    let recent = test.json(&path)["response"].clone();
    let games = recent["games"].as_array().unwrap();
    assert!(!games.is_empty() && recent["total_count"] == json!(games.len()));
    assert!(games.iter().all(|game| game["playtime_2weeks"].as_i64() > Some(0)));
    let two = test.json(&format!("{path}&count=2"))["response"].clone();
    assert_eq!(
        (two["games"].as_array().unwrap().len(), &two["total_count"]),
        (2, &recent["total_count"])
    );
    test.running.control().clear("game").unwrap();
    assert_eq!(test.json(&path), json!({ "response": { "total_count": 0 } }));
}

#[test]
fn friends_are_one_list_and_summaries_come_by_the_hundred() {
    let test = start("steam");
    let friends = test.json(&format!(
        "/ISteamUser/GetFriendList/v0001/?steamid={}&relationship=friend",
        me(&test)
    ));
    let ids: Vec<&str> = friends["friendslist"]["friends"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["steamid"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 120);
    let ask = |ids: &[&str]| {
        test.get(&format!("/ISteamUser/GetPlayerSummaries/v0002/?steamids={}", ids.join(",")))
    };
    assert_eq!(ask(&ids).status, 400);
    let found: BTreeSet<String> = ids
        .chunks(100)
        .flat_map(|some| ask(some).json()["response"]["players"].as_array().unwrap().clone())
        .map(|one| one["steamid"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(found.len(), 120);
    assert_eq!(ask(&["76561199999999999"]).json(), json!({ "response": { "players": [] } }));
}

#[test]
fn private_data_gets_steams_responses() {
    let test = start("steam");
    let id = me(&test);
    let with_stats = test.records("game")[0]["appid"].clone();
    let paths = [
        format!("/IPlayerService/GetOwnedGames/v0001/?steamid={id}"),
        format!("/ISteamUser/GetFriendList/v0001/?steamid={id}"),
        format!("/ISteamUserStats/GetPlayerAchievements/v0001/?steamid={id}&appid={with_stats}"),
        format!("/ISteamUserStats/GetUserStatsForGame/v0002/?steamid={id}&appid={with_stats}"),
    ];
    let statuses = || paths.each_ref().map(|path| test.get(path).status);
    assert_eq!(statuses(), [200; 4]);
    test.set(&json!({ "private_games": ["me"], "private_friends": [id], "private_stats": ["me"] }));
    assert_eq!(statuses(), [200, 401, 403, 403]);
    assert_eq!(test.json(&paths[0]), json!({ "response": {} }));
    let said = test.get(&paths[2]).json();
    assert_eq!(
        said,
        json!({ "playerstats": { "error": "Profile is not public", "success": false } })
    );
    // Every seventh friend is generated as private.
    assert_eq!(owned(&test, &friend(&test, 7), ""), json!({}));
    assert!(owned(&test, &friend(&test, 8), "")["game_count"].as_u64() > Some(20));
    assert_eq!(test.records("player")[7]["communityvisibilitystate"], 1);
}

#[test]
fn statistics_of_games_with_and_without_them() {
    let test = start("steam");
    let id = me(&test);
    let ask = |appid: &str| {
        test.get(&format!(
            "/ISteamUserStats/GetPlayerAchievements/v0001/?steamid={id}&appid={appid}"
        ))
    };
    let good = ask("200000").json()["playerstats"].clone();
    let done = good["achievements"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["achieved"] == json!(1))
        .count();
    assert!(done > 0 && good["success"] == json!(true) && good["gameName"].is_string());
    // Number 8 has no statistics, number 4 no achievements.
    let none = ask("210960");
    assert_eq!(
        (none.status, none.json()["playerstats"]["error"].clone()),
        (400, json!("Requested app has no stats"))
    );
    assert!(ask("205480").json()["playerstats"].get("achievements").is_none());
    assert_eq!(ask("1").status, 400);
    let stats = |appid: &str| {
        test.get(&format!("/ISteamUserStats/GetUserStatsForGame/v0002/?steamid={id}&appid={appid}"))
    };
    assert_eq!(stats("200000").json()["playerstats"]["stats"].as_array().unwrap().len(), 5);
    assert_eq!((stats("210960").status, stats("210960").text()), (400, "{}".to_owned()));
}

#[test]
fn errors_are_web_pages() {
    let mut test = start("steam");
    let id = me(&test);
    for (path, status) in [
        ("/IPlayerService/GetOwnedGames/v0001/?steamid=12".to_owned(), 400),
        ("/IPlayerService/GetOwnedGames/v0001/".to_owned(), 400),
        ("/ISteamUser/GetFriendList/v0001/?steamid=76561199999999999".to_owned(), 500),
        ("/ISteamUser/GetPlayerSummaries/v0002/".to_owned(), 400),
        (format!("/ISteamUserStats/GetUserStatsForGame/v0002/?steamid={id}"), 400),
        ("/ISteamUser/GetEverything/v0001/".to_owned(), 404),
    ] {
        let got = test.get(&path);
        assert!(got.status == status && got.text().starts_with("<html>"), "{path}: {}", got.status);
    }
    assert_eq!(owned(&test, "76561199999999999", ""), json!({}));
    let vanity = |name: &str| {
        test.json(&format!("/ISteamUser/ResolveVanityURL/v0001/?vanityurl={name}"))["response"]
            .clone()
    };
    assert_eq!(
        (vanity("sandbox_player")["steamid"].clone(), vanity("unknown")["success"].clone()),
        (json!(id), json!(42))
    );
    let path = format!("/ISteamUser/GetFriendList/v0001/?steamid={id}");
    let without = crate::wire::send(test.running.url(), "GET", &path, &[], "");
    assert_eq!(without.status, 401);
    test.running.control().expire(TokenKind::All);
    assert_eq!(test.get(&path).status, 403);
    test.sign_in();
    assert_eq!(test.get(&path).status, 200);
}
