//! Who may keep a connection, and who is still there: clients that stop sending, and strangers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::door::{Client, call};
use crate::world::{Gate, until};

fn connect(client: &Client) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// A call of `echo`, in every way in which its bytes may come.
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
        // Longer than one that is gone is taken for there.
        thread::sleep(Duration::from_millis(400));
        recorder.let_go();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert!(heard.contains("\"result\""), "{way}: {heard}");
        assert!(heard.contains("HTTP/1.1 200 OK"), "{way}: {heard}");
    }
}

#[test]
fn a_client_that_is_gone_is_not_waited_for() {
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
fn strangers_do_not_keep_clients_with_a_grant_out() {
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
    assert!(line.call("echo", &json!({ "nonce": "kept" })).passed(), "who has a grant stays");
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
fn clients_with_a_grant_are_told_when_there_is_no_place() {
    let (mut gate, _recorder, client) = Gate::with_recorder();
    gate.stop();
    gate.settings("[limits]\nconnections_max = 3\n");
    gate.up();
    let client = gate.client(&client.token, "/mcp/rec");
    let mut lines: Vec<_> = (0..3).map(|_| client.line()).collect();
    for line in &mut lines {
        assert!(line.call("echo", &json!({ "nonce": "mine" })).passed());
    }
    assert_eq!(client.call("echo", &json!({ "nonce": "more" })).status, 503);
    for line in &mut lines {
        assert!(line.call("echo", &json!({ "nonce": "still" })).passed());
    }
}
