//! Hostile messages, requests and connections: refused with a reason, recorded, and the gate keeps
//! running. The tables are `bodies.txt` and `requests.txt`.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Client, exchange};
use crate::recorder::Recorder;
use crate::running::with_child;
use crate::test_gate::{Gate, number, until};

const BODIES: &str = include_str!("bodies.txt");
const REQUESTS: &str = include_str!("requests.txt");
const WAIT: Duration = Duration::from_secs(10);

pub(crate) fn table(text: &str, columns: usize) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(move |line| line.splitn(columns, " | ").collect())
}

/// `%XX` is a byte, `%(N:text)` is text N times, in which `%XX` is a byte, too.
pub(crate) fn expand(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.extend_from_slice(before.as_bytes());
        if let Some(inside) = after.strip_prefix('(') {
            let (number, tail) = inside.split_once(':').unwrap();
            let (part, tail) = tail.split_once(')').unwrap();
            out.extend(expand(part).repeat(number.parse().unwrap()));
            rest = tail;
        } else {
            let (digits, tail) = after.split_at(2);
            out.push(u8::from_str_radix(digits, 16).unwrap());
            rest = tail;
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn audit_id(answer: &Value) -> Option<u64> {
    let in_result = &answer["result"]["_meta"]["tollgate/denial"]["audit_id"];
    in_result.as_u64().or_else(|| answer["error"]["data"]["audit_id"].as_u64())
}

/// The protocol defines the error data of an unsupported version.
fn names_its_row(answer: &Value) -> bool {
    audit_id(answer).is_some() || answer["error"]["code"] == -32022
}

fn seqs(gate: &Gate) -> HashSet<u64> {
    gate.decisions().iter().filter_map(|row| row["seq"].as_u64()).collect()
}

/// Requests that have a row: repeated ones without a grant share one.
fn counted(gate: &Gate) -> usize {
    let count = |row: &Value| row["count"].as_u64().unwrap_or(1);
    usize::try_from(gate.decisions().iter().map(count).sum::<u64>()).unwrap()
}

#[test]
fn p22_ambiguous_messages_are_refused_over_http() {
    let (gate, recorder, client) = Gate::with_recorder();
    let (before, seen) = (seqs(&gate).len(), recorder.calls().len());
    let (mut sent, mut ids) = (0, Vec::new());
    for case in table(BODIES, 2) {
        let answer = client.post(&expand(case[1]));
        assert!(answer.refused(), "{}: {} {}", case[0], answer.status, answer.text());
        assert!(answer.status < 500, "{}: {}", case[0], answer.status);
        assert!(answer.took < Duration::from_secs(5), "{}: {:?}", case[0], answer.took);
        assert!(names_its_row(&answer.json()), "{}: {}", case[0], answer.text());
        sent += 1;
        ids.extend(audit_id(&answer.json()));
        assert_eq!(recorder.calls().len(), seen, "{}: passed on", case[0]);
    }
    let rows = seqs(&gate);
    println!("P22: {sent} hostile messages over HTTP, {} rows, 0 passed on", rows.len() - before);
    assert_eq!(rows.len() - before, sent);
    assert!(ids.iter().all(|id| rows.contains(id)));
    assert!(client.call("echo", &json!({})).passed(), "the gate keeps running");
    assert!(!gate.log().contains("panicked"), "{}", gate.log());
}

fn filled(raw: &str, client: &Client) -> Vec<u8> {
    const CALL: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#;
    const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}"#;
    let text = raw
        .replace('~', "\r\n")
        .replace("{host}", &format!("127.0.0.1:{}", client.port))
        .replace("{token}", &client.token)
        .replace("{mlen}", &MODERN.len().to_string())
        .replace("{len}", &CALL.len().to_string())
        .replace("{hexlen}", &format!("{:x}", CALL.len()))
        .replace("{modern}", MODERN)
        .replace("{call}", CALL);
    expand(&text)
}

#[test]
fn p22_p34_p35_hostile_requests_are_refused() {
    let (mut gate, recorder, client) = Gate::with_recorder();
    let (before, seen) = (counted(&gate), recorder.calls().len());
    let (mut must, mut elsewhere, mut names) = (0, 0, 0);
    for case in table(REQUESTS, 3) {
        let raw = filled(case[2], &client);
        // After a request that made hyper read the connection.
        let later = [&filled("GET /x HTTP/1.1~Host: {host}~~", &client)[..], &raw].concat();
        for (raw, place) in [(raw, 0), (later, 1)] {
            let all = exchange(gate.port, &raw, WAIT).nth(place);
            let answer = all.unwrap_or_else(|| panic!("{}: no answer {place}", case[0]));
            let status = answer.status.to_string();
            assert!(
                case[1].split(',').any(|one| one == status),
                "{}: {status} {}",
                case[0],
                answer.text()
            );
            assert_eq!(recorder.calls().len(), seen, "{}: passed on", case[0]);
            let says_why = answer.json()["error"]["message"].is_string();
            assert!(says_why || case[2].starts_with("HEAD"), "{}: {}", case[0], answer.head);
            must += 1 + place;
        }
        elsewhere += usize::from(case[0].starts_with("agent token"));
        names += usize::from(case[0].contains("host") || case[0].contains("origin"));
    }
    let modern = "POST /mcp/rec HTTP/1.1~Host: {host}~Authorization: Bearer {token}~Mcp-Protocol-Version: 2026-07-28~Mcp-Method: tools/call~Mcp-Name: echo~Content-Type: application/json~Connection: close~Content-Length: {mlen}~~{modern}";
    let good = exchange(gate.port, &filled(modern, &client), WAIT);
    assert!(good.passed(), "the same with headers that agree passes: {}", good.text());
    // Requests without a grant share rows, which are all written when the gate stops.
    gate.stop();
    let rows = counted(&gate) - before - 1;
    println!("P22: {must} hostile requests, {rows} in rows, 0 passed on");
    println!("P34: {names} cases of Host and Origin refused");
    println!("P35: an agent's token on {elsewhere} other addresses: 401 or 404 each");
    assert_eq!(rows, must);
}

/// Walks the table of addresses, so that one added later is tried, too.
#[test]
fn p35_an_agents_token_opens_only_the_addresses_of_mcp_and_the_registry_view() {
    let (gate, recorder, client) = Gate::with_recorder();
    let (mut tried, seen) = (0, recorder.calls().len());
    let is_open =
        |address: &str| address.starts_with("/mcp") || address.starts_with("/v0.1/servers");
    for address in gateway::addresses().filter(|address| !is_open(address)) {
        let names =
            if address.ends_with('/') { &["", "rec", "whoop", "../mcp/rec"][..] } else { &[""] };
        for (name, method) in names.iter().flat_map(|n| METHODS.map(|method| (n, method))) {
            let line = format!("{method} {address}{name} HTTP/1.1~Host: {{host}}~");
            let body =
                "Content-Type: application/json~Connection: close~Content-Length: {len}~~{call}";
            let ask = |token: &str| {
                exchange(gate.port, &filled(&format!("{line}{token}{body}"), &client), WAIT)
            };
            let (with, without) = (ask("Authorization: Bearer {token}~"), ask(""));
            assert_eq!(with.status, without.status, "{line}");
            assert_eq!(with.header("etag"), without.header("etag"), "{line}");
            let public = matches!(address, "/schema/policy.json" | "/livez" | "/readyz");
            let open = public && matches!(method, "GET" | "HEAD");
            let expected = if open { &[200][..] } else { &[401, 403, 404, 405] };
            assert!(expected.contains(&with.status), "{line} {}", with.status);
            tried += 1;
        }
    }
    assert_eq!(recorder.calls().len(), seen);
    println!("P35: {tried} ways to the other addresses of the table: a token opens none of them");
}

const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "PUT", "DELETE"];

