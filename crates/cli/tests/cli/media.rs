//! Spotify and YouTube through the binary: connected, mirrored, exported, and served to an agent that never
//! sees a secret.

use std::time::SystemTime;

use sandbox::{Config, Running, Sandbox};
use serde_json::{Value, json};

use crate::cli_test::{CliTest, files_below};

fn now_us() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

fn connected(service: &str, config: Config, api: &str, oauth: &str) -> (CliTest, Running) {
    let sandbox = Sandbox::start(config).unwrap();
    let ready = sandbox.control().ready();
    let mut test = CliTest::new();
    let upper = service.to_uppercase();
    test.set(&format!("{upper}_API_BASE_URL"), &format!("{}{api}", sandbox.url()));
    test.set(&format!("{upper}_OAUTH_BASE_URL"), &format!("{}{oauth}", sandbox.url()));
    for (name, field) in [("CLIENT_ID", "client_id"), ("CLIENT_SECRET", "client_secret")] {
        test.set(&format!("{upper}_{name}"), ready[field].as_str().unwrap());
    }
    let tokens = test.write("tokens.json", &sandbox.control().tokens().to_string());
    test.succeed(&["connect", service, "--tokens", &tokens]);
    std::fs::remove_file(tokens).unwrap();
    (test, sandbox)
}

fn spotify() -> (CliTest, Running) {
    connected("spotify", Config::spotify(7, 5, now_us()), "/api", "/accounts")
}

/// The responses to these calls, in order.
fn calls(test: &CliTest, service: &str, calls: &[(&str, Value)]) -> Vec<Value> {
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let mut input = format!("{hello}\n");
    for (id, (tool, arguments)) in calls.iter().enumerate() {
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        input += &call.to_string();
        input.push('\n');
    }
    let output = test.run_session(&["stdio", service], &input);
    let answers: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: usize| answers.iter().find(|answer| answer["id"] == id).unwrap().clone();
    (0..calls.len()).map(of).collect()
}

#[test]
fn spotify_is_mirrored_and_exported() {
    let (test, sandbox) = spotify();
    let output = test.succeed(&["accounts"]);
    assert!(output.all_output().contains("spotify: consent ends 20"), "{}", output.all_output());
    let tracks = sandbox.control().records("saved_track").unwrap().len();
    let output = test.succeed(&["sync", "spotify"]);
    assert!(output.stdout.contains(&format!("{tracks} saved tracks")), "{}", output.stdout);
    let sql = "select count(*) as n from spotify_saved_tracks";
    let rows = test.succeed(&["sql", sql, "--json"]).all_output();
    assert!(rows.contains(&tracks.to_string()), "{rows}");
    let out = test.path("plays.csv");
    let out = out.to_str().unwrap();
    test.succeed(&["export", "spotify", "plays", "--out", out]);
    // Spotify gives out the newest 50 at most. How many there are depends on the day of the test.
    let plays = sandbox.control().records("play").unwrap().len().min(50);
    assert_eq!(std::fs::read_to_string(out).unwrap().lines().count(), plays + 1);
    let events =
        test.succeed(&["events", "spotify", "--since", "2000-01-01", "--limit", "3", "--json"]);
    assert_eq!(events.json()["count"], 3);
}

#[test]
fn an_agent_gets_answers_and_structured_errors_and_no_secret() {
    const PLANTED: &str = "PLANTED-SECRET-0451";
    let (test, _sandbox) = spotify();
    let secret = json!({ "access_token": PLANTED, "client_secret": PLANTED, "user_id": "x" });
    let answers = calls(
        &test,
        "spotify",
        &[
            (
                "get_user_saved_tracks",
                json!({ "limit": 2, "offset": null, "access_token": "null" }),
            ),
            ("get_user_profile", secret.clone()),
            ("get_spotify_token_status", secret.clone()),
            ("setup_spotify_oauth", secret),
        ],
    );
    let page = &answers[0]["result"]["structuredContent"];
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next_offset"]), (2, &json!(2)));
    let refused = &answers[1]["result"];
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["error"]["code"], "removed_by_upstream");
    assert_eq!(answers[2]["result"]["structuredContent"]["token_info"]["state"], "valid");
    let mut bytes = json!(answers).to_string().into_bytes();
    for (_, file) in files_below(&test.home()) {
        bytes.extend(file);
    }
    let text = String::from_utf8_lossy(&bytes);
    for secret in ["sandbox-access-", "sandbox-refresh-", PLANTED, "sandbox-spotify-secret"] {
        // The audit log has only the digest of a call's arguments.
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn a_file_that_is_not_an_archive_is_refused_with_a_hint() {
    let test = CliTest::new();
    let wrong = test.write("history.zip", "no zip");
    let output = test.run(&["import", "spotify", &wrong]);
    assert_ne!(output.code, 0);
    assert!(
        output.stderr.contains("not a ZIP") && output.stderr.contains("hint:"),
        "{}",
        output.stderr
    );
    let output = test.run(&["import", "youtube", "/nowhere.zip"]);
    assert!(output.stderr.contains("cannot open"), "{}", output.stderr);
}

#[test]
fn youtube_is_mirrored_and_disconnected() {
    let config = Config::youtube(7, 5, now_us());
    let (test, sandbox) = connected("youtube", config, "/www", "/oauth2");
    let likes = sandbox.control().records("like").unwrap().len();
    let output = test.succeed(&["sync", "youtube"]);
    assert!(output.stdout.contains(&format!("{likes} likes")), "{}", output.stdout);
    let found = calls(&test, "youtube", &[("search_youtube_videos", json!({ "query": "rust" }))]);
    assert_eq!(found[0]["result"]["structuredContent"]["videos"].as_array().unwrap().len(), 10);
    test.succeed(&["disconnect", "youtube", "--yes"]);
    let found = calls(&test, "youtube", &[("get_youtube_playlists", json!({}))]);
    let error = &found[0]["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "not_configured");
    assert!(error["hint"].as_str().unwrap().contains("tollgate connect youtube"));
}
