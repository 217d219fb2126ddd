//! Prints what one decision costs, in nanoseconds: for 10 and for 10,000 entries, exact names and globs,
//! each with two conditions and one limit. Run it optimised: `cargo run --release -p policy --example decide_speed`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program prints, and stops at the first surprise"
)]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use policy::json::{Bounds, Doc};
use policy::{Call, Caller, Decision, Format, LocalTime, Policy, Subject, ToolFacts, Weekday};

const ROUNDS: u32 = 20_000;
const SAMPLES: usize = 50;

fn main() {
    println!(
        "{:>8}  {:<6}  {:>8}  {:>12}  {:>12}",
        "entries", "kind", "load ms", "allow ns", "default ns"
    );
    for globs in [false, true] {
        for entries in [10, 100, 1_000, 10_000] {
            measure(entries, globs);
        }
    }
}

fn measure(entries: usize, globs: bool) {
    let source = policy_text(entries, globs);
    let began = Instant::now();
    let policy = Policy::load(&source, Format::Json).unwrap();
    let load_ms = began.elapsed().as_secs_f64() * 1_000.0;
    let suffix = if globs { "_now" } else { "" };
    let known: Vec<String> =
        (0..entries).step_by(entries / 10).map(|at| format!("tool_{at:05}{suffix}")).collect();
    let unknown: Vec<String> = (0..64).map(|at| format!("other_{at:05}")).collect();
    let (allow, default) =
        (nanoseconds(&policy, &known, true), nanoseconds(&policy, &unknown, false));
    let kind = if globs { "globs" } else { "names" };
    println!("{entries:>8}  {kind:<6}  {load_ms:>8.1}  {allow:>12.0}  {default:>12.0}");
}

fn policy_text(entries: usize, globs: bool) -> String {
    let star = if globs { "_*" } else { "" };
    let mut tools = String::new();
    for at in 0..entries {
        let comma = if at > 0 { "," } else { "" };
        // Short enough that ten thousand fit into one document.
        let rules = if at % (entries / 10) == 0 || entries <= 1_000 { RULES } else { "{}" };
        write!(tools, r#"{comma}"tool_{at:05}{star}":{rules}"#).unwrap();
    }
    format!(r#"{{"version":"1","default":"deny","hide":["delete_*"],"tools":{{{tools}}}}}"#)
}

const RULES: &str = r#"{"deny_if":[{"conditions":[{"path":"args.amount","op":"gt","value":100},{"path":"args.to","op":"in","value":["eve","mallory"]}]}],"limits":[{"window":"minute","max":30}]}"#;

/// The least of several samples, each many decisions: what it costs when nothing else runs.
fn nanoseconds(policy: &Policy, names: &[String], allowed: bool) -> f64 {
    let args = br#"{"to":"eve","amount":12.5,"note":"hello"}"#;
    let doc = Doc::read(args, &Bounds::MESSAGE).unwrap();
    let calls: Vec<Call<'_>> = names
        .iter()
        .map(|name| Call {
            subject: Subject::Tool(name),
            args: Some(doc.root()),
            params: None,
            caller: Caller { grant: "ann", session: Some("s"), client: Some("bench") },
            tool: ToolFacts::default(),
            time: LocalTime { hour: 12, weekday: Weekday::Monday },
        })
        .collect();
    let samples = (0..SAMPLES).map(|_| {
        let began = Instant::now();
        for call in calls.iter().cycle().take(ROUNDS as usize) {
            let verdict = policy.decide(black_box(call));
            assert_eq!(matches!(verdict.decision(), Decision::Allow), allowed);
            black_box(verdict);
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    });
    samples.fold(f64::INFINITY, f64::min)
}