/// The schema of policies holds no data of the owner, so it is public.
#[test]
fn p34_p35_only_the_schema_of_policies_is_public() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let ask = |line: &str, more: &str| {
        let raw = format!("{line} HTTP/1.1~Host: {{host}}~{more}Connection: close~~");
        exchange(gate.port, &filled(&raw, &client), WAIT)
    };
    let schema = ask("GET /schema/policy.json", "");
    assert_eq!(schema.status, 200, "{}", schema.text());
    assert_eq!(schema.text(), gate.run(&["policy", "schema"]), "what the command prints");
    assert_eq!(schema.header("content-type").as_deref(), Some("application/schema+json"));
    assert_eq!(schema.header("cache-control").as_deref(), Some("no-cache"));
    let tag = schema.header("etag").unwrap();
    let head = ask("HEAD /schema/policy.json", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), schema.header("content-length"));
    for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let same = ask("GET /schema/policy.json", &format!("If-None-Match: {known}~"));
        assert_eq!((same.status, same.body.len()), (304, 0), "{known}");
    }
    assert_eq!(ask("GET /schema/policy.json", "If-None-Match: \"other\"~").status, 200);
    let refused = [
        ("POST /schema/policy.json", "", 405),
        ("GET /schema/policy.json", "Origin: https://evil.example~", 403),
        ("GET http://evil.example/schema/policy.json", "", 403),
        ("GET /schema/", "", 404),
        ("GET /schema/policy.json/..", "", 404),
    ];
    for (line, more, status) in refused {
        assert_eq!(ask(line, more).status, status, "{line} {more}");
    }
    println!("P35: the schema of policies is public; it is the same with and without a token");
    let with = ask("GET /schema/policy.json", "Authorization: Bearer {token}~");
    assert_eq!(with.body, schema.body);
}

