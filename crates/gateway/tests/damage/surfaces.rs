//! The places where bytes from outside are read, with whole inputs to begin from. What reads them says
//! by a panic that something is wrong; `fuzz/` uses the same table.

use std::path::Path;

use connectors::when::{self, Here};
use gateway::wire::{self, Message, ParamHeaders, Revision, headers, sse};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::json::{Bounds, Doc, canonical};
use policy::{
    Amount, Call, Caller, Definition, Format, LocalTime, Policy, Subject, ToolFacts, Weekday,
};

/// A place where bytes from outside are read.
pub(crate) struct Surface {
    pub(crate) name: &'static str,
    pub(crate) seeds: &'static [&'static str],
    pub(crate) read: fn(&[u8]),
}

const MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,2.5,"x",null,{"b":true}]},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"file:///x"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"\u00e9\ud83d\ude00"}]}}"#,
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"m","data":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
];
const TOOLS: &[&str] = &[
    r#"{"name":"pay","description":"Sends money. \u202e","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"},"amount":{"type":"number","minimum":0}},"required":["to"]},"annotations":{"readOnlyHint":true}}"#,
    r#"{"name":"run","title":"Run","description":"Executes any shell command","inputSchema":{"$ref":"http://x","anyOf":[{"type":"string"},{"type":["null","integer"]}]}}"#,
];
const HEADS: &[&str] = &[
    "mcp-protocol-version: 2026-07-28\nmcp-method: tools/call\nmcp-name: echo\n",
    "mcp-protocol-version: 2025-06-18\nmcp-name: =?base64?ZWNobw==?=\nmcp-param-to: a\n",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\nmcp-session-id: x\n",
];
const STREAMS: &[&str] = &[
    "id: 1\nretry: 500\ndata: {\"a\":1}\n\n: comment\n\nevent: message\ndata: x\ndata: y\n\n",
    "\u{feff}data:{}\r\n\r\ndata\r\rid\n\n",
];
const POLICIES: &[&str] = &[
    r#"{"version":"1","default":"deny","hide":["x*"],"all_tools":{"deny_if":[{"conditions":[{"path":"args.n","op":"gt","value":5}]}]},"tools":{"echo":{"limits":[{"window":"90s","max":3,"increment":"args.n","scope":"session"}],"require":[{"conditions":[{"path":"args.list[*].price","op":"lte","value":1.5}]}],"redact":["a.b[*]"],"result_bytes_max":5},"get_*":{"action":"require_approval","reason":"r"}},"tests":[{"name":"t","tool":"echo","args":{"n":9},"expect":"deny"}]}"#,
    "version: \"1\"\ndefault: deny\ntools:\n  echo:\n    deny_if:\n      - conditions: [{path: args.a, op: regex, value: \"^a+$\"}]\n  'get_*': {}\nresources:\n  \"whoop://*\": {}\n",
];
const SETTINGS: &[&str] = &[
    "listen = \"127.0.0.1:4180\"\ndurability = \"process\"\n[limits]\nbody_bytes_max = 4096\n[servers.a]\ncommand = [\"x\", \"y\"]\n[servers.b]\nurl = \"http://127.0.0.1:1/mcp\"\n[policies.p]\nfile = \"p.json\"\n[grants.g]\ntoken_sha256 = \"00\"\nservers = { a = \"p\" }\n",
];
const VALUES: &[&str] = &[
    "/home/a/../b//c/%2e%2e/d\\e",
    "http://user:pw@EXAMPLE.com:80/x?y#z",
    "https://xn--nxasmq6b/",
    "10.0.0.1",
    "::ffff:1.2.3.4",
    "2001:db8::/32",
    "100.00000000000000000001",
    "-1e400",
    "0.1",
    "9007199254740993",
    "file:///etc/passwd",
    "aaaaaaaaaaaaaaaaaaaaaaaa!",
];

const DATES: &[&str] = &[
    "2026-04-14T06:30:00.740+05:30",
    "20260410",
    "2026-W15-5",
    "2026-04-14 06:30",
    "yesterday",
    "last 30 days",
    "3 weeks ago",
    "last monday",
    "april 2026",
];

pub(crate) const SURFACES: &[Surface] = &[
    Surface { name: "messages of agents", seeds: MESSAGES, read: message },
    Surface { name: "answers of servers", seeds: MESSAGES, read: answer },
    Surface { name: "headers", seeds: HEADS, read: head },
    Surface { name: "event streams", seeds: STREAMS, read: stream },
    Surface { name: "policies in JSON", seeds: POLICIES, read: policy_json },
    Surface { name: "policies in YAML", seeds: POLICIES, read: policy_yaml },
    Surface { name: "tollgate.toml", seeds: SETTINGS, read: settings },
    Surface { name: "paths, addresses and numbers under rules", seeds: VALUES, read: conditions },
    Surface { name: "tool definitions", seeds: TOOLS, read: tool },
    Surface { name: "dates", seeds: DATES, read: date },
];

fn message(bytes: &[u8]) {
    let first = wire::read(bytes).map(|doc| meaning(&doc));
    let second = wire::read(bytes).map(|doc| meaning(&doc));
    assert_eq!(first.is_ok(), second.is_ok());
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first, second, "one meaning");
    }
}

