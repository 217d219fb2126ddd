//! The audit log: every forwarded call, every request once, and no secret.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http_client::{call, exchange};
use crate::recorder::{Manner, Recorder};
use crate::test_gate::{Gate, TOOLS, any_below, number, rounds, until};

const WORKERS: usize = 4;
/// Clients that call while the gate is killed.
const CALLERS: usize = 8;
/// A separate tool for each call, so that rows and calls can be compared one by one.
const NAMES: usize = 1_000;

fn counted(names: impl Iterator<Item = String>) -> HashMap<String, usize> {
    names.fold(HashMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}

/// Calls from several threads until the gate is killed under them.
fn load_and_kill(gate: &mut Gate, token: &str, next: &AtomicUsize) {
    let client = gate.client(token, "/mcp/rec");
    let over = AtomicBool::new(false);
    let begun = next.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                // One connection, so that calls come close enough together to share a write.
                let mut line = client.line();
                while !over.load(Ordering::Relaxed) {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    let name = match turn % 10 {
                        0 => "limited".to_owned(),
                        1 => "secret".to_owned(),
                        _ => format!("n{}", turn % NAMES),
                    };
                    // The gate may be gone by now; that is the point.
                    let called = std::panic::AssertUnwindSafe(|| line.call(&name, &json!({})));
                    let _ = std::panic::catch_unwind(called);
                }
            });
        }
        // Calls are counted and not time, so that the load is the same on a busy machine.
        let calls = begun + 20 + usize::try_from(any_below(200)).unwrap();
        while next.load(Ordering::Relaxed) < calls {
            thread::sleep(Duration::from_millis(1));
        }
        gate.kill();
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn p01_p04_every_call_that_left_has_its_row_after_kills() {
    let mut gate = Gate::new();
    let names: Vec<String> = (0..NAMES).map(|number| format!("n{number}")).collect();
    let tools: Vec<&str> = TOOLS.iter().copied().chain(names.iter().map(String::as_str)).collect();
    let recorder = Recorder::new(&tools);
    let token = gate.set_up(&recorder);
    let (kills, next) = (number("TOLLGATE_KILLS", 5), AtomicUsize::new(0));
    for _ in 0..kills {
        gate.up();
        load_and_kill(&mut gate, &token, &next);
    }
    gate.up();
    assert!(gate.client(&token, "/mcp/rec").call("echo", &json!({})).passed());
    gate.stop();

    let mut rows = gate.decisions();
    rows.retain(|row| row["decision"] == "admitted");
    let on_record = counted(rows.iter().map(|row| row["tool"].as_str().unwrap().to_owned()));
    let seen = counted(recorder.calls().into_iter());
    let missing = seen.iter().filter(|(name, count)| on_record.get(*name) < Some(*count)).count();
    let open = rows.iter().filter(|row| row["outcome"].is_null()).count();
    let unknown = rows.iter().filter(|row| row["outcome"] == "unknown").count();
    let calls = recorder.calls().len();
    println!("P01: {kills} kills, {calls} calls seen upstream, {missing} without a row");
    println!("P04: {} admitted, {open} left open, {unknown} unknown", rows.len());
    println!("P05: limit 3 across {kills} kills: {} upstream", recorder.count("limited"));
    assert!(calls > kills, "the load was real");
    assert_eq!(missing, 0);
    assert_eq!(open, 0);
    assert!(unknown <= kills * CALLERS, "only what was in flight is unknown");
    assert!(recorder.count("limited") <= 3);
    gate.verify();
}

/// A server that never lists its tools delays a call before it is judged.
#[test]
fn p03_a_client_that_hangs_up_before_it_was_judged_leaves_a_row() {
    let (gate, _recorder, _) = Gate::with_recorder();
    gate.run(&["server", "add", "hang", "--no-connect", "--", "sleep", "1000"]);
    let client = gate.client(&gate.grant("left", &["hang=rules"]), "/mcp/hang");
    let request = client.request(call("echo", &json!({})).to_string().as_bytes(), "");
    until("the row", Duration::from_secs(20), || {
        let mut stream = TcpStream::connect(("127.0.0.1", gate.port)).unwrap();
        stream.write_all(&request).unwrap();
        drop(stream);
        thread::sleep(Duration::from_millis(50));
        let hung_up = |row: &Value| row["code"] == "hung_up" && row["tool"] == "echo";
        gate.decisions().iter().any(hung_up)
    });
}