/// A valid token is named in the row, although the request was refused before any policy.
#[test]
fn p03_the_row_of_a_refused_request_names_its_grant() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let elsewhere = gate.client(&client.token, "/mcp/other");
    let gone = Client { headers: "Mcp-Session-Id: gone\r\n".to_owned(), ..client.clone() };
    let stranger = gate.client("tg_unknown", "/mcp/rec");
    for (client, status, grant) in
        [(&elsewhere, 404, "agent"), (&gone, 404, "agent"), (&stranger, 401, "")]
    {
        let answer = client.call("echo", &json!({}));
        assert_eq!(answer.status, status, "{}", answer.text());
        let seq = audit_id(&answer.json()).unwrap();
        let row = gate.decisions().into_iter().find(|row| row["seq"] == seq).unwrap();
        assert_eq!(row["grant"].as_str().unwrap_or_default(), grant, "{row}");
    }
}

/// In HTTP, chunks take precedence over a length that follows them, but a proxy may read it differently:
/// the bytes after the chunks could be a smuggled request.
#[test]
fn p22_a_length_with_chunks_is_refused_and_nothing_after_it_is_read() {
    let (gate, recorder, client) = Gate::with_recorder();
    let seen = recorder.calls().len();
    let head = "POST /mcp/rec HTTP/1.1~Host: {host}~Authorization: Bearer {token}~Content-Type: application/json~";
    let lengths = [
        "Transfer-Encoding: chunked~Content-Length: 5",
        "Content-Length: 5~Transfer-Encoding: chunked",
    ];
    for both in lengths {
        let twice =
            format!("{head}{both}~~{{hexlen}}~{{call}}~0~~{head}Content-Length: {{len}}~~{{call}}");
        let answer = exchange(gate.port, &filled(&twice, &client), WAIT);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.header("connection").as_deref(), Some("close"), "{}", answer.text());
        assert_eq!(recorder.calls().len(), seen, "nothing was forwarded");
        // The same on a connection with an earlier request.
        let later = format!("GET /x HTTP/1.1~Host: {{host}}~~{twice}");
        let answer = exchange(gate.port, &filled(&later, &client), WAIT);
        assert_eq!(answer.text().matches("HTTP/1.1").count(), 1, "{}", answer.text());
        assert_eq!(recorder.calls().len(), seen, "nothing was forwarded");
    }
}

#[test]
fn p34_a_public_address_needs_tls() {
    let gate = Gate::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = gate.cli(&["up", "--listen", address]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains("TLS"), "{address}: {words}");
    }
    println!("P34: 2 public addresses without TLS refused");
}

