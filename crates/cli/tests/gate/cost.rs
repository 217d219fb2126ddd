//! What a decision costs. These figures are for people: a busy machine must not fail a test.

use std::thread;
use std::time::{Duration, Instant};

use policy::{Call, Caller, Format, LocalTime, Policy, Subject, ToolFacts, Weekday};
use serde_json::json;

use crate::door::Client;
use crate::recorder::Recorder;
use crate::world::{Gate, TOOLS, rounds};

const CALLS_A_SECOND: u32 = 200;
/// Each with a call of its own in flight, so that a slow one delays only every fourth.
const LINES: u32 = 4;

/// The middle and the slowest but a hundredth.
fn middle_and_slow(mut took: Vec<Duration>) -> (Duration, Duration) {
    took.sort();
    (took[took.len() / 2], took[took.len() * 99 / 100 - 1])
}

/// Calls that are due at fixed times, however long the ones before take; each is counted from when it
/// was due.
fn at_a_steady_rate(client: &Client) -> (Duration, Duration) {
    let calls = CALLS_A_SECOND * u32::try_from(rounds(1)).unwrap();
    let began = Instant::now() + Duration::from_millis(50);
    let line = |first: u32| {
        let mut line = client.line();
        let due = (first..calls).step_by(LINES as usize);
        due.map(|n| {
            let due = began + Duration::from_secs(1) * n / CALLS_A_SECOND;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let answer = line.call("echo", &json!({ "nonce": n }));
            assert!(answer.passed(), "{}", answer.text());
            due.elapsed()
        })
        .collect::<Vec<_>>()
    };
    let took = thread::scope(|scope| {
        let lines: Vec<_> = (0..LINES).map(|first| scope.spawn(move || line(first))).collect();
        lines.into_iter().flat_map(|line| line.join().unwrap()).collect()
    });
    middle_and_slow(took)
}

#[test]
fn p17_what_calls_at_a_steady_rate_take() {
    let recorder = Recorder::new(TOOLS);
    let url = recorder.url();
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok());
    let direct = Client {
        port: port.unwrap(),
        token: String::new(),
        path: "/mcp".to_owned(),
        headers: String::new(),
    };
    let mut figures = vec![("direct", at_a_steady_rate(&direct))];
    for durability in ["process", "power"] {
        let mut gate = Gate::new();
        let token = gate.furnish(&recorder);
        gate.settings(&format!("durability = \"{durability}\"\n"));
        gate.up();
        let client = gate.client(&token, "/mcp/rec");
        assert!(client.call("echo", &json!({})).passed());
        figures.push((durability, at_a_steady_rate(&client)));
    }
    for (way, (middle, slow)) in figures {
        println!(
            "P17: {CALLS_A_SECOND} calls a second, {way}: {middle:.1?} in the middle, {slow:.1?} at p99"
        );
    }
}

#[test]
fn p17_what_a_decision_takes_without_the_store() {
    let entry = |n: u32| {
        let large = json!({ "path": "args.amount", "op": "gt", "value": n });
        (format!("tool_{n}"), json!({ "deny_if": [{ "conditions": [large] }] }))
    };
    let tools: serde_json::Map<_, _> = (0..50).map(entry).collect();
    let text = json!({ "version": "1", "default": "deny", "tools": tools }).to_string();
    let rules = Policy::load(&text, Format::Json).unwrap();
    let bounds = policy::json::Bounds::ANSWER;
    let args = policy::json::Doc::read(br#"{"amount": 7, "to": "somebody"}"#, &bounds).unwrap();
    let took = (0..10_000).map(|n| {
        let name = format!("tool_{}", n % 50);
        let began = Instant::now();
        let verdict = rules.decide(&Call {
            subject: Subject::Tool(&name),
            args: Some(args.root()),
            params: None,
            caller: Caller { grant: "agent", session: None, client: None },
            tool: ToolFacts::default(),
            time: LocalTime { hour: 12, weekday: Weekday::Monday },
        });
        let took = began.elapsed();
        std::hint::black_box(verdict);
        took
    });
    let (middle, slow) = middle_and_slow(took.collect());
    println!("P17: a decision alone, 50 tools: {middle:.1?} in the middle, {slow:.1?} at p99");
}
