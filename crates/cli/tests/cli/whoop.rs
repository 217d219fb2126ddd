//! The owner's WHOOP data through the binary: on standard streams, over HTTP, kept up to date by a
//! running gate and by signed notices. A sandbox stands in for WHOOP.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http;
use crate::stage::{Stage, conversation};

/// A sandbox in a process of its own.
pub(crate) struct Sandbox {
    child: Child,
    ready: Value,
}

impl Sandbox {
    fn start(stage: &Stage, days: &str) -> Sandbox {
        let mut command = stage.command(&["sandbox", "whoop", "--days", days, "--seed", "7"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Sandbox { child, ready: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn word(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap()
    }

    /// Asks the hand behind the sandbox.
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

/// A stage whose WHOOP is the sandbox, and whose account is connected.
pub(crate) fn connected(days: &str) -> (Stage, Sandbox) {
    let (mut stage, sandbox) = unconnected(days);
    let tokens = stage.write("tokens.json", &sandbox.ready["tokens"].to_string());
    stage.fine(&["connect", "whoop", "--tokens", &tokens]);
    stage.set("TOLLGATE_LOG", "warn");
    (stage, sandbox)
}

fn unconnected(days: &str) -> (Stage, Sandbox) {
    let mut stage = Stage::new();
    let sandbox = Sandbox::start(&stage, days);
    for (variable, field) in [
        ("WHOOP_API_BASE_URL", "url"),
        ("WHOOP_OAUTH_BASE_URL", "url"),
        ("WHOOP_CLIENT_ID", "client_id"),
        ("WHOOP_CLIENT_SECRET", "client_secret"),
    ] {
        stage.set(variable, sandbox.word(field));
    }
    (stage, sandbox)
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
fn a_sync_tells_its_progress_to_a_client_that_gave_a_token() {
    let (stage, _sandbox) = connected("120");
    let told = json!({ "name": "sync_whoop", "arguments": { "full": true }, "_meta": { "progressToken": "p-7" } });
    let input = lines(&[request(1, "tools/call", &told)]);
    let said = stage.speak(&["stdio", "whoop"], &input);
    assert_eq!(answer(&said.stdout, 1)["result"]["structuredContent"]["status"], "success");
    let messages: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = |is: &dyn Fn(&Value) -> bool| messages.iter().position(is);
    let progress = at(&|message| message["method"] == "notifications/progress");
    let progress = progress.unwrap_or_else(|| panic!("no progress: {}", said.stdout));
    assert!(progress < at(&|message| message["id"] == 1).unwrap());
    let params = &messages[progress]["params"];
    assert_eq!(params["progressToken"], "p-7");
    assert!(params["progress"].as_u64().unwrap() > 0, "{params}");
    // Without a token the client hears nothing but the answer.
    let said = stage.speak(&["stdio", "whoop"], &lines(&[call(1, "sync_whoop", &json!({}))]));
    assert_eq!(answer(&said.stdout, 1)["result"]["isError"], false);
    assert!(!said.stdout.contains("notifications/progress"), "{}", said.stdout);
}

#[test]
fn whoop_speaks_on_standard_streams_without_a_grant_or_a_registration() {
    let (stage, _sandbox) = connected("30");
    stage.fine(&["sync", "whoop"]);
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
    let said = stage.speak(&["stdio", "whoop"], &input);
    assert_eq!(said.code, 0, "{}", said.everything());
    let greeting = &answer(&said.stdout, 0)["result"];
    assert_eq!(greeting["serverInfo"]["name"], "whoop");
    assert_eq!(greeting["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(greeting["capabilities"]["resources"].is_object());
    let tools = answer(&said.stdout, 1)["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), 17, "{tools:?}");
    for tool in &tools {
        assert_eq!(tool["outputSchema"]["type"], "object", "{}", tool["name"]);
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{}", tool["name"]);
    }
    let templates = &answer(&said.stdout, 2)["result"]["resourceTemplates"];
    assert_eq!(templates.as_array().unwrap().len(), 7);
    assert_eq!(answer(&said.stdout, 3)["result"]["resources"].as_array().unwrap().len(), 2);
    let sleeps = &answer(&said.stdout, 4)["result"];
    assert_eq!(sleeps["isError"], false);
    assert_eq!(sleeps["structuredContent"]["records"].as_array().unwrap().len(), 3);
    let text = sleeps["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), sleeps["structuredContent"]);
    assert!(!text.contains(": "), "compact: {text}");
    assert_eq!(
        answer(&said.stdout, 5)["result"]["isError"],
        true,
        "a required argument is missing"
    );
    let profile = &answer(&said.stdout, 6)["result"]["contents"][0];
    assert_eq!(
        (&profile["uri"], &profile["mimeType"]),
        (&json!("whoop://db/profile"), &json!("application/json"))
    );
    assert!(answer(&said.stdout, 7)["error"]["code"].is_i64());
    assert_eq!(answer(&said.stdout, 8)["result"]["prompts"], json!([]));
    assert_eq!(answer(&said.stdout, 9)["result"]["structuredContent"]["status"], "valid");
    let rows = stage.fine(&["audit", "search", "--tool", "list_whoop_sleeps", "--json"]).stdout;
    assert!(rows.contains("\"whoop\""), "each call is a row: {rows}");
    assert!(stage.fine(&["server", "list"]).everything().contains("no servers yet"));
}

#[test]
fn tool_sets_are_chosen_by_word() {
    let stage = Stage::new();
    let names = |words: &[&str]| -> Vec<String> {
        let mut arguments = vec!["stdio", "whoop"];
        arguments.extend(words);
        let input = lines(&[request(1, "tools/list", &json!({}))]);
        let said = stage.speak(&arguments, &input);
        assert_eq!(said.code, 0, "{}", said.everything());
        let answer = answer(&said.stdout, 1);
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (main, both) = (names(&[]), names(&["--tools", "main,classic"]));
    assert!(main.iter().all(|name| both.contains(name)));
    assert_eq!((main.len(), both.len()), (17, 33));
    assert_eq!(names(&["--tools", "get_whoop_profile"]), ["get_whoop_profile"]);
    let said = stage.run(&["stdio", "whoop", "--tools", "clasic"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("sets are `main`"), "{}", said.stderr);
    stage.write("home/tollgate.toml", "[services.whoop]\ntools = [\"classic\"]\n");
    assert_eq!(names(&[]).len(), 16);
}

#[test]
fn a_grant_without_a_policy_has_the_rules_that_whoop_brings_along() {
    let (stage, _sandbox) = connected("30");
    stage.fine(&["sync", "whoop"]);
    stage.fine(&["server", "add", "whoop", "--builtin", "whoop", "--tools", "main,classic"]);
    let grant = stage.fine(&["grant", "create", "alice", "--server", "whoop", "--json"]);
    let token = grant.json()["token"].as_str().unwrap().to_owned();
    let up = stage.up(&[]);
    let url = format!("{}/whoop", up.url());
    let call = |tool: &str, arguments: &Value| http::call(&url, &token, tool, arguments).json();
    let cycles = call("list_whoop_cycles", &json!({ "start": "last 7 days" }));
    assert!(!cycles["result"]["structuredContent"]["records"].as_array().unwrap().is_empty());
    let health = call("health_check", &json!({}));
    assert_eq!(health["result"]["structuredContent"]["status"], "healthy", "{health}");
    let unknown = call("empty_the_fridge", &json!({}));
    assert_ne!(unknown["result"]["isError"], false, "{unknown}");
    let explained = stage.run(&[
        "policy",
        "explain",
        "--grant",
        "alice",
        "--server",
        "whoop",
        "list_whoop_cycles",
    ]);
    assert_eq!(explained.code, 0, "{}", explained.everything());
    assert_eq!(up.stop().code, 0);
}

#[test]
fn a_running_gate_keeps_the_account_up_to_date_and_takes_signed_notices() {
    let (stage, sandbox) = connected("30");
    stage.write("home/tollgate.toml", "[services.whoop]\nwebhook = true\n");
    let up = stage.up(&[]);
    let status = || stage.run(&["status", "--json"]).json()["accounts"][0].clone();
    let rows = |word: &str| {
        let rows = stage.fine(&["audit", "search", "--json"]).stdout;
        rows.lines().filter(|row| row.contains(word)).count()
    };
    until("the first sync", || rows("\"synced\"") == 1);
    assert!(status()["synced_at"].is_string());
    assert_eq!(status()["sync_failures"], json!([]));
    assert_eq!(status()["state"], "connected");
    let hook = format!("{}/hooks/whoop", up.url().trim_end_matches("/mcp"));
    // Not signed, not believed; and one row.
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
    until("the notice is followed up", || stage.run(&["sql", &asked]).stdout.contains("+12:45"));
    assert_eq!((rows("(notice)"), rows("\"notice\"")), (1, 1), "one row each");
    assert_eq!(up.stop().code, 0);
}

#[test]
fn a_slow_answer_of_whoop_keeps_nobody_waiting_and_can_be_taken_back() {
    let (stage, sandbox) = connected("10");
    stage.fine(&["sync", "whoop"]);
    let slow = json!({ "path": "/developer/v2/cycle", "fault": "delay", "ms": 1500 });
    sandbox.control("/faults", &slow);
    let fresh = |id| call(id, "list_whoop_cycles", &json!({ "fresh": true, "limit": 1 }));
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 },
    });
    let quick = call(3, "list_whoop_cycles", &json!({ "limit": 1 }));
    let said = stage.speak(&["stdio", "whoop"], &lines(&[fresh(1), fresh(2), cancelled, quick]));
    assert_eq!(said.code, 0, "{}", said.everything());
    let place =
        |id: u64| said.stdout.lines().position(|line| line.contains(&format!("\"id\":{id},")));
    assert!(place(3).unwrap() < place(1).unwrap(), "{}", said.stdout);
    assert_eq!(place(2), None, "what was taken back is not answered");
    assert_eq!(answer(&said.stdout, 1)["result"]["isError"], false);
}

#[test]
fn a_log_line_that_nobody_takes_ends_no_call() {
    let (stage, sandbox) = connected("10");
    let once = json!({
        "path": "/developer/v2/user", "fault": "status", "code": 500, "next": 1,
    });
    sandbox.control("/faults", &once);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = stage.command(&["stdio", "whoop"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(full);
    let input = lines(&[call(1, "get_whoop_profile", &json!({ "fresh": true }))]);
    let said = conversation(command.spawn().unwrap(), &input).stdout;
    assert!(answer(&said, 1)["result"]["structuredContent"]["email"].is_string(), "{said}");
}

#[test]
fn a_damaged_mirror_is_said_and_left_as_it_is() {
    let (stage, _sandbox) = connected("10");
    stage.fine(&["sync", "whoop"]);
    let path = stage.home().join("data.db");
    for file in ["data.db-wal", "data.db-shm"] {
        let _ = std::fs::remove_file(stage.home().join(file));
    }
    std::fs::write(&path, "this is no database, whatever its name says".repeat(200)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let input = lines(&[
        call(1, "list_whoop_cycles", &json!({})),
        call(2, "get_whoop_auth_status", &json!({})),
        call(3, "health_check", &json!({ "live": false })),
    ]);
    let said = stage.speak(&["stdio", "whoop"], &input);
    assert_eq!(said.code, 0, "{}", said.everything());
    let list = answer(&said.stdout, 1);
    assert_eq!(list["result"]["structuredContent"]["error"]["code"], "CACHE_ERROR", "{list}");
    assert_eq!(answer(&said.stdout, 2)["result"]["structuredContent"]["status"], "valid");
    let health = answer(&said.stdout, 3);
    assert_eq!(health["result"]["structuredContent"]["status"], "unhealthy", "{health}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing is overwritten");
    let doctor = stage.run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.everything());
    assert!(doctor.stdout.contains("wrong mirror"), "{}", doctor.everything());
}

#[test]
fn doctor_and_status_speak_of_accounts() {
    let (stage, sandbox) = connected("10");
    let doctor = || stage.run(&["doctor", "--json"]).json();
    let about = |findings: &Value, about: &str| -> Vec<Value> {
        findings.as_array().unwrap().iter().filter(|f| f["about"] == about).cloned().collect()
    };
    let found = doctor();
    assert_eq!(about(&found, "accounts")[0]["health"], "good", "{found}");
    assert_eq!(about(&found, "mirror")[0]["mend"], "`tollgate sync whoop`", "{found}");
    stage.fine(&["sync", "whoop"]);
    assert!(about(&doctor(), "mirror").iter().all(|finding| finding["health"] == "good"));
    assert!(stage.run(&["status"]).stdout.contains("account    whoop: connected, synced"));
    sandbox.control("/tokens/expire", &json!({ "which": "all" }));
    let _ = stage.run(&["sync", "whoop"]);
    let found = doctor();
    assert_eq!(about(&found, "accounts")[0]["health"], "wrong", "{found}");
    assert_eq!(about(&found, "accounts")[0]["mend"], "`tollgate connect whoop`", "{found}");
}

#[test]
fn a_second_name_of_the_home_is_understood() {
    let stage = Stage::new();
    let mut command = stage.command(&["status", "--json"]);
    command.env_remove("TOLLGATE_HOME").env("WHOOP_MCP_HOME", stage.path("other"));
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(said.contains(&stage.path("other").display().to_string()), "{said}");
}

#[test]
fn the_folder_of_the_public_server_is_recognised_and_its_import_named() {
    let stage = Stage::new();
    let folder = stage.path("public");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("tokens.json"), "{}").unwrap();
    let shown = format!("`tollgate import whoop-mcp {}`", folder.display());
    for words in [&["accounts"][..], &["stdio", "whoop"], &["sync", "whoop"]] {
        let mut command = stage.command(words);
        command.env_remove("TOLLGATE_HOME").env("WHOOP_MCP_HOME", &folder);
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(said.contains(&shown) && said.contains("WHOOP_MCP_HOME"), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing was put there");
}