#[test]
fn p22_ambiguous_messages_are_refused_over_stdio() {
    let gate = Gate::new();
    let (_token, notes) = with_child(&gate);
    let mut child = gate
        .command()
        .args(["stdio", "child", "--grant", "agent"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |line: &[u8]| -> Value {
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_default()
    };
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } },
    });
    assert!(ask(hello.to_string().as_bytes()).get("result").is_some());
    let before = seqs(&gate).len();
    let mut sent = 0;
    let mut long = expand("%(4300000: )");
    long.push(b'x');
    for case in table(BODIES, 2).map(|case| (case[0], expand(case[1]))).chain([("too long", long)])
    {
        let answer = ask(&case.1);
        assert!(answer.get("error").is_some(), "{}: {answer}", case.0);
        assert!(names_its_row(&answer), "{}: {answer}", case.0);
        sent += 1;
    }
    assert!(!notes.with_extension("calls").exists(), "nothing was forwarded");
    let good = ask(crate::http_client::call("echo", &json!({})).to_string().as_bytes());
    assert!(good.get("result").is_some(), "the gate keeps running: {good}");
    drop(input);
    assert!(child.wait().unwrap().success());
    let rows = seqs(&gate).len() - before - 1;
    let passed = fs::read_to_string(notes.with_extension("calls")).unwrap().lines().count();
    println!("P22: {sent} hostile lines over stdio, {rows} rows, {} forwarded", passed - 1);
    assert_eq!((rows, passed), (sent, 1));
}

/// A client that is still writing when it is refused must not get a reset: many clients then never read
/// the response.
#[test]
fn p22_a_client_whose_message_is_refused_early_gets_the_reason() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let stranger = gate.client("tg_nobody", "/mcp/rec");
    for (client, bytes, status) in [(&client, 8 << 20, "413"), (&stranger, 3 << 20, "401")] {
        let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let request = client.request_that("keep-alive", &vec![b' '; bytes], "");
        stream.write_all(&request).expect("the gate takes what it will not read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    println!("P22: 2 large messages refused before their end, and the client got the reason");
}

/// How many threads open hostile connections.
const OPENERS: usize = 20;

/// How a connection that begins validly is slow.
#[derive(Clone, Copy, Debug)]
enum Slow {
    HalfAHead,
    Silence,
    /// This much of a message that has `of` bytes.
    PartOf {
        sent: usize,
        of: usize,
    },
    /// The same in chunks, without a total length.
    InChunks {
        sent: usize,
    },
    Brackets,
    HalfAChunk,
}

const SLOW: [Slow; 6] = [
    Slow::HalfAHead,
    Slow::Silence,
    Slow::PartOf { sent: 3_900_000, of: 4_000_000 },
    Slow::PartOf { sent: 1_000_000, of: 16 << 20 },
    Slow::Brackets,
    Slow::HalfAChunk,
];

fn slow(client: &Client, how: Slow) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let head = client.request(b"", "");
    let with = |header: &str| {
        let head = String::from_utf8(head.clone()).unwrap();
        head.replace("Content-Length: 0", header).into_bytes()
    };
    let bytes = match how {
        Slow::HalfAHead => head[..40].to_vec(),
        Slow::Silence => Vec::new(),
        Slow::PartOf { sent, of } => {
            let mut bytes = with(&format!("Content-Length: {of}"));
            bytes.extend(vec![b' '; sent]);
            bytes
        }
        Slow::InChunks { sent } => {
            let chunk = format!("{:x}\r\n{}\r\n", 1000, " ".repeat(1000));
            let head = with("Transfer-Encoding: chunked");
            [head, chunk.repeat(sent / 1000).into_bytes()].concat()
        }
        Slow::Brackets => client.request(&vec![b'['; 1_000_000], ""),
        Slow::HalfAChunk => [with("Transfer-Encoding: chunked"), b"ff".to_vec()].concat(),
    };
    // A client that is refused early may be closed for writing.
    let _ = stream.write_all(&bytes);
    stream
}

