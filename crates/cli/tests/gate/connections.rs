//! Connections: clients that stop sending or disconnect, and connections without a grant.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::http_client::{Client, call};
use crate::test_gate::{Gate, until};

fn connect(client: &Client) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// A call of `echo` with its bytes split in every way.
fn ways(client: &Client) -> Vec<(&'static str, Vec<u8>)> {
    let body = call("echo", &json!({ "nonce": "half" })).to_string();
    let large = call("echo", &json!({ "nonce": "half", "more": "x".repeat(20_000) })).to_string();
    let whole = String::from_utf8(client.request_that("keep-alive", body.as_bytes(), "")).unwrap();
    let (head, _) = whole.split_once("Content-Length").unwrap();
    let chunks =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let progress = body.replacen("\"params\":{", "\"params\":{\"_meta\":{\"progressToken\":1},", 1);
    vec![
        ("plain", whole.into_bytes()),
        ("closing", client.request(body.as_bytes(), "")),
        ("large", client.request_that("keep-alive", large.as_bytes(), "")),
        ("chunks", chunks.into_bytes()),
        ("stream", client.request_that("keep-alive", progress.as_bytes(), "")),
    ]
}

#[test]
fn a_client_that_stops_sending_is_answered() {
    let (_gate, recorder, client) = Gate::with_recorder();
    for (way, bytes) in ways(&client) {
        recorder.hang_on("echo");
        let before = recorder.count("echo");
        let mut stream = connect(&client);
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        until("the call is with its server", Duration::from_secs(5), || {
            recorder.count("echo") > before
        });
        // Longer than the time until a disconnect is noticed.
        thread::sleep(Duration::from_millis(400));
        recorder.let_go();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert!(heard.contains("\"result\""), "{way}: {heard}");
        assert!(heard.contains("HTTP/1.1 200 OK"), "{way}: {heard}");
    }
}

#[test]
fn a_disconnected_client_is_not_waited_for() {
    let (gate, recorder, client) = Gate::with_recorder();
    for (way, bytes) in ways(&client) {
        recorder.hang_on("echo");
        let (before, ended) = (recorder.count("echo"), abandoned(&gate));
        let mut stream = connect(&client);
        stream.write_all(&bytes).unwrap();
        until("the call is with its server", Duration::from_secs(5), || {
            recorder.count("echo") > before
        });
        drop(stream);
        until(way, Duration::from_secs(3), || abandoned(&gate) > ended);
        recorder.let_go();
    }
}

fn abandoned(gate: &Gate) -> usize {
    gate.decisions().iter().filter(|row| row["outcome"] == "abandoned").count()
}

#[test]
fn connections_without_a_grant_do_not_block_clients_with_one() {
    let (mut gate, _recorder, client) = Gate::with_recorder();
    gate.stop();
    gate.settings("[limits]\nconnections_max = 8\n");
    gate.up();
    let client = gate.client(&client.token, "/mcp/rec");
    let mut line = client.line();
    assert!(line.call("echo", &json!({ "nonce": "kept" })).passed());
    let mut strangers = Vec::new();
    for round in 0..3 {
        for words in [
            "",
            "POST /mcp/rec HT",
            "POST /mcp/rec HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            let mut stream = connect(&client);
            stream.write_all(words.as_bytes()).unwrap();
            strangers.push(stream);
        }
        for _ in 0..20 {
            assert!(client.call("echo", &json!({ "nonce": round })).passed());
        }
    }
    assert!(line.call("echo", &json!({ "nonce": "kept" })).passed(), "a client with a grant stays");
    let mut made_room = 0;
    for mut stream in strangers {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut heard = Vec::new();
        made_room += usize::from(stream.read_to_end(&mut heard).is_ok());
    }
    assert!(made_room >= 5, "{made_room} of 12 made room");
    let rows = gate.rows();
    assert!(rows.iter().any(|row| row["code"] == "503"), "they are rows");
}

#[test]
fn clients_with_a_grant_get_an_error_when_all_connections_are_used() {
    let (mut gate, _recorder, client) = Gate::with_recorder();
    gate.stop();
    gate.settings("[limits]\nconnections_max = 4\n");
    gate.up();
    let client = gate.client(&client.token, "/mcp/rec");
    let mut lines: Vec<_> = (0..3).map(|_| client.line()).collect();
    for line in &mut lines {
        assert!(line.call("echo", &json!({ "nonce": "mine" })).passed());
    }
    let more = client.call("echo", &json!({ "nonce": "more" }));
    assert_eq!(more.status, 503, "{}", more.text());
    assert!(more.text().contains("connections_per_grant_max"), "{}", more.text());
    for line in &mut lines {
        assert!(line.call("echo", &json!({ "nonce": "still" })).passed());
    }
}

