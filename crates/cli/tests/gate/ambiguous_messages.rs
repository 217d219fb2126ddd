//! What was judged is what is sent: messages full of names, numbers and texts that parsers read differently.
//! Every forwarded message must mean the same to every careless parser, and to none of them something that
//! the policy denies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::http_client::Line;
use crate::json_readers::{Reading, one_meaning, readings};
use crate::members::MEMBERS;
use crate::recorder::{Manner, Recorder};
use crate::test_gate::{Gate, any_below, number};

const WORKERS: usize = 4;

const REF: &str = "completion/complete";
const TOOLS: &[&str] = &["pay", "pay", "pay", "other", "secret"];

fn rules() -> Value {
    let over = |path: &str| json!({ "conditions": [{ "path": path, "op": "gt", "value": 100 }] });
    let to = json!({ "conditions": [{ "path": "args.to", "op": "eq", "value": "mallory" }] });
    json!({
        "version": "1",
        "default": "deny",
        "tools": {
            "pay": { "deny_if": [over("args.amount"), over("args.order.amount"), to] },
            "other": { "redact": ["private"] },
            "secret": { "action": "deny" },
        },
        "prompts": { "hello": { "action": "allow" } },
    })
}

/// What is wrong with a message that reached the server.
fn trouble(body: &[u8]) -> Option<String> {
    let message: Reading = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(error) => return Some(format!("not readable: {error}")),
    };
    if !one_meaning(&message) {
        return Some("two meanings".to_owned());
    }
    readings(&message).find_map(|seen| {
        let args = &seen["params"]["arguments"];
        let within = |amount: &Value| {
            amount.is_null() || amount.as_f64().is_some_and(|amount| amount <= 100.0)
        };
        let allowed = match (seen["method"].as_str(), seen["params"]["name"].as_str()) {
            (Some("tools/call"), Some("pay")) => {
                within(&args["amount"])
                    && within(&args["order"]["amount"])
                    && args["to"] != "mallory"
            }
            (Some("tools/call"), Some("other")) | (Some("prompts/get"), Some("hello")) => true,
            (Some("completion/complete"), None) => seen["params"]["ref"]["name"] == "hello",
            _ => false,
        };
        (!allowed).then(|| format!("taken for {seen}"))
    })
}

/// A simple random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound.max(1) as u64).unwrap()
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

const KEYS: &[&str] = &["amount", "to", "order", "name", "arguments", "method", "params", "nonce"];
const VALUES: &[&str] = &[
    "{\"type\":\"ref/prompt\",\"name\":\"rec.hello\"}",
    "\"rec.secret\"",
    "\"rec__secret\"",
    "5",
    "100",
    "101",
    "1e2",
    "1e3",
    "0.1e4",
    "-5",
    "-0",
    "100.00000000000000000001",
    "1e400",
    "18446744073709551716",
    "9007199254740993",
    "4294967396",
    "\"500\"",
    "\"mallory\"",
    "\"bob\"",
    "\"mall\\u006fry\"",
    "\"mallory\\u0000\"",
    "\"Mallory\"",
    "[500]",
    "{\"amount\":500}",
    "{\"amount\":5}",
    "{\"Amount\":500}",
    "{\"AMOUNT\":5}",
    "null",
    "true",
    "\"secret\"",
    "\"pay\"",
    "\"other\"",
    "{}",
    "[]",
    "0x1f4",
    "5e0",
    "\"\\ud800\"",
    "NaN",
    "500 ",
    " 5",
];

