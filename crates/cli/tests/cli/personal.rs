//! The personal services through the binary: connected by key or cookies, and shown as one server.

use std::time::SystemTime;

use sandbox::{Config, Running, Sandbox};
use serde_json::{Value, json};

use crate::stage::{Stage, files_below};

fn now_us() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

/// A service whose key or cookies the environment holds.
fn stand(stage: &mut Stage, name: &str, config: Config) -> Running {
    let sandbox = Sandbox::start(config).unwrap();
    stage.set(&format!("{}_API_BASE_URL", name.to_uppercase()), sandbox.url());
    let ready = sandbox.control().ready();
    for (variable, value) in ready["values"].as_object().unwrap() {
        stage.set(variable, value.as_str().unwrap());
    }
    sandbox
}

fn asked(stage: &Stage, method: &str, params: &Value) -> Value {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let question = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params });
    let said = stage.run_with(&["stdio", "personal"], &format!("{hello}\n{question}\n"));
    assert_eq!(said.code, 0, "{}", said.everything());
    let mut answers = said.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers.find(|answer| answer["id"] == 2).unwrap()
}

fn names(stage: &Stage) -> Vec<String> {
    let answer = asked(stage, "tools/list", &json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn call(stage: &Stage, tool: &str, arguments: &Value) -> Value {
    asked(stage, "tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
}

#[test]
fn the_environment_chooses_how_much_is_shown() {
    let mut stage = Stage::new();
    assert_eq!(names(&stage).len(), 90);
    stage.set("MCP_EXTRA_ALLOWED_TOOLS", "add, nothing_like_this");
    stage.set("MCP_TOOL_PROFILE", "safe");
    let safe = names(&stage);
    assert_eq!(safe.len(), 24);
    assert!(safe.contains(&"add".to_owned()) && !safe.contains(&"follow_playlist".to_owned()));
    stage.set("MCP_TOOL_PROFILE", "minimal");
    assert_eq!(names(&stage).len(), 3);
    stage.set("MCP_TOOL_PROFILE", "everything");
    let said = stage.run(&["stdio", "personal"]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains("`full`, `safe`, `minimal`"), "{}", said.stderr);
    assert!(said.stdout.is_empty());
    let said = stage.run(&["stdio", "personal", "--tools", "safest"]);
    assert!(said.stderr.contains("`minimal`"), "{}", said.stderr);
}

#[test]
fn key_and_cookies_are_sealed_tried_and_never_shown() {
    let mut stage = Stage::new();
    let steam = stand(&mut stage, "steam", Config::steam(7, 20, now_us()));
    let _bilibili = stand(&mut stage, "bilibili", Config::bilibili(7, 20, now_us()));
    stage.fine(&["connect", "steam"]);
    stage.fine(&["connect", "bilibili"]);
    let key = steam.control().ready()["values"]["STEAM_API_KEY"].as_str().unwrap().to_owned();
    // What is in the vault serves without the environment.
    stage.set("STEAM_API_KEY", "");
    stage.set("STEAM_USER_ID", "");
    stage.set("BILIBILI_SESSDATA", "");
    let status = call(&stage, "get_personalization_status", &json!({}));
    let platforms = &status["structuredContent"]["platforms"];
    assert_eq!(platforms["steam"]["state"], "connected");
    assert_eq!(platforms["bilibili"]["state"], "connected");
    assert_eq!(platforms["reddit"]["state"], "not_connected");
    let library = call(&stage, "get_steam_library", &json!({ "steamid": null }));
    let games = steam.control().records("game").unwrap().len();
    assert_eq!(library["structuredContent"]["total_games"], games, "{library}");
    let said = stage.fine(&["sync", "steam"]);
    assert!(said.stdout.contains(&format!("{games} games")), "{}", said.stdout);
    let rows = stage.fine(&["sql", "select count(*) as n from steam_games", "--json"]);
    assert!(rows.everything().contains(&games.to_string()), "{}", rows.everything());
    let history = call(&stage, "get_bilibili_watch_history", &json!({}));
    assert!(history["structuredContent"]["total_count"].as_u64().unwrap() > 0, "{history}");
    let refused = call(&stage, "search_bilibili_videos", &json!({ "keyword": "x" }));
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["error"]["code"], "unsupported_upstream");
    let reddit = call(&stage, "get_saved_content", &json!({ "access_token": "PLANTED-0451" }));
    assert_eq!(reddit["structuredContent"]["error"]["code"], "approval_required");
    let mut bytes = json!([status, library, history, reddit]).to_string().into_bytes();
    for (_, file) in files_below(&stage.home()) {
        bytes.extend(file);
    }
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(&key) && !text.contains("PLANTED-0451"));
    stage.fine(&["disconnect", "steam", "--yes"]);
    let gone = call(&stage, "get_steam_library", &json!({}));
    assert_eq!(gone["structuredContent"]["error"]["code"], "not_configured");
}

#[test]
fn void_credentials_are_not_kept() {
    let mut stage = Stage::new();
    let sandbox = stand(&mut stage, "bilibili", Config::bilibili(7, 2, now_us()));
    sandbox.control().expire(sandbox::Which::All);
    let said = stage.run(&["connect", "bilibili"]);
    assert_ne!(said.code, 0, "{}", said.everything());
    let status = call(&stage, "get_bilibili_watch_history", &json!({}));
    assert_eq!(status["structuredContent"]["error"]["code"], "auth_expired");
}
