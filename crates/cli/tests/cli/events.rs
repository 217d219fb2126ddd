//! Readers of WHOOP's events behind one gate, while syncs bring older changes behind their backs.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};

use crate::http;
use crate::stage::{Stage, Up};
use crate::whoop::{Sandbox, connected};

/// A gate with ten days of WHOOP in its mirror, and forty at WHOOP.
struct Scene {
    stage: Stage,
    up: Up,
    _sandbox: Sandbox,
}

/// One reader: a grant, and a session of it where there is one.
struct Reader {
    url: String,
    token: String,
    session: Option<String>,
}

impl Scene {
    fn new() -> Scene {
        let (stage, sandbox) = connected("40");
        stage.fine(&["sync", "whoop", "--since", "last 10 days"]);
        stage.fine(&["server", "add", "whoop", "--builtin", "whoop"]);
        stage.write("home/tollgate.toml", "[services.whoop]\nsync_interval_minutes = 0\n");
        let up = stage.up(&[]);
        Scene { stage, up, _sandbox: sandbox }
    }

    fn started_again(self) -> Scene {
        let Scene { stage, up, _sandbox: sandbox } = self;
        assert_eq!(up.stop().code, 0);
        Scene { up: stage.up(&[]), stage, _sandbox: sandbox }
    }

    fn grant(&self, label: &str) -> String {
        let said = self.stage.fine(&["grant", "create", label, "--server", "whoop", "--json"]);
        said.json()["token"].as_str().unwrap().to_owned()
    }

    fn reader(&self, token: &str) -> Reader {
        let url = format!("{}/whoop", self.up.url());
        Reader { url, token: token.to_owned(), session: None }
    }

    /// A client that greets the gate and goes on in the session it is given.
    fn in_session(&self, token: &str) -> Reader {
        let mut reader = self.reader(token);
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        let greeted = reader.post("initialize", &hello);
        reader.session = Some(greeted.header("mcp-session-id").unwrap().to_owned());
        reader
    }
}

impl Reader {
    fn post(&self, method: &str, params: &Value) -> http::Answer {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        if let Some(session) = &self.session {
            headers.push(("Mcp-Session-Id", session));
            headers.push(("MCP-Protocol-Version", "2025-06-18"));
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        http::post(&self.url, &headers, &body.to_string())
    }

    /// What changed since a time or a cursor.
    fn events(&self, since: &str) -> Vec<String> {
        let (tool, asked) = ("get_whoop_events", json!({ "since": since, "limit": 5000 }));
        let answer = match self.session {
            Some(_) => self.post("tools/call", &json!({ "name": tool, "arguments": asked })),
            None => http::call(&self.url, &self.token, tool, &asked),
        };
        let answer = answer.json()["result"]["structuredContent"].clone();
        let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
        let place = |event: &Value| ["updated_at", "resource", "id"].map(|key| text(event, key));
        let events = answer["events"].as_array().unwrap_or_else(|| panic!("{answer}"));
        events.iter().map(|event| place(event).join("|")).collect()
    }
}

/// As documented: a reader may go on from the last event it was given.
fn cursor(events: &[String]) -> String {
    URL_SAFE.encode(events.last().unwrap())
}

fn set(events: &[String]) -> BTreeSet<&String> {
    events.iter().collect()
}

/// Both come to the same place, one before the older changes are there and one after.
fn both_get_everything_once(scene: &Scene, early: &Reader, late: &Reader) {
    let first = early.events("2010-01-01");
    scene.stage.fine(&["sync", "whoop", "--full"]);
    let whole = late.events("2010-01-01");
    assert_eq!(whole.last(), first.last(), "both have come to the same place");
    assert!(whole.len() > first.len());
    assert_eq!(late.events(&cursor(&whole)), [""; 0], "nothing is new to the second");
    let rest = early.events(&cursor(&first));
    assert_eq!(first.len() + rest.len(), whole.len(), "each once");
    assert_eq!(set(&[first, rest.clone()].concat()), set(&whole));
    assert_eq!(early.events(&cursor(&rest)), [""; 0], "nothing comes twice");
}

#[test]
fn two_grants_at_one_place_get_every_event_once() {
    let scene = Scene::new();
    let (alice, bob) = (scene.grant("alice"), scene.grant("bob"));
    both_get_everything_once(&scene, &scene.reader(&alice), &scene.reader(&bob));
}

#[test]
fn two_sessions_of_one_grant_get_every_event_once() {
    let scene = Scene::new();
    let token = scene.grant("alice");
    both_get_everything_once(&scene, &scene.in_session(&token), &scene.in_session(&token));
}

#[test]
fn readers_that_cannot_be_told_apart_lose_nothing() {
    let scene = Scene::new();
    let token = scene.grant("alice");
    let (one, other) = (scene.reader(&token), scene.reader(&token));
    let first = one.events("2010-01-01");
    scene.stage.fine(&["sync", "whoop", "--full"]);
    let whole = other.events("2010-01-01");
    let rest = one.events(&cursor(&first));
    assert_eq!(set(&[first, rest].concat()), set(&whole));
}

#[test]
fn readers_go_on_where_they_were_when_the_gate_is_started_again() {
    let scene = Scene::new();
    let (alice, bob) = (scene.grant("alice"), scene.grant("bob"));
    let first = scene.in_session(&alice).events("2010-01-01");
    scene.stage.fine(&["sync", "whoop", "--full"]);
    let whole = scene.in_session(&bob).events("2010-01-01");
    let scene = scene.started_again();
    assert_eq!(scene.in_session(&bob).events(&cursor(&whole)), [""; 0], "bob has everything");
    let rest = scene.in_session(&alice).events(&cursor(&first));
    assert_eq!(set(&[first, rest].concat()), set(&whole));
}
