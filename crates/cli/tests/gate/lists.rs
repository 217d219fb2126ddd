//! List-changed notifications: of servers of both eras, over stdio and HTTP, for clients of both eras, while
//! servers restart and the owner changes grants and accepts changes.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::eras::{listened, older, request};
use crate::test_gate::{Gate, until};

const NEWS: &str = include_str!("list_changes.py");
const KINDS: [&str; 3] = ["tools", "prompts", "resources"];
/// Notifications come together: after `QUIET` without one the batch is complete. `SOON` is the timeout for one.
const QUIET: Duration = Duration::from_millis(60);
const SOON: Duration = Duration::from_secs(10);

struct ListGate {
    gate: Gate,
    served: Vec<Child>,
}

impl Drop for ListGate {
    fn drop(&mut self) {
        for server in &mut self.served {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl ListGate {
    fn path(&self, name: &str) -> String {
        self.gate.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn add(&self, name: &str, era: &str) {
        let words = ["python3", &self.path("list_changes.py"), era, &self.path(name)];
        self.gate.run(&[&["server", "add", name, "--"][..], &words].concat());
    }

    fn serve(&mut self, name: &str, era: &str, port: &str) -> String {
        let mut server = Command::new("python3")
            .args([&self.path("list_changes.py"), era, &self.path(name), port])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        self.served.push(server);
        port.trim().to_owned()
    }

    fn grow(&self, name: &str, kind: &str) {
        let file = OpenOptions::new().append(true).create(true).open(self.path(name));
        writeln!(file.unwrap(), "{kind}").unwrap();
    }
}

/// The methods of all messages on a stream.
fn methods(mut stream: BufReader<TcpStream>) -> Receiver<String> {
    let (tell, told) = channel();
    stream.get_ref().set_read_timeout(None).unwrap();
    thread::spawn(move || {
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if let Some(text) = line.strip_prefix("data: ") {
                let message: Value = serde_json::from_str(text).unwrap_or_default();
                let _ = tell.send(message["method"].as_str().unwrap_or_default().to_owned());
            }
            line.clear();
        }
    });
    told
}

/// Waits for these notifications in any order, and then for quiet.
fn expect_notifications(ear: &Receiver<String>, whose: &str, kinds: &[&str]) {
    let mut wanted: Vec<String> =
        kinds.iter().map(|kind| format!("notifications/{kind}/list_changed")).collect();
    while !wanted.is_empty() {
        let method = ear.recv_timeout(SOON).unwrap_or_else(|_| panic!("{whose}: no {wanted:?}"));
        wanted.retain(|one| *one != method);
    }
    let end = loop {
        if let Err(end) = ear.recv_timeout(QUIET) {
            break end;
        }
    };
    assert_eq!(end, RecvTimeoutError::Timeout, "{whose}: it ended");
}

#[test]
fn clients_of_all_servers_are_notified_of_every_list_change() {
    let mut setup = ListGate { gate: Gate::new(), served: Vec::new() };
    fs::write(setup.path("list_changes.py"), NEWS).unwrap();
    setup.gate.policy("open", &json!({ "version": "1", "default": "allow" }));
    let mut ports = Vec::new();
    for (name, era) in [("old-url", "legacy"), ("new-url", "modern")] {
        let port = setup.serve(name, era, "0");
        let url = format!("http://127.0.0.1:{port}/mcp");
        setup.gate.run(&["server", "add", name, "--url", &url]);
        ports.push((name, era, port));
    }
    setup.add("old-pipe", "legacy");
    setup.add("new-pipe", "modern");
    let names = ["new-pipe", "new-url", "old-pipe", "old-url"];
    let token = setup
        .gate
        .grant("agent", &names.map(|name| format!("{name}=open")).each_ref().map(String::as_str));
    setup.gate.up();
    let client = setup.gate.client(&token, "/mcp");

    let session = older(&client, &json!({}));
    let list = request("tools/list", &json!({}));
    let old = methods(BufReader::new(session.open("GET")));
    assert!(session.send(&list).passed());
    let all = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let (stream, ack) = listened(&client, &all);
    assert_eq!(ack["params"]["notifications"], all, "{ack}");
    let new = methods(stream);
    let both = |why: &str, kinds: &[&str]| {
        expect_notifications(&old, &format!("{why}, older client"), kinds);
        expect_notifications(&new, &format!("{why}, newer client"), kinds);
    };

    for name in names {
        for kind in KINDS {
            setup.grow(name, kind);
            both(&format!("{kind} of {name}"), &[kind]);
        }
    }
    assert!(!session.send(&list).text().contains("old-url__n1"), "it is not accepted yet");
    // It is read in the background.
    until("it is seen", SOON, || !setup.gate.cli(&["server", "pins", "old-url"]).status.success());
    setup.gate.run(&["server", "pins", "old-url", "--accept"]);
    both("a tool was accepted", &KINDS);
    until("it is shown", SOON, || session.send(&list).text().contains("old-url__n1"));
    setup.gate.run(&["server", "remove", "old-pipe"]);
    both("a server was removed", &KINDS);
    setup.gate.policy("closed", &json!({ "version": "1", "default": "deny" }));
    setup.gate.run(&["grant", "policy", "agent", "new-pipe", "closed"]);
    both("another policy", &KINDS);
    setup.add("later", "modern");
    setup.gate.run(&["grant", "policy", "agent", "later", "open"]);
    both("a server was given", &KINDS);
    assert!(session.send(&list).text().contains("later__n0"));
    setup.grow("later", "tools");
    both("a server that came later", &["tools"]);

    for mut server in std::mem::take(&mut setup.served) {
        server.kill().unwrap();
        server.wait().unwrap();
    }
    thread::sleep(Duration::from_millis(1_500));
    for (name, era, port) in &ports {
        fs::remove_file(setup.path(name)).unwrap();
        setup.serve(name, era, port);
        // A restarted older server gets a handshake with the next request.
        session.send(&list);
        both(&format!("{name} is back"), &KINDS);
    }
}

#[test]
fn clients_of_one_server_are_notified_of_changes_by_the_owner() {
    let mut setup = ListGate { gate: Gate::new(), served: Vec::new() };
    fs::write(setup.path("list_changes.py"), NEWS).unwrap();
    setup.gate.policy("open", &json!({ "version": "1", "default": "allow" }));
    setup.gate.policy("closed", &json!({ "version": "1", "default": "deny" }));
    setup.add("old", "legacy");
    setup.add("new", "modern");
    let token = setup.gate.grant("agent", &["old=open", "new=open"]);
    setup.gate.up();
    let list = request("tools/list", &json!({}));
    for name in ["old", "new"] {
        let session = older(&setup.gate.client(&token, &format!("/mcp/{name}")), &json!({}));
        let ear = methods(BufReader::new(session.open("GET")));
        assert!(session.send(&list).text().contains("n0"));
        setup.grow(name, "tools");
        expect_notifications(&ear, name, &["tools"]);
        assert!(!session.send(&list).text().contains("n1"), "{name}: it is not accepted yet");
        setup.gate.run(&["server", "pins", name, "--accept"]);
        expect_notifications(&ear, name, &["tools"]);
        assert!(session.send(&list).text().contains("n1"), "{name}: it was accepted");
        setup.gate.run(&["grant", "policy", "agent", name, "closed"]);
        expect_notifications(&ear, name, &["tools"]);
        assert!(!session.send(&list).text().contains("n0"), "{name}: the rules deny it");
    }
}
