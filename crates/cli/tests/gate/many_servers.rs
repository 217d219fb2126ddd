//! Many servers at the common address: lists that do not wait for slow servers, duplicate names, lists that
//! differ by client, and processes that end with their client or are shared.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::eras::{event, older, request};
use crate::http_client::{Answer, Client, call};
use crate::running::alive;
use crate::test_gate::{Gate, until};

const SERVER: &str = include_str!("many_servers.py");
const SOON: Duration = Duration::from_mins(1);

struct ManyServersGate {
    gate: Gate,
}

impl ManyServersGate {
    fn new() -> ManyServersGate {
        let gate = Gate::new();
        fs::write(gate.folder.path().join("many_servers.py"), SERVER).unwrap();
        gate.policy("open", &json!({ "version": "1", "default": "allow" }));
        ManyServersGate { gate }
    }

    fn notes(&self, server: &str) -> PathBuf {
        self.gate.folder.path().join(server)
    }

    fn note(&self, server: &str, what: &str) -> PathBuf {
        self.notes(server).with_extension(what)
    }

    fn add(&self, server: &str, more: &[&str]) {
        let script = self.gate.folder.path().join("many_servers.py");
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
fn tools_of_one_name_on_two_servers_are_both_callable_at_the_common_address() {
    let mut setup = ManyServersGate::new();
    let servers = ["work", "home"].map(str::to_owned);
    for server in &servers {
        setup.add(server, &[]);
    }
    let token = setup.grant("agent", &servers);
    setup.gate.up();
    for client in
        [setup.gate.client(&token, "/mcp"), setup.gate.client(&token, "/mcp").with_session()]
    {
        for server in &servers {
            let answer = client.call(&format!("{server}__read_file"), &json!({ "n": 1 }));
            assert!(answer.passed(), "{}", answer.text());
            assert_eq!(said(&answer)["server"], **server);
        }
    }
}

/// One server never finishes starting, one exits at once, and the lists still have the tools of all.
#[test]
fn lists_of_eleven_servers_wait_for_none_of_them() {
    let mut setup = ManyServersGate::new();
    let servers: Vec<String> = (0..11).map(|number| format!("s{number}")).collect();
    for server in &servers {
        setup.add(server, &[]);
    }
    let token = setup.grant("agent", &servers);
    let expected: BTreeSet<String> = servers
        .iter()
        .flat_map(|server| [format!("{server}__read_file"), format!("{server}__only_{server}")])
        .collect();
    fs::write(setup.note("s3", "hold"), "").unwrap();
    fs::write(setup.note("s4", "dead"), "").unwrap();
    fs::write(setup.note("s5", "more"), "").unwrap();
    setup.gate.up();
    let list = request("tools/list", &json!({}));
    let client = setup.gate.client(&token, "/mcp");
    for _ in 0..10 {
        let session = older(&client, &json!({}));
        let found = names(&session.send(&list), "tools");
        assert!(found.is_superset(&expected), "{found:?}");
        session.open("DELETE");
    }
    let found = names(&client.send(&list), "tools");
    assert!(found.is_superset(&expected), "also without a session: {found:?}");

    // One server's list has grown; clients are notified and see the tool once it is accepted.
    let session = older(&client, &json!({}));
    let mut stream = BufReader::new(session.open("GET"));
    stream.get_ref().set_read_timeout(Some(SOON)).unwrap();
    assert!(!names(&session.send(&list), "tools").contains("s5__more"));
    until("it is seen", SOON, || !setup.gate.cli(&["server", "pins", "s5"]).status.success());
    setup.gate.run(&["server", "pins", "s5", "--accept"]);
    while event(&mut stream)["method"] != "notifications/tools/list_changed" {}
    until("it is shown", SOON, || names(&session.send(&list), "tools").contains("s5__more"));

    // A call to a server that is still starting waits for it, and no other call does.
    assert!(session.call("s1__read_file", &json!({})).passed());
    let hold = setup.note("s3", "hold");
    let message = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "s3__read_file" },
    });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| session.send(&message));
        assert!(session.call("s2__read_file", &json!({})).passed());
        let refused = session.call("s4__read_file", &json!({}));
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

