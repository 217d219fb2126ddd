//! Damage of every kind to every kind of input that comes from outside: no panic, no hang, and what is
//! read twice is read alike. `TOLLGATE_FUZZ_SECONDS` sets how long; there is no guidance by coverage.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where it fails, and its figures are for people"
)]

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use gateway::wire::{self, Message, ParamHeaders, Revision, headers, sse};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::json::{Bounds, Doc, canonical};
use policy::{
    Amount, Call, Caller, Definition, Format, LocalTime, Policy, Subject, ToolFacts, Weekday,
};

/// No input of the size made here may take longer on a core of its own.
const INPUT_CPU_MAX: Duration = Duration::from_secs(2);
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// A place where bytes from outside are read.
struct Surface {
    name: &'static str,
    seeds: &'static [&'static str],
    read: fn(&[u8]),
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

const SURFACES: &[Surface] = &[
    Surface { name: "messages of agents", seeds: MESSAGES, read: message },
    Surface { name: "answers of servers", seeds: MESSAGES, read: answer },
    Surface { name: "headers", seeds: HEADS, read: head },
    Surface { name: "event streams", seeds: STREAMS, read: stream },
    Surface { name: "policies in JSON", seeds: POLICIES, read: policy_json },
    Surface { name: "policies in YAML", seeds: POLICIES, read: policy_yaml },
    Surface { name: "tollgate.toml", seeds: SETTINGS, read: settings },
    Surface { name: "paths, addresses and numbers under rules", seeds: VALUES, read: conditions },
    Surface { name: "tool definitions", seeds: TOOLS, read: tool },
];

fn message(bytes: &[u8]) {
    let first = wire::read(bytes).map(|doc| meaning(&doc));
    let second = wire::read(bytes).map(|doc| meaning(&doc));
    assert_eq!(first.is_ok(), second.is_ok());
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first, second, "one meaning");
    }
}

/// What a message says, in one spelling; reading that spelling again must say the same.
fn meaning(doc: &Doc<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    canonical(doc.root(), &mut out);
    let again = Doc::read(&out, &Bounds::MESSAGE).expect("what we write can be read");
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
        caller: Caller { grant: "g", session: None, client: None },
        tool: ToolFacts { category: None, risk: None, definition: Definition::Unchanged },
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

/// Numbers that differ; what they are does not matter.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap()
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.below(length + 1);
        from..(from + self.below(40)).min(length)
    }
}

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "true",
    "1e400",
    "-0",
    "0.1",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{feff}",
    "\n",
    "\r",
    "\t",
    "\u{202e}",
    "\u{17f}",
    "\u{212a}",
    "name",
    "arguments",
    "method",
    "params",
    "_meta",
    "id",
    "jsonrpc",
    "result",
    "*",
    "&a",
    "!!",
    "<<",
    "---",
    "%",
    "..",
    "//",
    "@",
    "[*]",
    "args.",
    "9007199254740993",
    "data:",
    "event:",
    "'",
    "#",
    "|",
    ">",
    "?",
    "=",
    "\u{e9}",
    "e\u{301}",
];

/// One input: a seed after a few accidents.
fn damaged(surface: &Surface, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = surface.seeds[dice.below(surface.seeds.len())].as_bytes().to_vec();
    for _ in 0..=dice.below(6) {
        let range = dice.range(bytes.len());
        match dice.below(9) {
            0 if !bytes.is_empty() => {
                let place = dice.below(bytes.len());
                bytes[place] ^= 1 << dice.below(8);
            }
            1 => drop(bytes.splice(range, dice.next().to_le_bytes())),
            2 => drop(bytes.drain(range)),
            3 => {
                let part = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, part);
            }
            4 => {
                let other = surface.seeds[dice.below(surface.seeds.len())].as_bytes();
                let part = other[dice.range(other.len())].to_vec();
                bytes.splice(range, part);
            }
            5 => bytes.truncate(range.start),
            6 => {
                let part = bytes[range.clone()].repeat(dice.below(200));
                bytes.splice(range, part);
            }
            7 => {
                let other = SURFACES[dice.below(SURFACES.len())].seeds[0].as_bytes();
                let part = other[dice.range(other.len())].to_vec();
                bytes.splice(range, part);
            }
            _ => drop(bytes.splice(range, WORDS[dice.below(WORDS.len())].bytes())),
        }
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}

/// How long this thread has been on a core; a busy machine must not look like a hang.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

#[test]
fn p22_any_damage_to_any_input_is_answered() {
    let seconds = std::env::var("TOLLGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(4);
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) | 1;
    let mut dice = Dice(seed);
    let each = Duration::from_secs(seconds) / u32::try_from(SURFACES.len()).unwrap();
    let mut total = 0_u64;
    for surface in SURFACES {
        let (began, mut inputs, mut slowest) = (Instant::now(), 0_u64, Duration::ZERO);
        while began.elapsed() < each {
            let input = damaged(surface, &mut dice);
            let started = on_cpu();
            let outcome = catch_unwind(|| (surface.read)(&input));
            let took = on_cpu().saturating_sub(started);
            let shown = || String::from_utf8_lossy(&input).into_owned();
            assert!(outcome.is_ok(), "{}, seed {seed}: {:?}", surface.name, shown());
            assert!(took < INPUT_CPU_MAX, "{}: {took:?} for {:?}", surface.name, shown());
            slowest = slowest.max(took);
            inputs += 1;
        }
        total += inputs;
        println!("P22: {}: {inputs} damaged inputs, slowest {slowest:.1?}", surface.name);
    }
    println!("P22: {total} damaged inputs in {seconds} s on one core, 0 panics, 0 hangs");
    assert!(total > 0);
}
