//! Parsers of outside input other than the protocol (those are in `mcp`), with valid inputs as
//! seeds. A parser reports a fault by panicking; `fuzz/` uses the same table.

use std::path::Path;

use connectors::when::{self, Here};
use policy::json::{Bounds, Doc};
use policy::{
    Amount, Call, Caller, Definition, Format, LocalTime, Policy, Subject, ToolFacts, Weekday,
};

use crate::surface::Surface;

const TOOLS: &[&str] = &[
    r#"{"name":"pay","description":"Sends money. \u202e","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"},"amount":{"type":"number","minimum":0}},"required":["to"]},"annotations":{"readOnlyHint":true}}"#,
    r#"{"name":"run","title":"Run","description":"Executes any shell command","inputSchema":{"$ref":"http://x","anyOf":[{"type":"string"},{"type":["null","integer"]}]}}"#,
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
    Surface { name: "policies in JSON", seeds: POLICIES, read: policy_json },
    Surface { name: "policies in YAML", seeds: POLICIES, read: policy_yaml },
    Surface { name: "tollgate.toml", seeds: SETTINGS, read: settings },
    Surface { name: "paths, addresses and numbers under rules", seeds: VALUES, read: conditions },
    Surface { name: "tool definitions", seeds: TOOLS, read: tool },
    Surface { name: "dates", seeds: DATES, read: date },
];

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
}

fn date(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (now_us, offset_s) in [(1_794_000_000_000_000, 19_800), (i64::MAX, -43_200), (0, 50_400)] {
        let here = Here { now_us, offset_s };
        let (from, to) = (when::start_us(&text, here), when::end_us(&text, here));
        if let (Ok(from), Ok(to)) = (from, to) {
            assert!(from <= to, "a span does not end before it begins");
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
