//! News of lists: of servers of both eras, behind pipes and addresses, for clients of both, while servers
//! come and go and the owner changes what a grant holds and accepts what changed.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::eras::{listened, older, request};
use crate::world::{Gate, until};

const NEWS: &str = include_str!("news.py");
const KINDS: [&str; 3] = ["tools", "prompts", "resources"];
/// News come together; after so long without any there are no more of them. And so long one is waited for.
const QUIET: Duration = Duration::from_millis(60);
const SOON: Duration = Duration::from_secs(10);

struct Stage {
    gate: Gate,
    served: Vec<Child>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for server in &mut self.served {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Stage {
    fn path(&self, name: &str) -> String {
        self.gate.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn add(&self, name: &str, era: &str) {
        let words = ["python3", &self.path("news.py"), era, &self.path(name)];
        self.gate.run(&[&["server", "add", name, "--"][..], &words].concat());
    }

    fn serve(&mut self, name: &str, era: &str, port: &str) -> String {
        let mut server = Command::new("python3")
            .args([&self.path("news.py"), era, &self.path(name), port])
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

/// The methods of all that comes on a stream.
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

/// Waits for these news, in any order, and then for quiet.
fn hears(ear: &Receiver<String>, whose: &str, kinds: &[&str]) {
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
fn clients_of_all_servers_hear_of_every_list_that_changes() {
    let mut stage = Stage { gate: Gate::new(), served: Vec::new() };
    fs::write(stage.path("news.py"), NEWS).unwrap();
    stage.gate.policy("open", &json!({ "version": "1", "default": "allow" }));
    let mut ports = Vec::new();
    for (name, era) in [("old-url", "legacy"), ("new-url", "modern")] {
        let port = stage.serve(name, era, "0");
        let url = format!("http://127.0.0.1:{port}/mcp");
        stage.gate.run(&["server", "add", name, "--url", &url]);
        ports.push((name, era, port));
    }
    stage.add("old-pipe", "legacy");
    stage.add("new-pipe", "modern");
    let names = ["new-pipe", "new-url", "old-pipe", "old-url"];
    let token = stage
        .gate
        .grant("agent", &names.map(|name| format!("{name}=open")).each_ref().map(String::as_str));
    stage.gate.up();
    let client = stage.gate.client(&token, "/mcp");

    let session = older(&client, &json!({}));
    let list = request("tools/list", &json!({}));
    let old = methods(BufReader::new(session.open("GET")));
    assert!(session.send(&list).passed());
    let all = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let (stream, ack) = listened(&client, &all);
    assert_eq!(ack["params"]["notifications"], all, "{ack}");
    let new = methods(stream);
    let both = |why: &str, kinds: &[&str]| {
        hears(&old, &format!("{why}, older client"), kinds);
        hears(&new, &format!("{why}, newer client"), kinds);
    };

    for name in names {
        for kind in KINDS {
            stage.grow(name, kind);
            both(&format!("{kind} of {name}"), &[kind]);
        }
    }
    assert!(!session.send(&list).text().contains("old-url.n1"), "nobody has accepted it");
    // It is read in the background.
    until("it is seen", SOON, || !stage.gate.cli(&["server", "pins", "old-url"]).status.success());
    stage.gate.run(&["server", "pins", "old-url", "--accept"]);
    both("a tool was accepted", &KINDS);
    until("it is shown", SOON, || session.send(&list).text().contains("old-url.n1"));
    stage.gate.run(&["server", "remove", "old-pipe"]);
    both("a server was removed", &KINDS);
    stage.gate.policy("closed", &json!({ "version": "1", "default": "deny" }));
    stage.gate.run(&["grant", "policy", "agent", "new-pipe", "closed"]);
    both("another policy", &KINDS);
    stage.add("later", "modern");
    stage.gate.run(&["grant", "policy", "agent", "later", "open"]);
    both("a server was given", &KINDS);
    assert!(session.send(&list).text().contains("later.n0"));
    stage.grow("later", "tools");
    both("a server that came later", &["tools"]);

    for mut server in std::mem::take(&mut stage.served) {
        server.kill().unwrap();
        server.wait().unwrap();
    }
    thread::sleep(Duration::from_millis(1_500));
    for (name, era, port) in &ports {
        fs::remove_file(stage.path(name)).unwrap();
        stage.serve(name, era, port);
        // An older server that was restarted is greeted again by the next request.
        session.send(&list);
        both(&format!("{name} is back"), &KINDS);
    }
}

#[test]
fn clients_of_one_server_hear_when_the_owner_changes_what_they_see() {
    let mut stage = Stage { gate: Gate::new(), served: Vec::new() };
    fs::write(stage.path("news.py"), NEWS).unwrap();
    stage.gate.policy("open", &json!({ "version": "1", "default": "allow" }));
    stage.gate.policy("closed", &json!({ "version": "1", "default": "deny" }));
    stage.add("old", "legacy");
    stage.add("new", "modern");
    let token = stage.gate.grant("agent", &["old=open", "new=open"]);
    stage.gate.up();
    let list = request("tools/list", &json!({}));
    for name in ["old", "new"] {
        let session = older(&stage.gate.client(&token, &format!("/mcp/{name}")), &json!({}));
        let ear = methods(BufReader::new(session.open("GET")));
        assert!(session.send(&list).text().contains("n0"));
        stage.grow(name, "tools");
        hears(&ear, name, &["tools"]);
        assert!(!session.send(&list).text().contains("n1"), "{name}: nobody has accepted it");
        stage.gate.run(&["server", "pins", name, "--accept"]);
        hears(&ear, name, &["tools"]);
        assert!(session.send(&list).text().contains("n1"), "{name}: it was accepted");
        stage.gate.run(&["grant", "policy", "agent", name, "closed"]);
        hears(&ear, name, &["tools"]);
        assert!(!session.send(&list).text().contains("n0"), "{name}: the rules deny it");
    }
}