/// Each grant has a fixed share of connections and sessions.
#[test]
fn a_grant_that_uses_all_its_connections_leaves_some_for_others() {
    let (mut gate, _recorder, client) = Gate::with_recorder();
    let other = gate.grant("other", &["rec=rules"]);
    gate.stop();
    gate.settings(
        "[limits]\nconnections_max = 40\nsessions_max = 20\nsessions_per_grant_max = 10\n",
    );
    gate.up();
    let greedy = gate.client(&client.token, "/mcp/rec");
    let other = gate.client(&other, "/mcp/rec");
    let kept = other.with_session();
    let mut lines = Vec::new();
    for _ in 0..60 {
        let mut line = greedy.line();
        let status = line.call("echo", &json!({ "nonce": "mine" })).status;
        assert!(matches!(status, 200 | 503), "{status}");
        lines.push(line);
    }
    for _ in 0..20 {
        assert!(other.call("echo", &json!({ "nonce": "another's" })).passed());
    }
    drop(lines);
    let sessions: Vec<Client> = (0..30).map(|_| greedy.with_session()).collect();
    assert!(kept.call("echo", &json!({})).passed(), "its session is still there");
    let open = sessions.iter().filter(|one| one.call("echo", &json!({})).passed()).count();
    assert_eq!(open, 10, "the newest of its own");
    assert!(sessions.last().unwrap().call("echo", &json!({})).passed());
}

/// The memory for stored handshakes is limited, too.
#[test]
fn sessions_with_large_handshakes_evict_sessions_of_the_same_grant() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let other = gate.client(&gate.grant("other", &["rec=rules"]), "/mcp/rec");
    until("the grant counts", Duration::from_secs(5), || other.call("echo", &json!({})).passed());
    let kept = other.with_session();
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": { "experimental": { "x": "x".repeat(60_000) } },
            "clientInfo": { "name": "large", "version": "1" },
        },
    });
    let sessions: Vec<Client> = (0..160)
        .map(|_| {
            let id = client.send(&hello).header("mcp-session-id").unwrap();
            Client { headers: format!("Mcp-Session-Id: {id}\r\n"), ..client.clone() }
        })
        .collect();
    assert_eq!(sessions[0].call("echo", &json!({})).status, 404, "9 MiB are more than is kept");
    assert!(sessions[159].call("echo", &json!({})).passed());
    assert!(kept.call("echo", &json!({})).passed());
}

#[test]
fn a_limit_is_not_reset_by_opening_a_session_or_naming_one() {
    let (gate, recorder, _) = Gate::with_recorder();
    let short = json!({ "rate_limit": { "max": 1, "window": 86400 } });
    let long = json!({ "limits": [{ "window": "day", "max": 1, "scope": "session" }] });
    let tools = json!({ "echo": short, "other": long });
    gate.policy("once", &json!({ "version": "1", "default": "deny", "tools": tools }));
    let client = gate.client(&gate.grant("limited", &["rec=once"]), "/mcp/rec");
    until("the grant counts", Duration::from_secs(5), || client.send(&ping()).status == 200);
    for tool in ["echo", "other"] {
        let before = recorder.count(tool);
        let mut passed = usize::from(client.call(tool, &json!({})).passed());
        for _ in 0..5 {
            let session = client.with_session();
            passed += usize::from(session.call(tool, &json!({})).passed());
            // A request of the newer era with the header of a session.
            let headers = format!(
                "{}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n",
                session.headers
            );
            let newer = Client { headers, ..client.clone() };
            let mut call = call(tool, &json!({}));
            call["params"]["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let answer = newer.send(&call);
            assert_eq!(answer.denial()["code"], "rate_limited", "{}", answer.text());
        }
        assert_eq!((passed, recorder.count(tool) - before), (1, 1), "{tool}");
    }
    let rows = gate.rows();
    let newer =
        rows.iter().filter(|row| row["grant"] == "limited" && row["code"] == "rate_limited");
    assert!(newer.clone().any(|row| row["session"].is_null() || row["session"] == ""), "{rows:?}");
}

fn ping() -> serde_json::Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })
}