/// The era of a server is known after the first contact, which is not a separate request.
#[test]
fn p03_a_request_that_a_newer_server_answers_leaves_one_row() {
    let (mut gate, recorder) = (Gate::new(), Recorder::new(TOOLS));
    recorder.behave(Manner::Newer);
    let token = gate.set_up(&recorder);
    gate.up();
    for (sent, method) in
        ["server/discover", "subscriptions/listen", "server/discover"].iter().enumerate()
    {
        let mut client = gate.client(&token, "/mcp/rec");
        client.headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        client.send(&json!({
            "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta },
        }));
        let rows = gate.rows();
        let of_agent = rows.iter().filter(|row| row["kind"] == "call" && row["grant"] == "agent");
        assert_eq!(of_agent.count(), sent + 1, "{method}: {rows:?}");
    }
}

#[test]
fn p03_each_request_leaves_exactly_one_decision() {
    let (mut gate, recorder, client) = Gate::with_recorder();
    let before = gate.decisions().len();
    let stranger = gate.client("tg_nobody", "/mcp/rec");
    let each = 10 * rounds(4);
    let ids = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let (mut known, mut unknown) = (client.line(), stranger.line());
                for _ in 0..each {
                    let answers = [
                        known.call("secret", &json!({})),
                        known.post(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2}"),
                        unknown.call("echo", &json!({})),
                        known.post_as("text/plain", b"{}"),
                    ];
                    let mut ids = ids.lock().unwrap();
                    for (number, answer) in answers.iter().enumerate() {
                        let id = answer.denial()["audit_id"].as_u64();
                        let id = id.unwrap_or_else(|| panic!("no audit_id in {}", answer.text()));
                        ids.push((number == 2, id));
                    }
                    drop(ids);
                    assert!(known.call("echo", &json!({})).passed());
                }
            });
        }
    });
    // A stop writes the counts of the last second.
    gate.stop();
    let decisions = gate.decisions();
    let sent = WORKERS * each * 5;
    let is_stranger = |row: &&Value| row["decision"] == "unauthenticated";
    let of_strangers: Vec<&Value> = decisions.iter().filter(is_stranger).collect();
    let counted: u64 = of_strangers.iter().map(|row| row["count"].as_u64().unwrap_or(1)).sum();
    let rows = decisions.len() - before - of_strangers.len();
    let known: HashSet<u64> = decisions.iter().filter_map(|row| row["seq"].as_u64()).collect();
    let ids = ids.into_inner().unwrap();
    let told: Vec<u64> = ids.iter().filter(|(stranger, _)| !stranger).map(|(_, id)| *id).collect();
    let distinct: HashSet<u64> = told.iter().copied().collect();
    println!(
        "P03: {sent} mixed requests, {rows} decision rows with a grant, {} doubled ids, {counted} requests without one in {} rows",
        told.len() - distinct.len(),
        of_strangers.len()
    );
    assert_eq!(rows, WORKERS * each * 4);
    assert_eq!(counted, u64::try_from(WORKERS * each).unwrap(), "all are counted");
    assert_eq!(distinct.len(), told.len(), "no two answers name one row");
    assert!(ids.iter().all(|(_, id)| known.contains(id)), "every id that was told has its row");
    assert_eq!(recorder.count("echo"), gate.admitted("echo"));
    gate.verify();
}

