//! What was judged is what was sent: messages full of names, numbers and texts that readers take
//! differently. Whatever reaches the server must mean the same to every careless reader, and to none of
//! them something that the policy denies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::members::MEMBERS;
use crate::readers::{Reading, one_meaning, readings};
use crate::recorder::Recorder;
use crate::world::{Gate, any_below, number};

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
            "other": {},
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

/// Numbers that differ; what they are does not matter.
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

/// A spelling that some reader takes for the same key.
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

/// A request after a few accidents with its members, and now and then with its bytes. Where names begin
/// with their server's, so does `prefix`.
fn fuzzed(dice: &mut Dice, prefix: &str) -> Vec<u8> {
    let method = dice.one_of(&["tools/call", "tools/call", "tools/call", "prompts/get", REF]);
    let mut root = plain(&[("jsonrpc", "\"2.0\""), ("id", "1")]);
    root.push(("method".to_owned(), format!("\"{method}\"")));
    let names = if method == "tools/call" { TOOLS } else { &["hello", "hello", "secret"] };
    let name = format!("\"{prefix}{}\"", dice.one_of(names));
    let mut params = if method == REF {
        let reference = format!("{{\"type\":\"ref/prompt\",\"name\":{name}}}");
        plain(&[("ref", &reference), ("argument", r#"{"name":"a","value":"b"}"#)])
    } else {
        plain(&[("name", &name)])
    };
    let mut args = plain(&[("nonce", "\"x\"")]);
    if dice.below(3) > 0 {
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
    // The arguments of a prompt are texts.
    if method == "tools/call" || dice.below(10) == 0 {
        let place = dice.below(params.len() + 1);
        params.insert(place, (spelled_rarely("arguments", dice), object(&args)));
    }
    root.push((spelled_rarely("params", dice), object(&params)));
    let mut bytes = object(&root).into_bytes();
    if dice.below(4) == 0 {
        let place = dice.below(bytes.len());
        match dice.below(3) {
            0 => bytes[place] ^= 1 << dice.below(8),
            1 => drop(bytes.remove(place)),
            _ => bytes.insert(place, b"\"{}[],:\\0 "[dice.below(10)]),
        }
    }
    bytes
}

fn spelled_rarely(key: &str, dice: &mut Dice) -> String {
    if dice.below(20) == 0 { spelled(key, dice) } else { key.to_owned() }
}

#[test]
fn p16_what_was_judged_is_what_was_sent() {
    judged_is_sent("/mcp/rec", "");
}

#[test]
fn p16_what_was_judged_is_what_was_sent_where_names_are_edited() {
    judged_is_sent("/mcp", "rec.");
}

fn judged_is_sent(path: &str, prefix: &str) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&["pay", "other", "secret"]);
    recorder.look_at_calls_with(trouble);
    gate.policy("rules", &rules());
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, path);
    let each = number("TOLLGATE_BODIES", 2_000).div_ceil(WORKERS);
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut line = client.line();
                let mut dice = Dice(any_below(u64::MAX) | 1);
                for _ in 0..each {
                    let body = fuzzed(&mut dice, prefix);
                    let answer = line.post(&body);
                    assert!(answer.status < 500, "{}: {}", answer.status, answer.text());
                    passed.fetch_add(usize::from(answer.passed()), Ordering::Relaxed);
                }
            });
        }
    });
    let (sent, passed, found) = (each * WORKERS, passed.into_inner(), recorder.troubles());
    println!(
        "P16 at {path}: {sent} fuzzed bodies, {} reached the server, {} with a second meaning or against the policy",
        recorder.calls().len(),
        found.len()
    );
    for example in found.iter().take(5) {
        println!("P16 at {path}: {example}");
    }
    assert!(passed > sent / 20, "the load was real: {passed}");
    assert!(found.is_empty());
    assert!(!gate.log().contains("panicked"), "{}", gate.log());
}