/// Opens many slow connections concurrently: with some it takes a while until the gate stops reading. They
/// stay open as long as the returned streams.
fn open_slow(gate: &Gate, how: impl Fn(usize) -> Slow + Copy + Send) -> Vec<TcpStream> {
    let hostile = &gate.client(&gate.grant("hostile", &["rec=rules"]), "/mcp/rec");
    let clients = number("TOLLGATE_CLIENTS", 240);
    std::thread::scope(|scope| {
        let some = |first: usize| {
            move || (first..clients).step_by(OPENERS).map(|n| slow(hostile, how(n))).collect()
        };
        let openers: Vec<_> = (0..OPENERS).map(|first| scope.spawn(some(first))).collect();
        openers.into_iter().flat_map(|one| -> Vec<TcpStream> { one.join().unwrap() }).collect()
    })
}

/// The slowest of several normal calls.
fn slowest(client: &Client) -> Duration {
    let took = (0..20).map(|_| {
        let answer = client.call("echo", &json!({}));
        assert!(answer.passed(), "{}", answer.text());
        answer.took
    });
    took.max().unwrap()
}

/// Otherwise connections could use up the files that the store needs, and all calls would fail.
#[test]
fn p23_connections_leave_open_files_for_the_calls_of_others() {
    const FILES: u64 = 128;
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["echo"]);
    let token = gate.set_up(&recorder);
    gate.up_within(FILES);
    let mut client = gate.client(&token, "/mcp/rec").line();
    assert!(client.call("echo", &json!({})).passed());
    let idle: Vec<_> = (0..2 * FILES)
        .map(|_| TcpStream::connect(("127.0.0.1", gate.port)).expect("a place in the queue"))
        .collect();
    for _ in 0..10 {
        let answer = client.call("echo", &json!({}));
        assert!(answer.passed(), "{}", answer.text());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(gate.log().contains("connections at once, not 4096"), "{}", gate.log());
    drop(idle);
    println!("P23: {} connections with {FILES} open files allowed: calls pass", 2 * FILES);
}

/// A store that cannot be read because of the limit on open files is not damaged. Only Linux changes the limits of
/// another process.
#[cfg(target_os = "linux")]
#[test]
fn p02_too_many_open_files_are_not_a_damaged_store() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let (gate, _recorder, client) = Gate::with_recorder();
    let mut kept = client.line();
    assert!(kept.call("echo", &json!({})).passed());
    let pid = Pid::from_raw(i32::try_from(gate.pid()).unwrap());
    let before = getrlimit(Resource::Nofile);
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(3), maximum: before.maximum }).unwrap();
    until("calls are refused", WAIT, || !kept.call("echo", &json!({})).passed());
    prlimit(pid, Resource::Nofile, before).unwrap();
    until("calls pass again", WAIT, || kept.call("echo", &json!({})).passed());
    assert!(gate.log().contains("Too many open files"), "{}", gate.log());
    assert!(!gate.log().contains("damaged"), "{}", gate.log());
    gate.verify();
}

#[test]
fn p23_slow_and_large_clients_use_bounded_memory_and_block_no_others() {
    let (gate, _recorder, client) = Gate::with_recorder();
    let open = open_slow(&gate, |n| SLOW[n % SLOW.len()]);
    let (slowest, memory) = (slowest(&client), gate.rss_mib());
    println!(
        "P23: {} slow and large clients: a normal call took {slowest:.0?} at most, {memory} MiB",
        open.len()
    );
    assert!(slowest < Duration::from_secs(2));
    assert!(memory < 256, "{memory} MiB");
}

/// Partial messages of any size, because the read buffer and the stored bytes grow in different steps.
#[test]
fn p23_partial_messages_of_any_size_use_bounded_memory() {
    for sent in [15_000, 60_000, 150_000, 200_000, 400_000, 1_000_000] {
        let (gate, _recorder, client) = Gate::with_recorder();
        let of = 4_000_000;
        let in_chunks = Slow::InChunks { sent };
        let open =
            open_slow(&gate, |n| if n % 2 == 0 { Slow::PartOf { sent, of } } else { in_chunks });
        let (slowest, memory) = (slowest(&client), gate.rss_mib());
        println!(
            "P23: {} clients that stop after {sent} bytes of a message: a normal call took {slowest:.0?} at most, {memory} MiB",
            open.len()
        );
        assert!(slowest < Duration::from_secs(2));
        assert!(memory < 256, "{memory} MiB");
    }
}