/// Prompts and resources are not pinned: a server that has not answered yet is left out, and a notification
/// follows.
#[test]
fn a_list_that_was_never_read_follows_with_a_notification() {
    let mut setup = ManyServersGate::new();
    let servers = ["fast", "slow"].map(str::to_owned);
    for server in &servers {
        setup.add(server, &[]);
    }
    let token = setup.grant("agent", &servers);
    fs::write(setup.note("slow", "hold"), "").unwrap();
    setup.gate.up();
    let session = older(&setup.gate.client(&token, "/mcp"), &json!({}));
    let mut stream = BufReader::new(session.open("GET"));
    stream.get_ref().set_read_timeout(Some(SOON)).unwrap();
    let list = request("prompts/list", &json!({}));
    let began = Instant::now();
    let mut first = session.send(&list);
    let took = began.elapsed();
    println!("the first list of prompts while a server hangs: {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    until("the other server has answered", SOON, || {
        first = session.send(&list);
        names(&first, "prompts").contains("fast__greet")
    });
    assert!(!names(&first, "prompts").contains("slow__greet"), "{}", first.text());
    assert_eq!(first.json()["result"]["_meta"]["tollgate/left_out"], json!(["slow"]));
    fs::remove_file(setup.note("slow", "hold")).unwrap();
    let both = ["fast__greet", "slow__greet"].map(str::to_owned).into();
    // The first notification may be about the other server.
    until("the notification about this one comes", SOON, || {
        while event(&mut stream)["method"] != "notifications/prompts/list_changed" {}
        names(&session.send(&list), "prompts") == both
    });
    // From now on the list is known, so that a hanging server removes nothing, even after a restart.
    fs::write(setup.note("slow", "hold"), "").unwrap();
    assert_eq!(names(&session.send(&list), "prompts"), both);
    setup.gate.stop();
    setup.gate.up();
    let session = older(&setup.gate.client(&token, "/mcp"), &json!({}));
    assert_eq!(names(&session.send(&list), "prompts"), both);
}

/// An empty list would be taken for the truth, also while the server is being tried again.
#[test]
fn a_server_whose_list_fails_is_an_error_for_every_client() {
    let mut setup = ManyServersGate::new();
    fs::write(setup.note("a", "dead"), "").unwrap();
    setup.add("a", &["--no-connect"]);
    let token = setup.grant("agent", &["a".to_owned()]);
    setup.gate.up();
    let ask = |method: &str| {
        let session = older(&setup.gate.client(&token, "/mcp"), &json!({}));
        session.send(&request(method, &json!({}))).json()
    };
    ask("prompts/list");
    for method in ["tools/list", "tools/list", "prompts/list", "tools/list", "prompts/list"] {
        let answer = ask(method);
        let words = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(words.contains("`a`: "), "{words}");
        thread::sleep(Duration::from_millis(1_500));
    }
    setup.add("b", &[]);
    setup.gate.run(&["grant", "policy", "agent", "b", "open"]);
    until("it is left out with its reason", SOON, || {
        let result = ask("tools/list")["result"].clone();
        let why = result["_meta"]["tollgate/left_out_reasons"]["a"].clone();
        why.as_str().is_some_and(|why| why.contains("ended"))
    });
}

#[test]
fn a_read_that_ends_with_its_session_is_no_failure_of_the_server() {
    let mut setup = ManyServersGate::new();
    setup.add("a", &[]);
    let token = setup.grant("agent", &["a".to_owned()]);
    setup.gate.up();
    fs::write(setup.note("a", "hold"), "").unwrap();
    let list = request("prompts/list", &json!({}));
    for _ in 0..3 {
        let session = older(&setup.gate.client(&token, "/mcp"), &json!({}));
        let answer = session.send(&list).text();
        assert!(answer.contains("no response yet"), "{answer}");
        session.open("DELETE");
        thread::sleep(Duration::from_millis(500));
    }
    setup.gate.stop();
    let log = setup.gate.log();
    assert!(!log.contains("could not read a list"), "{log}");
}

#[test]
fn a_session_without_a_stream_and_a_request_ends_with_its_process() {
    let mut setup = ManyServersGate::new();
    setup.gate.settings("[limits]\nsession_gone_seconds_max = 1\n");
    setup.add("a", &[]);
    let token = setup.grant("agent", &["a".to_owned()]);
    setup.gate.up();
    let notes = setup.notes("a");
    for path in ["/mcp", "/mcp/a"] {
        let tool = if path == "/mcp" { "a__read_file" } else { "read_file" };
        let [posts, gone, stays] =
            [(); 3].map(|()| older(&setup.gate.client(&token, path), &json!({})));
        let streams = [&gone, &stays].map(|session| session.open("GET"));
        for session in [&posts, &gone, &stays] {
            assert!(session.call(tool, &json!({})).passed());
        }
        assert_eq!(alive(&notes), 3, "{path}");
        let [closed, open] = streams.map(|stream| {
            let (mut stream, mut head) = (BufReader::new(stream), String::new());
            std::io::BufRead::read_line(&mut stream, &mut head).unwrap();
            assert!(head.contains("200"), "{head}");
            stream
        });
        drop(closed);
        until("both sessions end with their processes", SOON, || alive(&notes) == 1);
        for session in [&posts, &gone] {
            assert_eq!(session.call(tool, &json!({})).status, 404, "{path}");
        }
        assert!(stays.call(tool, &json!({})).passed(), "{path}");
        drop(open);
        until("the last one ends, too", SOON, || alive(&notes) == 0);
    }
}