/// What a message says, in one spelling; reading that spelling again must say the same. It may be a
/// spelling that no agent may use: a whole number beyond 64 bits has no exponent in it.
fn meaning(doc: &Doc<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    canonical(doc.root(), &mut out);
    let again = Doc::read(&out, &Bounds::ANSWER).expect("what we write can be read");
    let mut twice = Vec::new();
    canonical(again.root(), &mut twice);
    assert_eq!(out, twice);
    if let Ok(message) = Message::of(doc) {
        let _ = headers::era_of_body(&message, &[Revision::NEWEST]);
        if let Message::Request(request) = &message {
            let _ = request.named();
        }
    }
    out
}

fn answer(bytes: &[u8]) {
    for depth in [1, 3, usize::MAX] {
        if let Ok(doc) = Doc::read_shallow(bytes, &Bounds::ANSWER, depth) {
            let _ = wire::answer::trouble(doc.root());
        }
    }
}

fn head(bytes: &[u8]) {
    let mut map = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            map.append(name, value);
        }
    }
    for text in MESSAGES {
        let doc = wire::read(text.as_bytes()).unwrap();
        if let Ok(message) = Message::of(&doc) {
            let _ = headers::era_of_post(&message, &map, &[Revision::NEWEST]);
        }
    }
}

fn stream(bytes: &[u8]) {
    let mut decoder = sse::Decoder::new(4096);
    for piece in bytes.chunks(7) {
        decoder.feed(piece);
        while let Ok(Some(event)) = decoder.next_event() {
            let mut out = Vec::new();
            sse::write_event(&event, &mut out);
        }
    }
    assert!(decoder.held_bytes() <= 16 * 1024);
}

fn policy_json(bytes: &[u8]) {
    load(bytes, Format::Json);
}

fn policy_yaml(bytes: &[u8]) {
    load(bytes, Format::Yaml);
}

fn load(bytes: &[u8], format: Format) {
    let text = String::from_utf8_lossy(bytes);
    match Policy::load(&text, format) {
        Ok(policy) => judge(&policy, r#"{"n":3,"a":"aaa","list":[{"price":1}]}"#),
        Err(error) => assert!(error.problems.iter().all(|problem| problem.line > 0)),
    }
}

fn judge(policy: &Policy, args: &str) {
    let doc = Doc::read(args.as_bytes(), &Bounds::ANSWER).unwrap();
    let call = Call {
        subject: Subject::Tool("echo"),
        args: Some(doc.root()),
        params: None,
        caller: Caller { grant: "g", session: None, client: None },
        tool: ToolFacts { definition: Definition::Unchanged, ..ToolFacts::default() },
        time: LocalTime { hour: 1, weekday: Weekday::Monday },
    };
    let (verdict, _) = policy.explain(&call);
    assert_eq!(verdict.rule(), policy.decide(&call).rule());
}

fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = store::settings::Settings::load(&text, &|_| None, &|_: &Path| Ok(String::new()));
}

fn conditions(bytes: &[u8]) {
    const RULES: &str = r#"{"version":"1","default":"deny","tools":{"echo":{"deny_if":[
        {"conditions":[{"path":"args.v","op":"path_under","value":"/home/a"}]},
        {"conditions":[{"path":"args.v","op":"url_host_in","value":["example.com"]}]},
        {"conditions":[{"path":"args.v","op":"cidr_in","value":["10.0.0.0/8","2001:db8::/32"]}]},
        {"conditions":[{"path":"args.v","op":"glob","value":"a*b?c"}]},
        {"conditions":[{"path":"args.v","op":"regex","value":"(a|aa)+$"}]},
        {"conditions":[{"path":"args.v","op":"starts_with","value":"x"}]},
        {"conditions":[{"path":"args.v","op":"gt","value":5}]}]}}}"#;
    thread_local!(static POLICY: Policy = Policy::load(RULES, Format::Json).unwrap());
    let text = String::from_utf8_lossy(bytes);
    let args = serde_json::json!({ "v": text }).to_string();
    POLICY.with(|policy| judge(policy, &args));
    let _ = Amount::parse(&text);
    if Doc::read(text.as_bytes(), &Bounds::ANSWER).is_ok_and(|doc| doc.root().as_number().is_some())
    {
        let _ = policy::compare_numbers(text.trim(), "100.00000000000000000001");
        let args = format!("{{\"v\":{text}}}");
        POLICY.with(|policy| judge(policy, &args));
    }
}

fn tool(bytes: &[u8]) {
    let Ok(doc) = Doc::read(bytes, &Bounds::ANSWER) else { return };
    let tool = doc.root();
    let _ = catalog::pins::fingerprint(tool);
    let _ = catalog::pins::oddities(tool);
    let _ = catalog::classify::classify("server", tool);
    let _ = catalog::pins::difference(TOOLS[0], &catalog::pins::canonical_definition(tool));
    if let Some(schema) = tool.get("inputSchema") {
        let _ = ParamHeaders::of_schema(schema);
    }
}

fn date(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (now_us, offset_s) in [(1_794_000_000_000_000, 19_800), (i64::MAX, -43_200), (0, 50_400)] {
        let here = Here { now_us, offset_s };
        let (from, to) = (when::start_us(&text, here), when::end_us(&text, here));
        if let (Ok(from), Ok(to)) = (from, to) {
            assert!(from <= to, "a stretch does not end before it begins");
        }
        if let Some(span) = when::day(&text, here).and_then(|day| when::day_span(day, offset_s)) {
            assert!(span.from_us < span.to_us);
            let _ = when::local_text(span.from_us, offset_s);
        }
    }
    if let Some(us) = when::instant_us(&text) {
        let _ = (when::utc_micros(us), when::utc_millis(us), when::utc_seconds(us));
    }
}
