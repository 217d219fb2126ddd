//! Names at the common address: what is listed, what a call may use, and that a name never means two things.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::eras::request;
use crate::http_client::{Answer, Client};
use crate::recorder::{Recorder, tool};
use crate::test_gate::{Gate, until};

const LONG: &str = "a_tool_whose_name_alone_is_longer_than_what_every_client_accepts_as_a_name";
const ODD: &str = "größe lesen";

fn open() -> Value {
    json!({ "version": "1", "default": "allow", "tools": { "secret": { "action": "hide" } } })
}

/// A gate with these servers and their tools, and the token of a grant for all of them.
fn gate_with(servers: &[(&str, &[&str])], more: &[&str]) -> (Gate, Vec<Recorder>, String) {
    let mut gate = Gate::new();
    gate.policy("open", &open());
    let mut recorders = Vec::new();
    let mut words =
        vec!["--json".to_owned(), "grant".to_owned(), "create".to_owned(), "agent".to_owned()];
    for (server, tools) in servers {
        let recorder = Recorder::new(tools);
        gate.run(&["server", "add", server, "--url", &recorder.url()]);
        recorders.push(recorder);
        words.extend(["--server".to_owned(), format!("{server}=open")]);
    }
    words.extend(more.iter().map(|word| (*word).to_owned()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let made: Value = serde_json::from_str(&gate.run(&words)).unwrap();
    gate.up();
    (gate, recorders, made["token"].as_str().unwrap().to_owned())
}

fn listed(client: &Client) -> BTreeSet<String> {
    let answer = client.send(&request("tools/list", &json!({})));
    let tools = answer.json()["result"]["tools"].clone();
    let tools = tools.as_array().unwrap_or_else(|| panic!("{}", answer.text())).clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn words(answer: &Answer) -> String {
    answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
}

/// The listed names of a server, by its own names, as the command shows them.
fn shown(gate: &Gate, server: &str) -> Vec<(String, String)> {
    let tools: Value =
        serde_json::from_str(&gate.run(&["--json", "server", "tools", server])).unwrap();
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap().to_owned();
    let tools = tools.as_array().unwrap().iter();
    tools.map(|tool| (text(tool, "name"), text(tool, "listed_name"))).collect()
}

#[test]
fn every_listed_name_is_one_that_all_clients_accept_and_calls_its_tool() {
    let (gate, recorders, token) =
        gate_with(&[("files", &["read", "fs.read", LONG, ODD, "secret"])], &[]);
    let client = gate.client(&token, "/mcp");
    let names = listed(&client);
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.contains("files__read"), "{names:?}");
    for name in &names {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(name.len() <= 64 && name.chars().all(fits), "{name}");
    }
    let shown = shown(&gate, "files");
    for own in ["read", "fs.read", LONG, ODD] {
        let (_, listed) = shown.iter().find(|(name, _)| name == own).unwrap();
        assert!(names.contains(listed), "{listed}");
        let answer = client.call(listed, &json!({}));
        assert!(answer.passed(), "{own}: {}", answer.text());
        assert_eq!(recorders[0].calls().last().unwrap(), own);
    }
    // The log has the server's own names.
    let rows = gate.decisions();
    let called: Vec<&Value> = rows.iter().map(|row| &row["tool"]).collect();
    assert_eq!(called, ["read", "fs.read", LONG, ODD], "{rows:?}");
    let (_, secret) = shown.iter().find(|(name, _)| name == "secret").unwrap();
    assert!(client.call(secret, &json!({})).refused());
    assert_eq!(recorders[0].count("secret"), 0);
}

#[test]
fn a_call_may_use_the_older_form_and_a_name_that_one_server_has() {
    let (gate, recorders, token) = gate_with(
        &[("notes", &["read", "write", "secret"]), ("files", &["read", "list", "secret"])],
        &[],
    );
    let client = gate.client(&token, "/mcp");
    for (name, server, own) in [
        ("notes__read", 0, "read"),
        ("notes.read", 0, "read"),
        ("files.read", 1, "read"),
        ("write", 0, "write"),
        ("list", 1, "list"),
    ] {
        let answer = client.call(name, &json!({}));
        assert!(answer.passed(), "{name}: {}", answer.text());
        assert_eq!(recorders[server].calls().last().unwrap(), own, "{name}");
    }
    let before = [recorders[0].calls().len(), recorders[1].calls().len()];
    let ambiguous = words(&client.call("read", &json!({})));
    assert!(ambiguous.contains("`files__read` or `notes__read`"), "{ambiguous}");
    // A hidden tool is not distinguished from one that does not exist.
    assert_eq!(words(&client.call("secret", &json!({}))), "Unknown tool: secret");
    assert_eq!(words(&client.call("missing", &json!({}))), "Unknown tool: missing");
    assert_eq!(before, [recorders[0].calls().len(), recorders[1].calls().len()]);
}

#[test]
fn a_name_with_two_readings_means_the_server_that_it_begins_with() {
    let (gate, recorders, token) = gate_with(
        &[("a", &["b__c", "b.c", "read"]), ("a__b", &["c"]), ("x", &["a__read", "a.read"])],
        &[],
    );
    let client = gate.client(&token, "/mcp");
    for (name, server, own) in [
        ("a__b__c", 0, "b__c"),
        ("a.b.c", 0, "b.c"),
        ("a__b.c", 1, "c"),
        ("c", 1, "c"),
        // Another server's tool cannot take a listed name.
        ("a__read", 0, "read"),
        ("a.read", 0, "read"),
        ("x__a__read", 2, "a__read"),
        ("x.a.read", 2, "a.read"),
    ] {
        let answer = client.call(name, &json!({}));
        assert!(answer.passed(), "{name}: {}", answer.text());
        assert_eq!(recorders[server].calls().last().unwrap(), own, "{name}");
    }
    assert!(client.call("a__missing", &json!({})).refused());
}

#[test]
fn a_grant_without_prefixes_lists_them_only_where_a_name_is_ambiguous() {
    let (gate, recorders, token) = gate_with(
        &[("a", &["read", "b"]), ("x", &["read", "a__b", "write"])],
        &["--prefix", "never"],
    );
    let client = gate.client(&token, "/mcp");
    assert_eq!(listed(&client), set(&["a__read", "x__read", "b", "x__a__b", "write"]));
    for (name, server, own) in
        [("a__read", 0, "read"), ("b", 0, "b"), ("x__a__b", 1, "a__b"), ("write", 1, "write")]
    {
        assert!(client.call(name, &json!({})).passed(), "{name}");
        assert_eq!(recorders[server].calls().last().unwrap(), own, "{name}");
    }
    let grant: Value =
        serde_json::from_str(&gate.run(&["--json", "grant", "show", "agent"])).unwrap();
    assert_eq!(grant["prefix"], "never");
    gate.run(&["grant", "prefix", "agent", "always"]);
    assert!(gate.run(&["grant", "show", "agent"]).contains("prefix   always"));
    until("names have prefixes", Duration::from_secs(30), || listed(&client).contains("x__write"));
}

#[test]
fn a_server_can_be_served_under_names_that_every_client_accepts() {
    let mut gate = Gate::new();
    gate.policy("open", &open());
    let recorder = Recorder::new(&["read", "fs.read", ODD, "secret"]);
    gate.run(&["server", "add", "files", "--map-names", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["files=open"]);
    gate.up();
    let client = gate.client(&token, "/mcp/files");
    let tools: Value =
        serde_json::from_str(&gate.run(&["--json", "server", "tools", "files"])).unwrap();
    let names = listed(&client);
    for tool in tools.as_array().unwrap().iter().filter(|tool| tool["name"] != "secret") {
        let (own, mapped) =
            (tool["name"].as_str().unwrap(), tool["listed_name_at_server"].as_str().unwrap());
        assert!(names.contains(mapped), "{names:?}");
        assert_eq!(own == "read", mapped == "read");
        let answer = client.call(mapped, &json!({}));
        assert!(answer.passed(), "{mapped}: {}", answer.text());
        assert_eq!(recorder.calls().last().unwrap(), own);
    }
    assert!(client.call("fs.read", &json!({})).passed(), "its own name still works");
    assert!(client.call("fs_read_000000000000", &json!({})).refused());
    assert_eq!(recorder.count("secret"), 0);
}

/// A tool that appears later with a name that another server has makes the bare name ambiguous once the
/// owner accepts it, and not before.
#[test]
fn a_new_tool_does_not_redirect_a_bare_name() {
    let (gate, recorders, token) = gate_with(&[("a", &["read"]), ("x", &["write"])], &[]);
    let client = gate.client(&token, "/mcp");
    assert!(client.call("read", &json!({})).passed());
    recorders[1].set_tools(vec![tool("write", "write"), tool("read", "read")]);
    // Exits with no: there is something to accept.
    gate.cli(&["server", "pins", "x", "--look"]);
    assert!(client.call("read", &json!({})).passed(), "an unaccepted tool is not seen");
    assert_eq!(recorders[1].count("read"), 0);
    gate.run(&["server", "pins", "x", "--accept"]);
    until("two servers have it", Duration::from_secs(30), || {
        words(&client.call("read", &json!({}))).contains("ambiguous")
    });
    assert_eq!(recorders[1].count("read"), 0);
}

/// A grant on a server whose prompts have odd names, one of them hidden.
fn gate_with_prompts() -> (Gate, String) {
    let mut gate = Gate::new();
    let hidden = json!({ "version": "1", "default": "allow", "prompts": {
        "secret": { "action": "hide" },
    } });
    gate.policy("open", &hidden);
    let script = gate.folder.path().join("prompts.py");
    std::fs::write(&script, include_str!("prompts.py")).unwrap();
    let command = ["--map-names", "--", "python3", script.to_str().unwrap()];
    gate.run(&[&["server", "add", "files"][..], &command].concat());
    let token = gate.grant("agent", &["files=open"]);
    gate.up();
    (gate, token)
}

#[test]
fn every_listed_prompt_has_a_name_that_all_clients_accept_and_is_got_by_it() {
    let (gate, token) = gate_with_prompts();
    for (path, plain) in [("/mcp", "files__greet"), ("/mcp/files", "greet")] {
        let client = gate.client(&token, path);
        let mut names = BTreeSet::new();
        until("the server has started", Duration::from_secs(30), || {
            let list = client.send(&request("prompts/list", &json!({}))).json();
            let prompts = list["result"]["prompts"].as_array().unwrap().clone();
            let name = |prompt: &Value| prompt["name"].as_str().unwrap().to_owned();
            names = prompts.iter().map(name).collect();
            !names.is_empty()
        });
        assert!(names.len() == 4 && names.contains(plain), "{names:?}");
        let mut own = BTreeSet::new();
        for name in &names {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!(name.len() <= 64 && name.chars().all(fits), "{name}");
            let got = client.send(&request("prompts/get", &json!({ "name": name }))).json();
            let text = &got["result"]["messages"][0]["content"]["text"];
            own.insert(text.as_str().unwrap_or_else(|| panic!("{got}")).to_owned());
        }
        assert_eq!(own, set(&["greet", "fs.read", "größe lesen", &"x".repeat(90)]), "{path}");
        let hidden = client.send(&request("prompts/get", &json!({ "name": "secret" })));
        assert!(hidden.json()["error"].is_object(), "{}", hidden.text());
    }
}
