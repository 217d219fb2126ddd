//! The control endpoints, as a test in another language uses them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use sandbox::Running;
use serde_json::{Value, json};

use crate::client::{Got, get, send, start, token};

fn control(running: &Running, method: &str, path: &str, body: &Value) -> Got {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    send(running.url(), method, &format!("/_sandbox{path}"), &[], &body)
}

#[test]
fn every_listed_endpoint_exists() {
    let running = start(|_| ());
    let list = control(&running, "GET", "/", &Value::Null).json();
    assert!(list.as_array().unwrap().len() > 15);
    let newest = running.control().records("cycle").unwrap()[0]["id"].to_string();
    for line in list.as_array().unwrap() {
        let path = line["path"].as_str().unwrap().replace("KIND", "cycle").replace("ID", &newest);
        let got = send(running.url(), line["method"].as_str().unwrap(), &path, &[], "");
        let there = got.status != 404 || !got.text().contains("lists what is");
        assert!(there, "{line}: {}", got.text());
    }
    assert_eq!(control(&running, "GET", "/nowhere", &Value::Null).status, 404);
}

#[test]
fn ready_returns_everything_a_program_needs() {
    let running = start(|_| ());
    let ready = control(&running, "GET", "/ready", &Value::Null).json();
    assert_eq!(
        (ready["service"].as_str(), ready["url"].as_str()),
        (Some("whoop"), Some(running.url()))
    );
    let bearer = ready["tokens"]["access_token"].as_str().unwrap();
    assert_eq!(get(running.url(), "/developer/v2/cycle", bearer).status, 200);
    assert!(ready["tokens"]["refresh_token"].is_string());
}

#[test]
fn faults_counters_and_tokens_over_json() {
    let running = start(|_| ());
    let bearer = token(&running);
    let fault =
        json!({ "path": "/developer", "next": 1, "fault": "status", "code": 429, "reset": "3" });
    assert_eq!(control(&running, "POST", "/faults", &json!([fault])).status, 204);
    let left = control(&running, "GET", "/faults", &Value::Null).json();
    assert_eq!(left[0]["fault"], "status");
    let got = get(running.url(), "/developer/v2/cycle", &bearer);
    assert_eq!((got.status, got.header("x-ratelimit-reset")), (429, Some("3")));
    let counters = control(&running, "GET", "/counters", &Value::Null).json();
    assert_eq!(counters["paths"]["GET /developer/v2/cycle"], 1);
    assert_eq!(counters["statuses"]["429"], 1);
    control(&running, "DELETE", "/counters", &Value::Null);
    assert_eq!(control(&running, "GET", "/counters", &Value::Null).json()["requests"], 0);
    assert_eq!(control(&running, "POST", "/faults", &json!({ "fault": "typo" })).status, 400);
    control(&running, "POST", "/tokens/expire", &json!({ "which": "all" }));
    assert_eq!(get(running.url(), "/developer/v2/cycle", &bearer).status, 401);
    let fresh = control(&running, "POST", "/tokens", &json!({ "scopes": ["read:cycles"] })).json();
    assert!(fresh.get("refresh_token").is_none());
    let bearer = fresh["access_token"].as_str().unwrap();
    assert_eq!(get(running.url(), "/developer/v2/cycle", bearer).status, 200);
}

#[test]
fn manual_edits_of_records_persist() {
    let running = start(|settings| settings.limits.clear());
    let bearer = token(&running);
    let workouts = running.control().records("workout").unwrap();
    let id = |n: usize| workouts[n]["id"].as_str().unwrap().to_owned();
    let record = |id: &str| format!("/records/workout/{id}");
    let patch = json!({ "sport_name": "padel", "score": { "strain": 3.5 } });
    let changed = control(&running, "PATCH", &record(&id(0)), &patch).json();
    assert_eq!(changed["sport_name"], "padel");
    assert_eq!(changed["score"]["kilojoule"], workouts[0]["score"]["kilojoule"]);
    assert!(changed["updated_at"].as_str() > workouts[0]["updated_at"].as_str());
    assert_eq!(control(&running, "DELETE", &record(&id(1)), &Value::Null).status, 204);
    assert_eq!(control(&running, "DELETE", &record(&id(1)), &Value::Null).status, 404);
    let new = json!({ "start": "2026-11-01T10:00:00.000Z", "end": "2026-11-01T11:00:00.000Z" });
    let added = control(&running, "POST", "/records/workout", &new).json();
    let fetch =
        |id: &str| get(running.url(), &format!("/developer/v2/activity/workout/{id}"), &bearer);
    for _ in 0..2 {
        assert_eq!(fetch(&id(0)).json(), changed);
        assert_eq!(fetch(&id(1)).status, 404);
        assert_eq!(fetch(added["id"].as_str().unwrap()).json(), added);
        // Later the rest is regenerated.
        running.control().advance(600_000_000);
    }
    let window =
        "/developer/v2/activity/workout?start=2026-11-01T10:30:00Z&end=2026-11-01T10:31:00Z";
    assert_eq!(get(running.url(), window, &bearer).json()["records"][0], added);
}

#[test]
fn advancing_days_adds_records() {
    let running = start(|settings| settings.limits.clear());
    let before = running.control().records("cycle").unwrap();
    let open = before.last().unwrap();
    assert!(open["end"].is_null());
    let moved = control(&running, "POST", "/clock", &json!({ "advance_s": 2 * 86_400 }));
    assert_eq!(moved.status, 200);
    let after = running.control().records("cycle").unwrap();
    assert!(after.len() > before.len());
    let closed = after.iter().find(|cycle| cycle["id"] == open["id"]).unwrap();
    assert!(closed["end"].is_string());
    assert!(closed["updated_at"].as_str() > open["updated_at"].as_str());
    assert_eq!(after[..before.len() - 1], before[..before.len() - 1]);
}

#[test]
fn a_webhook_arrives_signed() {
    let running = start(|_| ());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hook = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        let mut some = [0_u8; 4_096];
        while !seen.ends_with(b"}") {
            let count = stream.read(&mut some).unwrap();
            seen.extend_from_slice(&some[..count]);
        }
        stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8(seen).unwrap()
    });
    let ask = json!({ "url": hook, "type": "sleep.updated", "id": "abc", "timestamp_ms": 1_700_000_000_000_i64 });
    let sent = control(&running, "POST", "/webhook", &ask);
    assert_eq!(sent.json(), json!({ "status": 202 }), "{}", sent.text());
    let seen = receiver.join().unwrap();
    assert!(seen.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("x-whoop-signature-timestamp: 1700000000000\r\n"), "{seen}");
    assert!(seen.contains("x-whoop-signature: "), "{seen}");
    assert!(seen.contains("\"type\":\"sleep.updated\""), "{seen}");
    let elsewhere = json!({ "url": "http://example.com/", "type": "sleep.updated", "id": "abc" });
    assert_eq!(control(&running, "POST", "/webhook", &elsewhere).status, 400);
}
