//! Many servers at the address of all: lists that wait for none of them, names that several have, lists
//! that differ by client, and processes that end with their client or are shared.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::door::{Answer, Client, call};
use crate::eras::{event, older, request};
use crate::running::alive;
use crate::world::{Gate, until};

const SERVER: &str = include_str!("many.py");
const SOON: Duration = Duration::from_secs(60);

struct Stage {
    gate: Gate,
}

impl Stage {
    fn new() -> Stage {
        let gate = Gate::new();
        fs::write(gate.folder.path().join("many.py"), SERVER).unwrap();
        gate.policy("open", &json!({ "version": "1", "default": "allow" }));
        Stage { gate }
    }

    fn notes(&self, server: &str) -> PathBuf {
        self.gate.folder.path().join(server)
    }

    fn note(&self, server: &str, what: &str) -> PathBuf {
        self.notes(server).with_extension(what)
    }

    fn add(&self, server: &str, more: &[&str]) {
        let script = self.gate.folder.path().join("many.py");
        let (script, notes) = (script.to_str().unwrap(), self.notes(server));
        let command = ["--", "python3", script, server, notes.to_str().unwrap()];
        self.gate.run(&[&["server", "add", server][..], more, &command].concat());
    }

    fn grant(&self, label: &str, servers: &[String]) -> String {
        let held: Vec<String> = servers.iter().map(|server| format!("{server}=open")).collect();
        self.gate.grant(label, &held.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn names(answer: &Answer, list: &str) -> BTreeSet<String> {
    let found = answer.json()["result"][list].clone();
    let found = found.as_array().unwrap_or_else(|| panic!("{}", answer.text())).clone();
    found.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn said(answer: &Answer) -> Value {
    let text = answer.json()["result"]["content"][0]["text"].clone();
    serde_json::from_str(text.as_str().unwrap_or_else(|| panic!("{}", answer.text()))).unwrap()
}

#[test]
fn two_servers_with_a_tool_of_one_name_are_both_callable_at_the_address_of_all() {
    let mut stage = Stage::new();
    let servers = ["work", "home"].map(str::to_owned);
    for server in &servers {
        stage.add(server, &[]);
    }
    let token = stage.grant("agent", &servers);
    stage.gate.up();
    for client in
        [stage.gate.client(&token, "/mcp"), stage.gate.client(&token, "/mcp").with_session()]
    {
        for server in &servers {
            let answer = client.call(&format!("{server}.read_file"), &json!({ "n": 1 }));
            assert!(answer.passed(), "{}", answer.text());
            assert_eq!(said(&answer)["server"], **server);
        }
    }
}

/// One server takes for ever to start, one ends at once, and the lists have their tools all the same.
#[test]
fn lists_of_eleven_servers_wait_for_none_of_them() {
    let mut stage = Stage::new();
    let servers: Vec<String> = (0..11).map(|number| format!("s{number}")).collect();
    for server in &servers {
        stage.add(server, &[]);
    }
    let token = stage.grant("agent", &servers);
    let expected: BTreeSet<String> = servers
        .iter()
        .flat_map(|server| [format!("{server}.read_file"), format!("{server}.only_{server}")])
        .collect();
    fs::write(stage.note("s3", "hold"), "").unwrap();
    fs::write(stage.note("s4", "dead"), "").unwrap();
    fs::write(stage.note("s5", "more"), "").unwrap();
    stage.gate.up();
    let list = request("tools/list", &json!({}));
    let client = stage.gate.client(&token, "/mcp");
    for _ in 0..10 {
        let session = older(&client, &json!({}));
        let found = names(&session.send(&list), "tools");
        assert!(found.is_superset(&expected), "{found:?}");
        session.open("DELETE");
    }
    let found = names(&client.send(&list), "tools");
    assert!(found.is_superset(&expected), "also without a session: {found:?}");

    // The list of one has grown while nobody looked; clients hear of it and see it once it is accepted.
    let session = older(&client, &json!({}));
    let mut stream = BufReader::new(session.open("GET"));
    stream.get_ref().set_read_timeout(Some(SOON)).unwrap();
    assert!(!names(&session.send(&list), "tools").contains("s5.more"));
    until("it is seen", SOON, || !stage.gate.cli(&["server", "pins", "s5"]).status.success());
    stage.gate.run(&["server", "pins", "s5", "--accept"]);
    while event(&mut stream)["method"] != "notifications/tools/list_changed" {}
    until("it is shown", SOON, || names(&session.send(&list), "tools").contains("s5.more"));

    // A call to a server that is still starting waits for it, and no other call does.
    assert!(session.call("s1.read_file", &json!({})).passed());
    let hold = stage.note("s3", "hold");
    let message = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "s3.read_file" },
    });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| session.send(&message));
        assert!(session.call("s2.read_file", &json!({})).passed());
        let refused = session.call("s4.read_file", &json!({}));
        assert!(refused.refused(), "{}", refused.text());
        assert!(!waiting.is_finished());
        fs::remove_file(&hold).unwrap();
        let answer = waiting.join().unwrap();
        assert!(answer.passed(), "{}", answer.text());
    });
    let prompts = request("prompts/list", &json!({}));
    until("those that run say their prompts", SOON, || {
        names(&session.send(&prompts), "prompts").len() == 10
    });
}