#[test]
fn a_session_lasts_as_long_as_its_call() {
    let mut setup = ManyServersGate::new();
    setup.gate.settings("[limits]\nsession_gone_seconds_max = 1\n");
    setup.add("a", &[]);
    let token = setup.grant("agent", &["a".to_owned()]);
    setup.gate.up();
    let session = older(&setup.gate.client(&token, "/mcp/a"), &json!({}));
    assert!(session.call("read_file", &json!({})).passed());
    let hold = setup.note("a", "hold");
    fs::write(&hold, "").unwrap();
    thread::scope(|scope| {
        let answer = scope.spawn(|| session.call("read_file", &json!({})));
        thread::sleep(Duration::from_secs(3));
        fs::remove_file(&hold).unwrap();
        assert!(answer.join().unwrap().passed());
    });
    assert!(session.call("read_file", &json!({})).passed());
}

#[test]
fn concurrent_lists_of_one_session_start_each_server_once() {
    let mut setup = ManyServersGate::new();
    setup.add("a", &[]);
    let token = setup.grant("agent", &["a".to_owned()]);
    setup.gate.up();
    let started = || fs::read_to_string(setup.note("a", "pids")).unwrap().lines().count();
    let (before, hold) = (started(), setup.note("a", "hold"));
    fs::write(&hold, "").unwrap();
    let session = older(&setup.gate.client(&token, "/mcp"), &json!({}));
    thread::scope(|scope| {
        for (id, method) in ["prompts/list", "resources/list", "tools/list"].iter().enumerate() {
            let message = json!({ "jsonrpc": "2.0", "id": id + 10, "method": method });
            let session = &session;
            scope.spawn(move || session.send(&message));
        }
        until("it is started", SOON, || started() > before);
        fs::remove_file(&hold).unwrap();
    });
    assert!(session.call("a__read_file", &json!({})).passed());
    assert_eq!(started() - before, 1);
}

#[test]
fn sessions_that_only_list_share_one_listing_of_each_server() {
    let mut setup = ManyServersGate::new();
    let servers = ["a", "b"].map(str::to_owned);
    for server in &servers {
        setup.add(server, &[]);
    }
    let token = setup.grant("agent", &servers);
    setup.gate.up();
    let client = setup.gate.client(&token, "/mcp");
    let lists = ["tools/list", "prompts/list", "resources/list"];
    let first = older(&client, &json!({}));
    for server in &servers {
        assert!(first.call(&format!("{server}__read_file"), &json!({})).passed());
    }
    let ask = |session: &Client| lists.map(|list| session.send(&request(list, &json!({}))).text());
    let shown = ask(&first);
    let sessions = [(); 4].map(|()| older(&client, &json!({})));
    for session in &sessions {
        assert_eq!(ask(session), shown);
    }
    let running = || servers.iter().map(|server| alive(&setup.notes(server))).sum::<usize>();
    assert_eq!(running(), 2);
    assert!(sessions[0].call("b__read_file", &json!({})).passed());
    assert_eq!(running(), 3, "a call starts what it needs");
}

/// Concurrent calls of several grants and sessions: each gets its own response and no message of others.
#[test]
fn p20_a_shared_server_has_one_process_and_isolates_its_clients() {
    let mut setup = ManyServersGate::new();
    setup.add("a", &["--share"]);
    let list = setup.gate.run(&["--json", "server", "list"]);
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()[0]["shared"], true);
    let tokens = ["one", "two"].map(|label| setup.grant(label, &["a".to_owned()]));
    setup.gate.up();
    let asks = json!({ "elicitation": {} });
    let mut clients: Vec<(Client, &str)> = Vec::new();
    for token in &tokens {
        for (path, tool) in [("/mcp", "a__read_file"), ("/mcp/a", "read_file")] {
            let client = setup.gate.client(token, path);
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
    assert_eq!(alive(&setup.notes("a")), 1);
    let (session, _) = &clients[2];
    let answer = session.send(&request("resources/subscribe", &json!({ "uri": "many://a" })));
    assert!(answer.text().contains("share this server"), "{}", answer.text());
    // Its lists are still followed.
    assert_eq!(names(&session.send(&request("prompts/list", &json!({}))), "prompts").len(), 1);
}

#[test]
fn a_server_that_shows_other_tools_to_other_clients_raises_no_drift() {
    let mut setup = ManyServersGate::new();
    setup.add("a", &[]);
    let token = setup.grant("agent", &["a".to_owned()]);
    setup.gate.up();
    let list = request("tools/list", &json!({}));
    for (path, prefix) in [("/mcp/a", ""), ("/mcp", "a__")] {
        for round in 0..3 {
            for (capabilities, asks) in [(json!({}), false), (json!({ "elicitation": {} }), true)] {
                let session = older(&setup.gate.client(&token, path), &capabilities);
                assert!(session.call(&format!("{prefix}read_file"), &json!({})).passed());
                let found = names(&session.send(&list), "tools");
                let ask = format!("{prefix}ask");
                assert_eq!(found.contains(&ask), asks, "{path} {round}: {found:?}");
                if asks {
                    let answer = session.call(&ask, &json!({}));
                    assert!(answer.passed(), "{}", answer.text());
                }
                // Exit code 0: nothing differs from what was accepted.
                setup.gate.run(&["server", "pins", "a"]);
            }
        }
    }
    assert!(!setup.gate.log().contains("differs from its accepted"), "{}", setup.gate.log());
}
