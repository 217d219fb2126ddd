//! What a server or an agent says cannot steer the terminal of whoever reads it.

use serde_json::{Value, json};

use crate::http;
use crate::servers::add_shell;
use crate::stage::Stage;

/// Clears a screen, moves the cursor, sets a title, starts a right-to-left run, hides a message.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{8}\u{202e}\u{e0041}\u{2028}x";

fn assert_tame(what: &str, text: &str) {
    for c in text.chars() {
        let tame = c == '\n' || !c.is_control() && !"\u{202e}\u{e0041}\u{2028}".contains(c);
        assert!(tame, "{what} prints {c:?}: {text:?}");
    }
}

#[test]
fn tools_of_a_hostile_server_are_shown_tamely() {
    let stage = Stage::new();
    let tools = json!([
        { "name": format!("a{NASTY}"), "description": NASTY, "inputSchema": { "type": "object" } },
        { "name": "b", "title": NASTY, "description": format!("fine\n{NASTY}"), "inputSchema": { "type": "object" } },
    ]);
    assert_tame("server add", &add_shell(&stage, "bad", &tools.to_string()));
    let mut changed = tools;
    changed[1]["description"] = Value::from(format!("changed {NASTY}"));
    stage.write("tools.json", &changed.to_string());
    let shown = stage.run(&["server", "tools", "bad"]).stdout;
    assert!(
        shown.contains("⟨U+001B⟩[2J") && shown.contains("⟨U+202E⟩"),
        "it is shown, not hidden: {shown}"
    );
    for command in [
        &["server", "pins", "bad", "--look"][..],
        &["server", "pins", "bad", "--json"],
        &["server", "tools", "bad"],
        &["server", "tools", "bad", "--json"],
        &["server", "list", "--json"],
        &["doctor"],
        &["status"],
    ] {
        assert_tame(&command.join(" "), &stage.run(command).everything());
    }
}

#[test]
fn what_an_agent_sends_is_shown_tamely() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&["--log", "trace"]);
    let url = format!("{}/demo", up.url());
    // A header cannot carry the name, so this one is refused; the arguments of the other are parked.
    let meta = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": NASTY, "version": NASTY } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": meta });
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    http::post(&url, &headers, &hello.to_string());
    let odd = json!({ "jsonrpc": "2.0", "id": 2, "method": format!("odd/{NASTY}") });
    http::post(&url, &headers, &odd.to_string());
    let asked = std::thread::spawn({
        let (url, token) = (url.clone(), token.clone());
        move || http::call(&url, &token, "send_money", &json!({ "to": NASTY, "amount": 50 }))
    });
    let id = crate::gate::wait_for_approval(&stage);
    let shown = stage.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("⟨U+009B⟩31m"), "it is shown, not hidden: {shown}");
    for command in [
        &["approvals", "list"][..],
        &["approvals", "list", "--json"],
        &["approvals", "show", &id],
        &["approvals", "show", &id, "--json"],
        &["audit", "tail", "-n", "100"],
        &["audit", "tail", "-n", "100", "--json"],
        &["audit", "search", "--json"],
        &["audit", "export", "--format", "jsonl"],
        &["status", "--json"],
    ] {
        assert_tame(&command.join(" "), &stage.run(command).everything());
    }
    stage.fine(&["approvals", "deny", &id, "--because", "no"]);
    asked.join().unwrap();
    let said = up.stop();
    assert_tame("the log", &said.stderr);
}

#[test]
fn wrong_words_of_the_owner_are_shown_tamely_too() {
    let stage = Stage::with_demo();
    stage.write(
        "p.json",
        &format!(
            "{{\"version\":\"1\",\"default\":\"deny\",\"tools\":{{\"{}\":{{\"x\":1}}}}}}",
            "a\u{9b}2J\u{202e}"
        ),
    );
    for command in [
        &["policy", "check", "p.json"][..],
        &["grant", "show", NASTY],
        &["policy", "explain", "p.json", NASTY],
    ] {
        let said = stage.run(command);
        assert_ne!(said.code, 0);
        assert_tame(command[0], &said.everything());
    }
}