/// Prompts and resources are not pinned: a server that has not answered yet is left out, and told of later.
#[test]
fn a_list_that_nobody_has_read_yet_follows_with_a_notification() {
    let mut stage = Stage::new();
    let servers = ["fast", "slow"].map(str::to_owned);
    for server in &servers {
        stage.add(server, &[]);
    }
    let token = stage.grant("agent", &servers);
    fs::write(stage.note("slow", "hold"), "").unwrap();
    stage.gate.up();
    let session = older(&stage.gate.client(&token, "/mcp"), &json!({}));
    let mut stream = BufReader::new(session.open("GET"));
    stream.get_ref().set_read_timeout(Some(SOON)).unwrap();
    let list = request("prompts/list", &json!({}));
    let first = session.send(&list);
    assert!(!names(&first, "prompts").contains("slow.greet"), "{}", first.text());
    assert_eq!(first.json()["result"]["_meta"]["tollgate/left_out"], json!(["slow"]));
    fs::remove_file(stage.note("slow", "hold")).unwrap();
    while event(&mut stream)["method"] != "notifications/prompts/list_changed" {}
    let both = ["fast.greet", "slow.greet"].map(str::to_owned).into();
    assert_eq!(names(&session.send(&list), "prompts"), both);
    // From now on it is known, so that a server that hangs takes nothing away.
    fs::write(stage.note("slow", "hold"), "").unwrap();
    assert_eq!(names(&session.send(&list), "prompts"), both);
}

#[test]
fn a_session_whose_client_is_gone_ends_and_one_that_only_posts_stays() {
    let mut stage = Stage::new();
    stage.gate.settings("[limits]\nsession_gone_seconds_max = 1\n");
    stage.add("a", &[]);
    let token = stage.grant("agent", &["a".to_owned()]);
    stage.gate.up();
    let notes = stage.notes("a");
    for path in ["/mcp", "/mcp/a"] {
        let tool = if path == "/mcp" { "a.read_file" } else { "read_file" };
        let [posts, gone] = [(); 2].map(|()| older(&stage.gate.client(&token, path), &json!({})));
        let mut stream = BufReader::new(gone.open("GET"));
        for session in [&posts, &gone] {
            assert!(session.call(tool, &json!({})).passed());
        }
        assert_eq!(alive(&notes), 2, "{path}");
        let mut head = String::new();
        std::io::BufRead::read_line(&mut stream, &mut head).unwrap();
        assert!(head.contains("200"), "{head}");
        drop(stream);
        until("the session ends with its process", SOON, || alive(&notes) == 1);
        assert_eq!(gone.call(tool, &json!({})).status, 404, "{path}");
        assert!(posts.call(tool, &json!({})).passed(), "{path}");
        posts.open("DELETE");
        until("the other one ends, too", SOON, || alive(&notes) == 0);
    }
}

#[test]
fn concurrent_lists_of_one_session_start_each_server_once() {
    let mut stage = Stage::new();
    stage.add("a", &[]);
    let token = stage.grant("agent", &["a".to_owned()]);
    stage.gate.up();
    let started = || fs::read_to_string(stage.note("a", "pids")).unwrap().lines().count();
    let (before, hold) = (started(), stage.note("a", "hold"));
    fs::write(&hold, "").unwrap();
    let session = older(&stage.gate.client(&token, "/mcp"), &json!({}));
    thread::scope(|scope| {
        for (id, method) in ["prompts/list", "resources/list", "tools/list"].iter().enumerate() {
            let message = json!({ "jsonrpc": "2.0", "id": id + 10, "method": method });
            let session = &session;
            scope.spawn(move || session.send(&message));
        }
        until("it is started", SOON, || started() > before);
        fs::remove_file(&hold).unwrap();
    });
    assert!(session.call("a.read_file", &json!({})).passed());
    assert_eq!(started() - before, 1);
}

