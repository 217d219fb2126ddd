//! The owner's WHOOP data through the binary: over stdio and HTTP, synced by a running gate and by signed
//! notifications. A sandbox stands in for WHOOP.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli_test::{CliTest, conversation};
use crate::http;

/// A sandbox in a separate process.
pub(crate) struct Sandbox {
    child: Child,
    ready: Value,
}

impl Sandbox {
    fn start(test: &CliTest, days: &str) -> Sandbox {
        let mut command = test.command(&["sandbox", "whoop", "--days", days, "--seed", "7"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Sandbox { child, ready: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn word(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap()
    }

    /// Sends a request to the sandbox's control interface.
    pub(crate) fn control(&self, path: &str, body: &Value) -> http::Answer {
        let url = format!("{}{path}", self.word("control"));
        http::post(&url, &[("Content-Type", "application/json")], &body.to_string())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A home whose WHOOP is the sandbox, with a connected account.
pub(crate) fn connected(days: &str) -> (CliTest, Sandbox) {
    let (mut test, sandbox) = unconnected(days);
    let tokens = test.write("tokens.json", &sandbox.ready["tokens"].to_string());
    test.succeed(&["connect", "whoop", "--tokens", &tokens]);
    test.set("TOLLGATE_LOG", "warn");
    (test, sandbox)
}

fn unconnected(days: &str) -> (CliTest, Sandbox) {
    let mut test = CliTest::new();
    let sandbox = Sandbox::start(&test, days);
    for (variable, field) in [
        ("WHOOP_API_BASE_URL", "url"),
        ("WHOOP_OAUTH_BASE_URL", "url"),
        ("WHOOP_CLIENT_ID", "client_id"),
        ("WHOOP_CLIENT_SECRET", "client_secret"),
    ] {
        test.set(variable, sandbox.word(field));
    }
    (test, sandbox)
}

/// A handshake and then these requests, one a line.
pub(crate) fn lines(requests: &[Value]) -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let all = [hello, told].into_iter().chain(requests.iter().cloned());
    all.map(|message| message.to_string() + "\n").collect()
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(crate) fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

pub(crate) fn answer(stdout: &str, id: u64) -> Value {
    let mut answers = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers.find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("no answer {id}: {stdout}"))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_sync_sends_progress_to_a_client_with_a_progress_token() {
    let (test, _sandbox) = connected("120");
    let told = json!({ "name": "sync_whoop", "arguments": { "full": true }, "_meta": { "progressToken": "p-7" } });
    let input = lines(&[request(1, "tools/call", &told)]);
    let printed = test.run_session(&["stdio", "whoop"], &input);
    assert_eq!(answer(&printed.stdout, 1)["result"]["structuredContent"]["status"], "success");
    let messages: Vec<Value> =
        printed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = |is: &dyn Fn(&Value) -> bool| messages.iter().position(is);
    let progress = at(&|message| message["method"] == "notifications/progress");
    let progress = progress.unwrap_or_else(|| panic!("no progress: {}", printed.stdout));
    assert!(progress < at(&|message| message["id"] == 1).unwrap());
    let params = &messages[progress]["params"];
    assert_eq!(params["progressToken"], "p-7");
    assert!(params["progress"].as_u64().unwrap() > 0, "{params}");
    // Without a progress token the client gets only the response.
    let printed =
        test.run_session(&["stdio", "whoop"], &lines(&[call(1, "sync_whoop", &json!({}))]));
    assert_eq!(answer(&printed.stdout, 1)["result"]["isError"], false);
    assert!(!printed.stdout.contains("notifications/progress"), "{}", printed.stdout);
}

#[test]
fn whoop_works_over_stdio_without_a_grant_or_a_registration() {
    let (test, _sandbox) = connected("30");
    test.succeed(&["sync", "whoop"]);
    let input = lines(&[
        request(1, "tools/list", &json!({})),
        request(2, "resources/templates/list", &json!({})),
        request(3, "resources/list", &json!({})),
        call(4, "list_whoop_sleeps", &json!({ "limit": 3 })),
        call(5, "get_whoop_cycle", &json!({})),
        request(6, "resources/read", &json!({ "uri": "whoop://db/profile" })),
        request(7, "resources/read", &json!({ "uri": "whoop://db/nothing" })),
        request(8, "prompts/list", &json!({})),
        call(9, "get_whoop_auth_status", &json!({})),
    ]);
    let printed = test.run_session(&["stdio", "whoop"], &input);
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    let greeting = &answer(&printed.stdout, 0)["result"];
    assert_eq!(greeting["serverInfo"]["name"], "whoop");
    assert_eq!(greeting["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(greeting["capabilities"]["resources"].is_object());
    let tools = answer(&printed.stdout, 1)["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), 29, "{tools:?}");
    for tool in &tools {
        assert_eq!(tool["outputSchema"]["type"], "object", "{}", tool["name"]);
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{}", tool["name"]);
    }
    let templates = &answer(&printed.stdout, 2)["result"]["resourceTemplates"];
    assert_eq!(templates.as_array().unwrap().len(), 7);
    assert_eq!(answer(&printed.stdout, 3)["result"]["resources"].as_array().unwrap().len(), 2);
    let sleeps = &answer(&printed.stdout, 4)["result"];
    assert_eq!(sleeps["isError"], false);
    assert_eq!(sleeps["structuredContent"]["records"].as_array().unwrap().len(), 3);
    let text = sleeps["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), sleeps["structuredContent"]);
    assert!(!text.contains(": "), "compact: {text}");
    assert_eq!(
        answer(&printed.stdout, 5)["result"]["isError"],
        true,
        "a required argument is missing"
    );
    let profile = &answer(&printed.stdout, 6)["result"]["contents"][0];
    assert_eq!(
        (&profile["uri"], &profile["mimeType"]),
        (&json!("whoop://db/profile"), &json!("application/json"))
    );
    assert!(answer(&printed.stdout, 7)["error"]["code"].is_i64());
    let prompts = answer(&printed.stdout, 8)["result"]["prompts"].clone();
    assert_eq!(prompts.as_array().map(Vec::len), Some(4), "{prompts}");
    assert_eq!(answer(&printed.stdout, 9)["result"]["structuredContent"]["status"], "valid");
    let rows = test.succeed(&["audit", "search", "--tool", "list_whoop_sleeps", "--json"]).stdout;
    assert!(rows.contains("\"whoop\""), "each call is a row: {rows}");
    assert!(test.succeed(&["server", "list"]).all_output().contains("no servers yet"));
}

#[test]
fn tool_sets_are_selected_by_name() {
    let test = CliTest::new();
    let names = |words: &[&str]| -> Vec<String> {
        let mut arguments = vec!["stdio", "whoop"];
        arguments.extend(words);
        let input = lines(&[request(1, "tools/list", &json!({}))]);
        let printed = test.run_session(&arguments, &input);
        assert_eq!(printed.code, 0, "{}", printed.all_output());
        let answer = answer(&printed.stdout, 1);
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (main, both) = (names(&[]), names(&["--tools", "main,classic"]));
    assert!(main.iter().all(|name| both.contains(name)));
    assert_eq!((main.len(), both.len()), (29, 45));
    assert_eq!(names(&["--tools", "get_whoop_profile"]), ["get_whoop_profile"]);
    let printed = test.run(&["stdio", "whoop", "--tools", "clasic"]);
    assert_eq!(printed.code, 2);
    assert!(printed.stderr.contains("sets are `main`"), "{}", printed.stderr);
    test.write("home/tollgate.toml", "[services.whoop]\ntools = [\"classic\"]\n");
    assert_eq!(names(&[]).len(), 16);
}

#[test]
fn a_grant_without_a_policy_uses_the_built_in_policy_of_whoop() {
    let (test, _sandbox) = connected("30");
    test.succeed(&["sync", "whoop"]);
    test.succeed(&["server", "add", "whoop", "--builtin", "whoop", "--tools", "main,classic"]);
    let grant = test.succeed(&["grant", "create", "alice", "--server", "whoop", "--json"]);
    let token = grant.json()["token"].as_str().unwrap().to_owned();
    let up = test.up(&[]);
    let url = format!("{}/whoop", up.url());
    let call = |tool: &str, arguments: &Value| http::call(&url, &token, tool, arguments).json();
    let cycles = call("list_whoop_cycles", &json!({ "start": "last 7 days" }));
    assert!(!cycles["result"]["structuredContent"]["records"].as_array().unwrap().is_empty());
    let health = call("health_check", &json!({}));
    assert_eq!(health["result"]["structuredContent"]["status"], "healthy", "{health}");
    let unknown = call("empty_the_fridge", &json!({}));
    assert_ne!(unknown["result"]["isError"], false, "{unknown}");
    let explained = test.run(&[
        "policy",
        "explain",
        "--grant",
        "alice",
        "--server",
        "whoop",
        "list_whoop_cycles",
    ]);
    assert_eq!(explained.code, 0, "{}", explained.all_output());
    assert_eq!(up.stop().code, 0);
}

#[test]
fn a_running_gate_syncs_the_account_and_accepts_signed_notifications() {
    let (test, sandbox) = connected("30");
    test.write("home/tollgate.toml", "[services.whoop]\nwebhook = true\n");
    let up = test.up(&[]);
    let status = || test.run(&["status", "--json"]).json()["accounts"][0].clone();
    let rows = |word: &str| {
        let rows = test.succeed(&["audit", "search", "--json"]).stdout;
        rows.lines().filter(|row| row.contains(word)).count()
    };
    until("the first sync", || rows("\"synced\"") == 1);
    assert!(status()["synced_at"].is_string());
    assert_eq!(status()["sync_failures"], json!([]));
    assert_eq!(status()["state"], "connected");
    let hook = format!("{}/hooks/whoop", up.url().trim_end_matches("/mcp"));
    // An unsigned notification is refused, with one row.
    let forged =
        http::post(&hook, &[("Content-Type", "application/json")], "{\"type\":\"sleep.updated\"}");
    assert_eq!(forged.status, 401);
    let shelf = format!("{}/records/sleep", sandbox.word("control"));
    let sleeps = http::get(&shelf).json();
    let id = sleeps.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    let patched = http::patch(&format!("{shelf}/{id}"), &json!({ "timezone_offset": "+12:45" }));
    assert_eq!(patched.status, 200, "{}", patched.body);
    let sent =
        sandbox.control("/webhook", &json!({ "url": hook, "type": "sleep.updated", "id": id }));
    assert_eq!(sent.json()["status"], 204, "{}", sent.body);
    let asked = format!("select timezone_offset from whoop_sleeps where id = '{id}'");
    until("the notice is followed up", || test.run(&["sql", &asked]).stdout.contains("+12:45"));
    assert_eq!((rows("(notice)"), rows("\"notice\"")), (1, 1), "one row each");
    assert_eq!(up.stop().code, 0);
}

#[test]
fn a_slow_response_of_whoop_blocks_no_other_call_and_can_be_cancelled() {
    let (test, sandbox) = connected("10");
    test.succeed(&["sync", "whoop"]);
    let slow = json!({ "path": "/developer/v2/cycle", "fault": "delay", "ms": 1500 });
    sandbox.control("/faults", &slow);
    let fresh = |id| call(id, "list_whoop_cycles", &json!({ "fresh": true, "limit": 1 }));
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 },
    });
    let quick = call(3, "list_whoop_cycles", &json!({ "limit": 1 }));
    let printed =
        test.run_session(&["stdio", "whoop"], &lines(&[fresh(1), fresh(2), cancelled, quick]));
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    let place =
        |id: u64| printed.stdout.lines().position(|line| line.contains(&format!("\"id\":{id},")));
    assert!(place(3).unwrap() < place(1).unwrap(), "{}", printed.stdout);
    assert_eq!(place(2), None, "a cancelled call is not answered");
    assert_eq!(answer(&printed.stdout, 1)["result"]["isError"], false);
}

#[test]
fn an_unread_log_line_ends_no_call() {
    let (test, sandbox) = connected("10");
    let once = json!({
        "path": "/developer/v2/user", "fault": "status", "code": 500, "next": 1,
    });
    sandbox.control("/faults", &once);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = test.command(&["stdio", "whoop"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(full);
    let input = lines(&[call(1, "get_whoop_profile", &json!({ "fresh": true }))]);
    let printed = conversation(command.spawn().unwrap(), &input).stdout;
    assert!(answer(&printed, 1)["result"]["structuredContent"]["email"].is_string(), "{printed}");
}

#[test]
fn a_damaged_mirror_is_reported_and_left_unchanged() {
    let (test, _sandbox) = connected("10");
    test.succeed(&["sync", "whoop"]);
    let path = test.home().join("data.db");
    for file in ["data.db-wal", "data.db-shm"] {
        let _ = std::fs::remove_file(test.home().join(file));
    }
    std::fs::write(&path, "this is no database, whatever its name says".repeat(200)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let input = lines(&[
        call(1, "list_whoop_cycles", &json!({})),
        call(2, "get_whoop_auth_status", &json!({})),
        call(3, "health_check", &json!({ "live": false })),
    ]);
    let printed = test.run_session(&["stdio", "whoop"], &input);
    assert_eq!(printed.code, 0, "{}", printed.all_output());
    let list = answer(&printed.stdout, 1);
    assert_eq!(list["result"]["structuredContent"]["error"]["code"], "CACHE_ERROR", "{list}");
    assert_eq!(answer(&printed.stdout, 2)["result"]["structuredContent"]["status"], "valid");
    let health = answer(&printed.stdout, 3);
    assert_eq!(health["result"]["structuredContent"]["status"], "unhealthy", "{health}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing is overwritten");
    let doctor = test.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.all_output());
    assert!(doctor.stdout.contains("wrong mirror"), "{}", doctor.all_output());
}

#[test]
fn doctor_and_status_report_accounts() {
    let (test, sandbox) = connected("10");
    let doctor = || test.run(&["doctor", "--json"]).json();
    let about = |findings: &Value, about: &str| -> Vec<Value> {
        findings.as_array().unwrap().iter().filter(|f| f["about"] == about).cloned().collect()
    };
    let found = doctor();
    assert_eq!(about(&found, "accounts")[0]["health"], "good", "{found}");
    assert_eq!(about(&found, "mirror")[0]["mend"], "`tollgate sync whoop`", "{found}");
    test.succeed(&["sync", "whoop"]);
    assert!(about(&doctor(), "mirror").iter().all(|finding| finding["health"] == "good"));
    assert!(test.run(&["status"]).stdout.contains("account    whoop: connected, synced"));
    sandbox.control("/tokens/expire", &json!({ "which": "all" }));
    let _ = test.run(&["sync", "whoop"]);
    let found = doctor();
    assert_eq!(about(&found, "accounts")[0]["health"], "wrong", "{found}");
    assert_eq!(about(&found, "accounts")[0]["mend"], "`tollgate connect whoop`", "{found}");
}

#[test]
fn the_second_variable_for_the_home_works() {
    let test = CliTest::new();
    let mut command = test.command(&["status", "--json"]);
    command.env_remove("TOLLGATE_HOME").env("WHOOP_MCP_HOME", test.path("other"));
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(printed.contains(&test.path("other").display().to_string()), "{printed}");
}

#[test]
fn the_folder_of_whoop_mcp_is_recognized_and_its_import_suggested() {
    let test = CliTest::new();
    let folder = test.path("public");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("tokens.json"), "{}").unwrap();
    let shown = format!("`tollgate import whoop-mcp {}`", folder.display());
    for words in [&["accounts"][..], &["stdio", "whoop"], &["sync", "whoop"]] {
        let mut command = test.command(words);
        command.env_remove("TOLLGATE_HOME").env("WHOOP_MCP_HOME", &folder);
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert!(
            printed.contains(&shown) && printed.contains("WHOOP_MCP_HOME"),
            "{words:?}: {printed}"
        );
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing was put there");
}
