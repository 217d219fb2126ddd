//! The personal services through the binary: connected by key or cookies, and shown as one server.

use std::fs;
use std::time::SystemTime;

use sandbox::{Config, Fault, FaultKind, Running, Sandbox};
use serde_json::{Value, json};

use crate::cli_test::{CliTest, files_below};

fn now_us() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

/// A service whose key or cookies the environment holds.
fn stand(test: &mut CliTest, name: &str, config: Config) -> Running {
    let sandbox = Sandbox::start(config).unwrap();
    test.set(&format!("{}_API_BASE_URL", name.to_uppercase()), sandbox.url());
    let ready = sandbox.control().ready();
    for (variable, value) in ready["values"].as_object().unwrap() {
        test.set(variable, value.as_str().unwrap());
    }
    sandbox
}

fn asked(test: &CliTest, method: &str, params: &Value) -> Value {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let question = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params });
    let printed = test.run_session(&["stdio", "personal"], &format!("{hello}\n{question}\n"));
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    let mut answers =
        printed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers.find(|answer| answer["id"] == 2).unwrap()
}

fn names(test: &CliTest) -> Vec<String> {
    let answer = asked(test, "tools/list", &json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn call(test: &CliTest, tool: &str, arguments: &Value) -> Value {
    asked(test, "tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
}

#[test]
fn the_environment_selects_the_profile() {
    let mut test = CliTest::new();
    assert_eq!(names(&test).len(), 93);
    test.set("MCP_EXTRA_ALLOWED_TOOLS", "add, nothing_like_this");
    test.set("MCP_TOOL_PROFILE", "safe");
    let safe = names(&test);
    assert_eq!(safe.len(), 24);
    assert!(safe.contains(&"add".to_owned()) && !safe.contains(&"follow_playlist".to_owned()));
    test.set("MCP_TOOL_PROFILE", "minimal");
    assert_eq!(names(&test).len(), 3);
    test.set("MCP_TOOL_PROFILE", "everything");
    let printed = test.run(&["stdio", "personal"]);
    assert_ne!(printed.code, 0);
    assert!(printed.stderr.contains("`full`, `safe`, `minimal`"), "{}", printed.stderr);
    assert!(printed.stdout.is_empty());
    let printed = test.run(&["stdio", "personal", "--tools", "safest"]);
    assert!(printed.stderr.contains("`minimal`"), "{}", printed.stderr);
}

#[test]
fn key_and_cookies_are_sealed_checked_and_never_shown() {
    let mut test = CliTest::new();
    let steam = stand(&mut test, "steam", Config::steam(7, 20, now_us()));
    let _bilibili = stand(&mut test, "bilibili", Config::bilibili(7, 20, now_us()));
    test.succeed(&["connect", "steam"]);
    test.succeed(&["connect", "bilibili"]);
    let key = steam.control().ready()["values"]["STEAM_API_KEY"].as_str().unwrap().to_owned();
    // The sealed values work without the environment.
    test.set("STEAM_API_KEY", "");
    test.set("STEAM_USER_ID", "");
    test.set("BILIBILI_SESSDATA", "");
    let status = call(&test, "get_personalization_status", &json!({}));
    let platforms = &status["structuredContent"]["platforms"];
    assert_eq!(platforms["steam"]["state"], "connected");
    assert_eq!(platforms["bilibili"]["state"], "connected");
    assert_eq!(platforms["reddit"]["state"], "not_connected");
    let library = call(&test, "get_steam_library", &json!({ "steamid": null }));
    let games = steam.control().records("game").unwrap().len();
    assert_eq!(library["structuredContent"]["total_games"], games, "{library}");
    let printed = test.succeed(&["sync", "steam"]);
    assert!(printed.stdout.contains(&format!("{games} games")), "{}", printed.stdout);
    let rows = test.succeed(&["sql", "select count(*) as n from steam_games", "--json"]);
    assert!(rows.all_output().contains(&games.to_string()), "{}", rows.all_output());
    let history = call(&test, "get_bilibili_watch_history", &json!({}));
    assert!(history["structuredContent"]["total_count"].as_u64().unwrap() > 0, "{history}");
    let refused = call(&test, "search_bilibili_videos", &json!({ "keyword": "x" }));
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["error"]["code"], "unsupported_upstream");
    let reddit = call(&test, "get_saved_content", &json!({ "access_token": "PLANTED-0451" }));
    assert_eq!(reddit["structuredContent"]["error"]["code"], "approval_required");
    let mut bytes = json!([status, library, history, reddit]).to_string().into_bytes();
    for (_, file) in files_below(&test.home()) {
        bytes.extend(file);
    }
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(&key) && !text.contains("PLANTED-0451"));
    test.succeed(&["disconnect", "steam", "--yes"]);
    let gone = call(&test, "get_steam_library", &json!({}));
    assert_eq!(gone["structuredContent"]["error"]["code"], "not_configured");
}

#[test]
fn invalid_credentials_are_not_saved() {
    let mut test = CliTest::new();
    let sandbox = stand(&mut test, "bilibili", Config::bilibili(7, 2, now_us()));
    sandbox.control().expire(sandbox::TokenKind::All);
    let printed = test.run(&["connect", "bilibili"]);
    assert_ne!(printed.code, 0, "{}", printed.all_output());
    let status = call(&test, "get_bilibili_watch_history", &json!({}));
    assert_eq!(status["structuredContent"]["error"]["code"], "auth_expired");
}

/// The gate gives a client that leaves no time here; the owner's command waits until the call is over.
#[test]
fn a_call_of_the_owner_is_not_cut_off_at_the_end_of_input() {
    let mut test = CliTest::new();
    let steam = stand(&mut test, "steam", Config::steam(7, 20, now_us()));
    test.succeed(&["personal", "status"]);
    fs::write(test.home().join("tollgate.toml"), "[limits]\ndrain_wait_ms_max = 0\n").unwrap();
    steam.control().fault(Fault::on("/", FaultKind::Delay { ms: 300 }));
    let words = test.succeed(&["personal", "steam", "profile"]).stdout;
    assert!(words.contains("Visibility"), "{words}");
}

#[test]
fn the_command_line_does_what_the_tools_do() {
    let mut test = CliTest::new();
    let steam = stand(&mut test, "steam", Config::steam(7, 20, now_us()));
    let profiles = test.succeed(&["personal", "profiles", "--json"]).json();
    let counts: Vec<&Value> = profiles.as_array().unwrap().iter().map(|p| &p["count"]).collect();
    assert_eq!(counts, [&json!(93), &json!(23), &json!(2)]);
    let status = test.succeed(&["personal", "status"]).stdout;
    assert!(status.contains("Steam: connected") && status.contains("tollgate connect reddit"));
    let games = steam.control().records("game").unwrap().len();
    let library = test.succeed(&["personal", "steam", "library", "--json"]).json();
    assert_eq!(library["total_games"], games);
    let words = test.succeed(&["personal", "steam", "profile"]).stdout;
    assert!(words.contains("Visibility"), "{words}");
    let sum = test.succeed(&["personal", "call", "add", r#"{"a":2,"b":40}"#, "--json"]).json();
    assert_eq!(sum["result"], 42);
    let good = test.succeed(&["personal", "steam", "credentials", "--json"]).json();
    assert_eq!((&good["ok"], &good["platform"]), (&json!(true), &json!("steam")));
    steam.control().expire(sandbox::TokenKind::All);
    let bad = test.run(&["personal", "steam", "credentials", "--json"]);
    assert_eq!((bad.code, &bad.json()["ok"]), (1, &json!(false)));
    let none = test.run(&["personal", "spotify", "recent"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("tollgate connect spotify"), "{}", none.stderr);
    let wrong = test.run(&["personal", "call", "add_all"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("add_all"), "{}", wrong.all_output());
    // Each call is in the audit log.
    let rows = test.succeed(&["audit", "export", "--format", "jsonl"]).stdout;
    assert!(rows.contains("get_steam_library") && rows.contains("owner"), "{rows}");
}

#[test]
fn services_are_set_up_one_after_another() {
    let mut test = CliTest::new();
    let dry = test.run(&["personal", "setup", "--all", "--dry-run", "--json"]);
    assert_eq!(dry.code, 1);
    let platforms = dry.json()["platforms"].clone();
    assert_eq!(platforms.as_array().unwrap().len(), 5);
    assert_eq!(platforms[0]["missing"], json!(["STEAM_API_KEY", "STEAM_USER_ID"]));
    assert_eq!(platforms[3]["missing"], json!(["SPOTIFY_CLIENT_ID"]));
    let unknown = test.run(&["personal", "setup", "--platform", "steam,twitter"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("twitter"), "{}", unknown.all_output());
    let secret = "STEAM_API_KEY=PLANTED-KEY-0451";
    let told = test.run(&["personal", "onboarding", "--platform", "steam", "--set", secret]);
    assert!(told.code == 2 && !told.all_output().contains("0451"), "{}", told.all_output());
    let sandbox = Sandbox::start(Config::steam(7, 20, now_us())).unwrap();
    test.set("STEAM_API_BASE", sandbox.url());
    let ready = sandbox.control().ready();
    let value = |name: &str| ready["values"][name].as_str().unwrap().to_owned();
    let file = test.write("key", &value("STEAM_API_KEY"));
    let (key, id) =
        (format!("STEAM_API_KEY=@{file}"), format!("STEAM_USER_ID={}", value("STEAM_USER_ID")));
    test.succeed(&["personal", "setup", "--platform", "steam", "--set", &key, "--set", &id]);
    let accounts = test.succeed(&["accounts", "steam", "--json"]).json();
    assert_eq!(accounts[0]["state"], "connected");
    assert!(accounts[0]["used_at"].is_null());
    test.succeed(&["personal", "steam", "library"]);
    let accounts = test.succeed(&["accounts", "steam", "--json"]).json();
    assert!(accounts[0]["used_at"].is_string(), "{accounts}");
}

#[test]
fn a_gate_shows_the_profile_that_the_environment_selects() {
    let mut test = CliTest::new();
    test.succeed(&["server", "add", "personal", "--builtin", "personal"]);
    let printed = test.succeed(&["grant", "create", "me", "--server", "personal", "--json"]);
    let token = printed.json()["token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let count = |test: &CliTest| {
        let up = test.up(&[]);
        let url = format!("{}/personal", up.url());
        let answer = crate::http::post(&url, &headers, &list.to_string());
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).len()
    };
    assert_eq!(count(&test), 93);
    test.set("MCP_TOOL_PROFILE", "safe");
    test.set("MCP_EXTRA_ALLOWED_TOOLS", "add,nothing_like_this");
    assert_eq!(count(&test), 24);
    test.set("MCP_TOOL_PROFILE", "everything");
    let printed = test.run(&["up", "--listen", "127.0.0.1:0"]);
    assert!(printed.code == 2 && printed.stderr.contains("`minimal`"), "{}", printed.all_output());
}

/// The paths of a service's hosts in the sandbox.
const PLACES: [(&str, &str, &str); 8] = [
    ("steam", "STEAM_API_BASE_URL", ""),
    ("bilibili", "BILIBILI_API_BASE_URL", ""),
    ("youtube", "YOUTUBE_API_BASE_URL", "/www"),
    ("youtube", "YOUTUBE_OAUTH_BASE_URL", "/oauth2"),
    ("spotify", "SPOTIFY_API_BASE_URL", "/api"),
    ("spotify", "SPOTIFY_OAUTH_BASE_URL", "/accounts"),
    ("reddit", "REDDIT_API_BASE_URL", "/oauth"),
    ("reddit", "REDDIT_OAUTH_BASE_URL", "/www"),
];

#[test]
fn no_secret_of_any_service_is_in_any_output_log_or_file() {
    let mut test = CliTest::new();
    let mut secrets = vec!["PLANTED-ARGUMENT-0451".to_owned()];
    let mut heard = String::new();
    let sandboxes: Vec<(&str, Running)> = [
        ("steam", Config::steam(7, 5, now_us())),
        ("bilibili", Config::bilibili(7, 5, now_us())),
        ("youtube", Config::youtube(7, 5, now_us())),
        ("spotify", Config::spotify(7, 5, now_us())),
        ("reddit", Config::reddit(7, 5, now_us())),
    ]
    .map(|(name, config)| (name, Sandbox::start(config).unwrap()))
    .into();
    for (name, sandbox) in &sandboxes {
        for (_, variable, path) in PLACES.iter().filter(|(service, ..)| service == name) {
            test.set(variable, &format!("{}{path}", sandbox.url()));
        }
        let ready = sandbox.control().ready();
        for (variable, value) in ready["values"].as_object().into_iter().flatten() {
            test.set(variable, value.as_str().unwrap());
            // The id of a profile is not a secret.
            if variable != "STEAM_USER_ID" {
                secrets.push(value.as_str().unwrap().to_owned());
            }
        }
        let upper = name.to_uppercase();
        let mut tokens = String::new();
        if let Some(secret) = ready["client_secret"].as_str() {
            test.set(&format!("{upper}_CLIENT_ID"), ready["client_id"].as_str().unwrap());
            test.set(&format!("{upper}_CLIENT_SECRET"), secret);
            secrets.push(secret.to_owned());
            let issued = sandbox.control().tokens();
            for field in ["access_token", "refresh_token"] {
                secrets.push(issued[field].as_str().unwrap().to_owned());
            }
            tokens = issued.to_string();
        }
        let words: &[&str] = if tokens.is_empty() { &[] } else { &["--tokens", "-"] };
        let words = [&["--log", "debug", "connect", name], words].concat();
        let printed = test.run_with(&words, &tokens);
        assert_eq!(printed.code, 0, "{}", printed.all_output());
        heard += &printed.all_output();
    }
    heard += &every_tool(&test, "good");
    for (_, sandbox) in &sandboxes {
        let body = Some("<html>no</html>".to_owned());
        let what = sandbox::FaultKind::Status { code: 401, retry_after: None, reset: None, body };
        sandbox.control().fault(sandbox::Fault::on("", what));
    }
    heard += &every_tool(&test, "bad");
    for words in [
        &["accounts", "--json"][..],
        &["accounts", "--check"],
        &["personal", "status", "--json"],
        &["doctor"],
        &["status", "--json"],
        &["audit", "export", "--format", "jsonl"],
        &["audit", "tail", "--json"],
        &["--log", "debug", "sync", "spotify"],
    ] {
        heard += &test.run(words).all_output();
    }
    let mut places = vec![("output".to_owned(), heard.into_bytes())];
    for (path, bytes) in files_below(&test.home()) {
        places.push((path.display().to_string(), bytes));
    }
    for (place, bytes) in &places {
        let text = String::from_utf8_lossy(bytes);
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "{place} holds {secret}");
        }
    }
    assert!(places.len() > 5, "{} files were searched", places.len());
}

/// Calls all tools in one session, with secrets wherever a tool takes one.
fn every_tool(test: &CliTest, why: &str) -> String {
    let arguments = json!({
        "a": 1, "b": 2, "app_id": 200_000, "friend_steamid": "sandbox_player", "query": "x",
        "video_id": "x", "channel_id": "UCx", "uid": 1, "bvid": "BV1xx411c7mD", "keyword": "x",
        "user_id": "x", "playlist_id": "x", "ids": "x", "follow_type": "user",
        "authorization_code": "PLANTED-ARGUMENT-0451", "access_token": "PLANTED-ARGUMENT-0451",
        "client_secret": "PLANTED-ARGUMENT-0451", "device_code": "PLANTED-ARGUMENT-0451",
    });
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let mut printed = format!("{hello}\n");
    let mut asked = 0;
    for (place, name) in names(test).iter().enumerate() {
        // These wait for a browser or for the owner's approval.
        if name.starts_with("complete_") || name.starts_with("unfollow_") {
            continue;
        }
        let params = json!({ "name": name, "arguments": arguments });
        let call =
            json!({ "jsonrpc": "2.0", "id": place + 2, "method": "tools/call", "params": params });
        printed.push_str(&call.to_string());
        printed.push('\n');
        asked += 1;
    }
    // A busy machine may need longer for all of them than a gate waits at its shutdown.
    let settings = "[limits]\ndrain_wait_ms_max = 60000\n";
    std::fs::write(test.home().join("tollgate.toml"), settings).unwrap();
    let heard =
        test.run_session(&["--log", "debug", "stdio", "personal", "--tools", "full"], &printed);
    assert_eq!(heard.stdout.lines().count(), asked + 1, "{why}: {}", heard.all_output());
    heard.all_output()
}