#[test]
fn sessions_that_only_list_share_one_look_at_each_server() {
    let mut stage = Stage::new();
    let servers = ["a", "b"].map(str::to_owned);
    for server in &servers {
        stage.add(server, &[]);
    }
    let token = stage.grant("agent", &servers);
    stage.gate.up();
    let client = stage.gate.client(&token, "/mcp");
    let lists = ["tools/list", "prompts/list", "resources/list"];
    let first = older(&client, &json!({}));
    for server in &servers {
        assert!(first.call(&format!("{server}.read_file"), &json!({})).passed());
    }
    let ask = |session: &Client| lists.map(|list| session.send(&request(list, &json!({}))).text());
    let shown = ask(&first);
    let sessions = [(); 4].map(|()| older(&client, &json!({})));
    for session in &sessions {
        assert_eq!(ask(session), shown);
    }
    let running = || servers.iter().map(|server| alive(&stage.notes(server))).sum::<usize>();
    assert_eq!(running(), 2);
    assert!(sessions[0].call("b.read_file", &json!({})).passed());
    assert_eq!(running(), 3, "a call starts what it needs");
}

/// Calls of several grants and sessions at once: each gets its own answer, and hears nothing of others.
#[test]
fn p20_a_shared_server_has_one_process_and_keeps_its_clients_apart() {
    let mut stage = Stage::new();
    stage.add("a", &["--share"]);
    let list = stage.gate.run(&["--json", "server", "list"]);
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()[0]["shared"], true);
    let tokens = ["one", "two"].map(|label| stage.grant(label, &["a".to_owned()]));
    stage.gate.up();
    let asks = json!({ "elicitation": {} });
    let mut clients: Vec<(Client, &str)> = Vec::new();
    for token in &tokens {
        for (path, tool) in [("/mcp", "a.read_file"), ("/mcp/a", "read_file")] {
            let client = stage.gate.client(token, path);
            clients.push((older(&client, &asks), tool));
            clients.push((client, tool));
        }
    }
    thread::scope(|scope| {
        for (number, (client, tool)) in clients.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..10 {
                    let note = format!("n{number}-{round}-");
                    let answer = client.send(&call(tool, &json!({ "note": note })));
                    let text = answer.text();
                    assert!(text.contains(&note), "{text}");
                    let others = (0..8).filter(|other| *other != number);
                    for other in others {
                        assert!(!text.contains(&format!("n{other}-")), "{text}");
                    }
                }
            });
        }
    });
    assert_eq!(alive(&stage.notes("a")), 1);
    let (session, _) = &clients[2];
    let answer = session.send(&request("resources/subscribe", &json!({ "uri": "many://a" })));
    assert!(answer.text().contains("share this server"), "{}", answer.text());
    // Its lists are still followed.
    assert_eq!(names(&session.send(&request("prompts/list", &json!({}))), "prompts").len(), 1);
}

#[test]
fn a_server_that_shows_other_tools_to_other_clients_raises_no_drift() {
    let mut stage = Stage::new();
    stage.add("a", &[]);
    let token = stage.grant("agent", &["a".to_owned()]);
    stage.gate.up();
    let list = request("tools/list", &json!({}));
    for (path, prefix) in [("/mcp/a", ""), ("/mcp", "a.")] {
        for round in 0..3 {
            for (capabilities, asks) in [(json!({}), false), (json!({ "elicitation": {} }), true)] {
                let session = older(&stage.gate.client(&token, path), &capabilities);
                assert!(session.call(&format!("{prefix}read_file"), &json!({})).passed());
                let found = names(&session.send(&list), "tools");
                let ask = format!("{prefix}ask");
                assert_eq!(found.contains(&ask), asks, "{path} {round}: {found:?}");
                if asks {
                    let answer = session.call(&ask, &json!({}));
                    assert!(answer.passed(), "{}", answer.text());
                }
                // Exit code 0: nothing differs from what was accepted.
                stage.gate.run(&["server", "pins", "a"]);
            }
        }
    }
    assert!(!stage.gate.log().contains("not what was accepted"), "{}", stage.gate.log());
}