/// A spelling that some parser reads as the same key.
fn spelled(key: &str, dice: &mut Dice) -> String {
    let first = key.chars().next().unwrap();
    match dice.below(16) {
        0 => key.to_uppercase(),
        1 => key.replacen(first, &first.to_uppercase().to_string(), 1),
        2 => key.replacen(first, &format!("\\u{:04x}", u32::from(first)), 1),
        3 => format!("{key}\\u0000"),
        4 => format!("{key}\\u0000x"),
        5 => format!(" {key}"),
        6 => format!("{key}\\t"),
        7 => key.replace('m', "\u{ff4d}"),
        8 => key.replace('s', "\u{17f}").replace('k', "\u{212a}"),
        9 => format!("\u{feff}{key}"),
        10 => format!("{key}\u{0}"),
        _ => key.to_owned(),
    }
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn plain(members: &[(&str, &str)]) -> Vec<(String, String)> {
    members.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Who sends the messages, where, and to which server.
struct Setting {
    path: &'static str,
    /// What names at this address may begin with.
    prefixes: &'static [&'static str],
    client: Era,
    server: Era,
    /// Messages answer a question that the server asked in a first round.
    is_continued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

impl Era {
    fn name(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// `_meta` of a client of 2026-07-28.
const MODERN_META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}"#;

/// A message and the headers that mirror it.
struct Sent {
    headers: String,
    body: Vec<u8>,
}

impl Setting {
    /// A request after a few random changes to its members, and sometimes to its bytes. `state` continues
    /// a call that the server answered with a question.
    fn fuzzed(&self, dice: &mut Dice, prefix: &str, state: Option<&str>) -> Sent {
        let method = match state {
            Some(_) => "tools/call",
            None => dice.one_of(&["tools/call", "tools/call", "tools/call", "prompts/get", REF]),
        };
        let names = match (method, state) {
            (_, Some(_)) => &["pay"],
            ("tools/call", None) => TOOLS,
            _ => &["hello", "hello", "secret"],
        };
        let name = format!("{prefix}{}", dice.one_of(names));
        let mut root = plain(&[("jsonrpc", "\"2.0\""), ("id", "1")]);
        root.push(("method".to_owned(), format!("\"{method}\"")));
        let mut params = self.params(method, &name, state);
        let mut args = plain(&[("nonce", "\"x\"")]);
        if state.is_none() && dice.below(3) > 0 {
            args.push(("amount".to_owned(), dice.one_of(VALUES).to_owned()));
        }
        for _ in 0..dice.below(3) {
            let place = dice.below(8);
            let key = dice.one_of(if matches!(place, 1 | 2) { MEMBERS } else { KEYS });
            let member = (spelled(key, dice), dice.one_of(VALUES).to_owned());
            let object = match place {
                0 => &mut root,
                1 | 2 => &mut params,
                _ => &mut args,
            };
            object.insert(dice.below(object.len() + 1), member);
        }
        // The arguments of a prompt are strings.
        if method == "tools/call" || dice.below(10) == 0 {
            let place = dice.below(params.len() + 1);
            params.insert(place, (spelled_rarely("arguments", dice), object(&args)));
        }
        root.push((spelled_rarely("params", dice), object(&params)));
        let mut bytes = object(&root).into_bytes();
        if dice.below(4) == 0 {
            damage(&mut bytes, dice);
        }
        Sent { headers: self.headers(method, &name), body: bytes }
    }

    fn params(&self, method: &str, name: &str, state: Option<&str>) -> Vec<(String, String)> {
        let name = format!("\"{name}\"");
        let mut params = if method == REF {
            let reference = format!("{{\"type\":\"ref/prompt\",\"name\":{name}}}");
            plain(&[("ref", &reference), ("argument", r#"{"name":"a","value":"b"}"#)])
        } else {
            plain(&[("name", &name)])
        };
        if self.client == Era::Modern {
            params.extend(plain(&[("_meta", MODERN_META)]));
        }
        if let Some(state) = state {
            let answers = r#"{"q":{"action":"accept","content":{"n":"bob"}}}"#;
            let state = json!(state).to_string();
            params.extend(plain(&[("requestState", &state), ("inputResponses", answers)]));
        }
        params
    }

    fn headers(&self, method: &str, name: &str) -> String {
        if self.client == Era::Legacy {
            return String::new();
        }
        let named = if method == REF { String::new() } else { format!("Mcp-Name: {name}\r\n") };
        format!("Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{named}")
    }

    /// Sends the first round of a call and gives the state of the question that comes back.
    fn first_round(&self, line: &mut Line, prefix: &str) -> String {
        let name = format!("{prefix}pay");
        let mut params = self.params("tools/call", &name, None);
        params.extend(plain(&[("arguments", r#"{"nonce":"x"}"#)]));
        let mut root = plain(&[("jsonrpc", "\"2.0\""), ("id", "1"), ("method", "\"tools/call\"")]);
        root.push(("params".to_owned(), object(&params)));
        let headers = self.headers("tools/call", &name);
        let answer = line.post_with(&headers, object(&root).as_bytes());
        let asked = answer.json();
        asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned()
    }
}

/// Changes, removes or inserts one byte.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let place = dice.below(bytes.len());
    match dice.below(3) {
        0 => bytes[place] ^= 1 << dice.below(8),
        1 => drop(bytes.remove(place)),
        _ => bytes.insert(place, b"\"{}[],:\\0 "[dice.below(10)]),
    }
}

fn spelled_rarely(key: &str, dice: &mut Dice) -> String {
    if dice.below(20) == 0 { spelled(key, dice) } else { key.to_owned() }
}

/// The names of one server, and all forms of them at the address of all servers.
const OWN: &[&str] = &[""];
const ALL: &[&str] = &["rec__", "rec.", ""];

/// Every edit that the gate makes to a request: none, a prefix, an era in each direction, a further round.
const SETTINGS: &[Setting] = &[
    Setting {
        path: "/mcp/rec",
        prefixes: OWN,
        client: Era::Legacy,
        server: Era::Legacy,
        is_continued: false,
    },
    Setting {
        path: "/mcp",
        prefixes: ALL,
        client: Era::Legacy,
        server: Era::Legacy,
        is_continued: false,
    },
    Setting {
        path: "/mcp/rec",
        prefixes: OWN,
        client: Era::Modern,
        server: Era::Legacy,
        is_continued: false,
    },
    Setting {
        path: "/mcp",
        prefixes: ALL,
        client: Era::Modern,
        server: Era::Legacy,
        is_continued: false,
    },
    Setting {
        path: "/mcp/rec",
        prefixes: OWN,
        client: Era::Legacy,
        server: Era::Modern,
        is_continued: false,
    },
    Setting {
        path: "/mcp",
        prefixes: ALL,
        client: Era::Legacy,
        server: Era::Modern,
        is_continued: false,
    },
    Setting {
        path: "/mcp/rec",
        prefixes: OWN,
        client: Era::Modern,
        server: Era::Modern,
        is_continued: true,
    },
    Setting {
        path: "/mcp",
        prefixes: ALL,
        client: Era::Modern,
        server: Era::Modern,
        is_continued: true,
    },
];

#[test]
fn p16_what_was_judged_is_what_was_sent() {
    judged_is_sent(&SETTINGS[0]);
}

#[test]
fn p16_what_was_judged_is_what_was_sent_where_names_are_edited() {
    judged_is_sent(&SETTINGS[1]);
}

#[test]
fn p16_what_was_judged_is_what_was_sent_to_an_older_server() {
    SETTINGS[2..4].iter().for_each(judged_is_sent);
}

#[test]
fn p16_what_was_judged_is_what_was_sent_to_a_newer_server() {
    SETTINGS[4..6].iter().for_each(judged_is_sent);
}

#[test]
fn p16_what_was_judged_is_what_was_sent_in_a_further_round() {
    SETTINGS[6..].iter().for_each(judged_is_sent);
}

fn judged_is_sent(setting: &Setting) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["pay", "other", "secret"]);
    recorder.look_at_calls_with(trouble);
    recorder.behave(match (setting.server, setting.is_continued) {
        (Era::Legacy, _) => Manner::Honest,
        (Era::Modern, false) => Manner::Newer,
        (Era::Modern, true) => Manner::NewerAsks,
    });
    gate.policy("rules", &rules());
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, setting.path);
    let each = number("TOLLGATE_BODIES", 2_000).div_ceil(WORKERS);
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut line = client.line();
                let mut dice = Dice(any_below(u64::MAX) | 1);
                for _ in 0..each {
                    let prefix = dice.one_of(setting.prefixes);
                    let state =
                        setting.is_continued.then(|| setting.first_round(&mut line, prefix));
                    let sent = setting.fuzzed(&mut dice, prefix, state.as_deref());
                    let answer = line.post_with(&sent.headers, &sent.body);
                    assert!(answer.status < 500, "{}: {}", answer.status, answer.text());
                    passed.fetch_add(usize::from(answer.passed()), Ordering::Relaxed);
                }
            });
        }
    });
    let (sent, passed, found) = (each * WORKERS, passed.into_inner(), recorder.troubles());
    let at = format!("{}, {} to {}", setting.path, setting.client.name(), setting.server.name());
    println!(
        "P16 at {at}: {sent} fuzzed bodies, {passed} passed, {} calls at the server, {} with a second meaning or against the policy",
        recorder.calls().len(),
        found.len()
    );
    for example in found.iter().take(5) {
        println!("P16 at {at}: {example}");
    }
    assert!(passed > sent / 20, "the load was real: {passed}");
    assert!(found.is_empty());
    assert!(!gate.log().contains("panicked"), "{}", gate.log());
    assert!(!gate.log().contains("not the call that was judged"), "{}", gate.log());
}