/// Without a token, as a web page could do it: with a foreign `Host`, and with bytes that are not HTTP.
#[test]
fn p03_requests_without_a_grant_share_rows_and_none_is_lost() {
    const EACH: u64 = 400;
    let (mut gate, _recorder, client) = Gate::with_recorder();
    let size = |gate: &Gate| fs::metadata(gate.home.join("audit/00000001.log")).unwrap().len();
    let before = size(&gate);
    let requests = [
        (
            "401",
            "POST /mcp/rec HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        ),
        ("403", "GET /mcp HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
        ("404", "GET /nothing HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        ("400", "\u{1}\u{2}\u{3}\r\n\r\n"),
    ];
    let host = format!("127.0.0.1:{}", gate.port);
    let began = Instant::now();
    thread::scope(|scope| {
        for (status, request) in requests {
            let request = request.replace("{host}", &host);
            let port = gate.port;
            scope.spawn(move || {
                for _ in 0..EACH {
                    let answer = exchange(port, request.as_bytes(), Duration::from_secs(20));
                    assert_eq!(answer.status.to_string(), status, "{request:?}");
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs() + 2;
    assert!(client.call("echo", &json!({})).passed());
    gate.stop();
    let rows = gate.decisions();
    for (status, _) in requests {
        let of_status: Vec<&Value> = rows.iter().filter(|row| row["code"] == status).collect();
        let counted: u64 = of_status.iter().map(|row| row["count"].as_u64().unwrap_or(1)).sum();
        assert_eq!(counted, EACH, "{status}: {of_status:?}");
        // Two in the first second, one in each after it, and one at the stop.
        let rows = u64::try_from(of_status.len()).unwrap();
        assert!(rows <= 2 + 2 * seconds, "{status}: {rows} rows in {seconds} s");
    }
    let grown = size(&gate) - before;
    assert!(grown < 4_096 * (seconds + 4) * 4, "{grown} bytes in {seconds} s");
    gate.verify();
}

/// Many clients keep a connection for longer than the gate does.
#[test]
fn an_idle_connection_is_not_a_refusal() {
    let (mut gate, _recorder, _) = Gate::with_recorder();
    let token = gate.grant("keeper", &["rec=rules"]);
    gate.settings("[limits]\nheader_wait_ms_max = 300\n");
    gate.stop();
    gate.up();
    let asked = call("echo", &json!({})).to_string();
    let client = gate.client(&token, "/mcp/rec");
    let [request, odd] = ["", "TE: trailers\r\n"]
        .map(|more| client.request_that("keep-alive", asked.as_bytes(), more));
    let half = request.get(..request.len() / 4).unwrap();
    // Each waits until the gate closes the connection: without a request, after a response, and after half a
    // request.
    let answers = [&b""[..], &request, &odd, half]
        .map(|sent| exchange(gate.port, sent, Duration::from_secs(30)).status);
    assert_eq!(answers, [0, 200, 200, 408]);
    gate.stop();
    let decisions = gate.decisions();
    let codes: Vec<_> = decisions
        .iter()
        .filter(|row| row["method"] == "(http)")
        .map(|row| row["code"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(codes, ["408"], "only what began is refused");
}

#[test]
fn p08_no_secret_is_in_any_file_log_or_export() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(TOOLS);
    let token = gate.set_up(&recorder);
    let secret_file = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret_file.path(), "HEADER-SECRET-1").unwrap();
    let header = format!("X-Api-Key=@{}", secret_file.path().display());
    gate.run(&["server", "add", "keyed", "--url", &recorder.url(), "--header", &header]);
    let second = gate.grant("keyed", &["keyed=rules"]);
    gate.up();
    let words =
        ["HEADER-SECRET-1", "MALFORMED-SECRET-1", "COOKIE-SECRET-1", "SENT-HEADER-SECRET-1"];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    words.extend([token.clone(), second.clone()]);
    let planted: Vec<String> =
        (1..=14).map(|number| format!("ARGUMENT-SECRET-{number}-")).collect();
    words.extend(planted.iter().cloned());

    let client = gate.client(&token, "/mcp/rec");
    let mut keyed = gate.client(&second, "/mcp/keyed");
    keyed.headers =
        "Cookie: id=COOKIE-SECRET-1\r\nX-Other-Key: SENT-HEADER-SECRET-1\r\n".to_owned();
    for (number, word) in planted.iter().enumerate() {
        // As a value, deep inside, and as a name: of a tool that is allowed, denied, asked for, limited.
        let tool = ["echo", "secret", "pay", "limited", "nowhere"][number % 5];
        let arguments = match number % 3 {
            0 => json!({ "nonce": word }),
            1 => json!({ "list": [{ "deep": word }] }),
            _ => json!({ "nonce": format!("{word}\u{0}{word}") }),
        };
        client.call(tool, &arguments);
    }
    let arguments = json!({ "nonce": planted[0] });
    assert!(keyed.call("echo", &arguments).passed());
    client.post(b"{\"MALFORMED-SECRET-1\":\"MALFORMED-SECRET-1\",\"MALFORMED-SECRET-1\":1}");
    gate.client("tg_MALFORMED-SECRET-1", "/mcp/rec").call("echo", &arguments);
    let heads = recorder.heads();
    assert!(heads.contains("HEADER-SECRET-1"), "the server gets its own secret");
    assert!(!heads.contains("COOKIE-SECRET-1") && !heads.contains(&token), "and no other");

    let mut exports = String::new();
    for format in ["jsonl", "csv", "chain"] {
        exports.push_str(&gate.run(&["audit", "export", "--format", format]));
    }
    exports.push_str(&gate.run(&["audit", "tail"]));
    exports.push_str(&gate.run(&["status"]));
    let told = words.iter().filter(|word| exports.contains(*word)).count();
    let running = gate.files_with(&words);
    gate.stop();
    let stopped = gate.files_with(&words);
    println!(
        "P08: {} planted secrets, {} files and {told} exports hold one",
        words.len(),
        running.len() + stopped.len()
    );
    assert_eq!(running, stopped);
    assert!(running.is_empty(), "{running:?}");
    assert_eq!(told, 0);
}
