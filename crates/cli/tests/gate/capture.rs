//! Captured arguments: off unless the owner turns them on for a server, sealed on disk, shown only on request, and
//! a call whose arguments cannot be captured is not sent.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::http_client::Client;
use crate::recorder::Recorder;
use crate::test_gate::Gate;

fn world(options: &[&str]) -> (Gate, Recorder, Client) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo", "secret"]);
    let rules = json!({
        "version": "1", "default": "deny",
        "tools": { "echo": {}, "secret": { "action": "deny" } },
    });
    gate.policy("rules", &rules);
    let url = recorder.url();
    gate.run(&[&["server", "add", "rec", "--url", &url], options].concat());
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    (gate, recorder, client)
}

/// The number of the newest entry about a tool.
fn entry_of(gate: &Gate, tool: &str) -> String {
    let rows = gate.run(&["--json", "audit", "tail", "-n", "1", "--tool", tool]);
    let row: Value = serde_json::from_str(rows.trim()).unwrap();
    row["seq"].to_string()
}

fn shown(gate: &Gate, tool: &str) -> Option<Value> {
    let output = gate.cli(&["--json", "audit", "show", &entry_of(gate, tool), "--arguments"]);
    let entry: Value = serde_json::from_slice(&output.stdout).ok()?;
    serde_json::from_str(entry["arguments"].as_str()?).ok()
}

/// Whether a text is in any file of a folder.
fn is_in(folder: &Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| {
        if path.is_dir() {
            return is_in(&path, text);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn arguments_are_kept_sealed_and_reading_them_is_recorded() {
    let (gate, _recorder, client) = world(&["--capture"]);
    let arguments = json!({ "nonce": "word-that-is-only-here" });
    assert!(client.call("echo", &arguments).passed());
    assert!(!client.call("secret", &arguments).passed());
    for tool in ["echo", "secret"] {
        assert_eq!(shown(&gate, tool), Some(arguments.clone()), "{tool}");
    }
    assert!(!is_in(&gate.home, "word-that-is-only-here"), "in clear text on disk");
    let plain = gate.run(&["audit", "show", &entry_of(&gate, "echo")]);
    assert!(plain.contains("digest: ") && !plain.contains("word-that"), "{plain}");
    let log = gate.run(&["--json", "audit", "tail", "-n", "50"]);
    assert_eq!(log.matches("arguments_read").count(), 2, "{log}");
    assert!(!log.contains("word-that"), "{log}");
}

#[test]
fn nothing_is_kept_unless_the_owner_says_so() {
    let (gate, _recorder, client) = world(&[]);
    assert!(client.call("echo", &json!({ "nonce": "first" })).passed());
    assert_eq!(shown(&gate, "echo"), None);
    assert!(!gate.home.join("captures.db").exists());
    gate.run(&["server", "capture", "rec", "on"]);
    crate::test_gate::until("capture is on", std::time::Duration::from_secs(30), || {
        client.call("echo", &json!({ "nonce": "second" }));
        shown(&gate, "echo") == Some(json!({ "nonce": "second" }))
    });
    gate.run(&["server", "capture", "rec", "off"]);
    crate::test_gate::until("capture is off", std::time::Duration::from_secs(30), || {
        let nonce = crate::test_gate::any_below(u64::MAX).to_string();
        client.call("echo", &json!({ "nonce": nonce }));
        shown(&gate, "echo").is_none()
    });
}

#[test]
fn a_call_whose_arguments_cannot_be_captured_is_not_sent() {
    let (gate, recorder, client) = world(&["--capture"]);
    fs::create_dir(gate.home.join("captures.db")).unwrap();
    let answer = client.call("echo", &json!({ "nonce": "x" }));
    assert_eq!(answer.denial()["code"], "store_unavailable", "{}", answer.text());
    assert!(answer.text().contains("could not be stored"), "{}", answer.text());
    assert_eq!(recorder.count("echo"), 0);
    fs::remove_dir(gate.home.join("captures.db")).unwrap();
    assert!(client.call("echo", &json!({ "nonce": "x" })).passed());
    assert_eq!(recorder.count("echo"), 1);
}
