//! Readers of WHOOP's events behind one gate, while syncs bring older changes later.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};

use crate::cli_test::{CliTest, Up};
use crate::http;
use crate::whoop::{Sandbox, connected};

/// A gate with ten days of WHOOP in its mirror, and forty at WHOOP.
struct EventGate {
    test: CliTest,
    up: Up,
    _sandbox: Sandbox,
}

/// One reader: a grant, and its session if it has one.
struct Reader {
    url: String,
    token: String,
    session: Option<String>,
}

impl EventGate {
    fn new() -> EventGate {
        let (test, sandbox) = connected("40");
        test.succeed(&["sync", "whoop", "--since", "last 10 days"]);
        test.succeed(&["server", "add", "whoop", "--builtin", "whoop"]);
        test.write("home/tollgate.toml", "[services.whoop]\nsync_interval_minutes = 0\n");
        let up = test.up(&[]);
        EventGate { test, up, _sandbox: sandbox }
    }

    fn started_again(self) -> EventGate {
        let EventGate { test, up, _sandbox: sandbox } = self;
        assert_eq!(up.stop().code, 0);
        EventGate { up: test.up(&[]), test, _sandbox: sandbox }
    }

    fn grant(&self, label: &str) -> String {
        let output = self.test.succeed(&["grant", "create", label, "--server", "whoop", "--json"]);
        output.json()["token"].as_str().unwrap().to_owned()
    }

    fn reader(&self, token: &str) -> Reader {
        let url = format!("{}/whoop", self.up.url());
        Reader { url, token: token.to_owned(), session: None }
    }

    /// A client with a handshake and a session.
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

/// As documented: a reader may continue from its last event.
fn cursor(events: &[String]) -> String {
    URL_SAFE.encode(events.last().unwrap())
}

fn set(events: &[String]) -> BTreeSet<&String> {
    events.iter().collect()
}

/// Both reach the same cursor, one before the older changes are synced and one after.
fn both_get_everything_once(gate: &EventGate, early: &Reader, late: &Reader) {
    let first = early.events("2010-01-01");
    gate.test.succeed(&["sync", "whoop", "--full"]);
    let whole = late.events("2010-01-01");
    assert_eq!(whole.last(), first.last(), "both have reached the same cursor");
    assert!(whole.len() > first.len());
    assert_eq!(late.events(&cursor(&whole)), [""; 0], "nothing is new to the second");
    let rest = early.events(&cursor(&first));
    assert_eq!(first.len() + rest.len(), whole.len(), "each once");
    assert_eq!(set(&[first, rest.clone()].concat()), set(&whole));
    assert_eq!(early.events(&cursor(&rest)), [""; 0], "nothing comes twice");
}

#[test]
fn two_grants_at_one_cursor_get_every_event_once() {
    let gate = EventGate::new();
    let (alice, bob) = (gate.grant("alice"), gate.grant("bob"));
    both_get_everything_once(&gate, &gate.reader(&alice), &gate.reader(&bob));
}

#[test]
fn two_sessions_of_one_grant_get_every_event_once() {
    let gate = EventGate::new();
    let token = gate.grant("alice");
    both_get_everything_once(&gate, &gate.in_session(&token), &gate.in_session(&token));
}

#[test]
fn indistinguishable_readers_lose_no_event() {
    let gate = EventGate::new();
    let token = gate.grant("alice");
    let (one, other) = (gate.reader(&token), gate.reader(&token));
    let first = one.events("2010-01-01");
    gate.test.succeed(&["sync", "whoop", "--full"]);
    let whole = other.events("2010-01-01");
    let rest = one.events(&cursor(&first));
    assert_eq!(set(&[first, rest].concat()), set(&whole));
}

#[test]
fn readers_continue_after_a_gate_restart() {
    let gate = EventGate::new();
    let (alice, bob) = (gate.grant("alice"), gate.grant("bob"));
    let first = gate.in_session(&alice).events("2010-01-01");
    gate.test.succeed(&["sync", "whoop", "--full"]);
    let whole = gate.in_session(&bob).events("2010-01-01");
    let gate = gate.started_again();
    assert_eq!(gate.in_session(&bob).events(&cursor(&whole)), [""; 0], "bob has everything");
    let rest = gate.in_session(&alice).events(&cursor(&first));
    assert_eq!(set(&[first, rest].concat()), set(&whole));
}
