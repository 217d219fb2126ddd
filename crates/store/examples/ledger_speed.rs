//! Prints what the ledger costs per call: `cargo run --release -p store --example ledger_speed [folder] [calls]`.
#![allow(clippy::print_stdout, reason = "printing is what this example is for")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use policy::{Call, Caller, Format, LocalTime, Policy, Subject, ToolFacts, Verdict, Weekday};
use store::clock::Clock;
use store::ledger::{
    Admission, Durability, Ending, Facts, Filter, Ledger, Options, Outcome, PolicyRef, Reader,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"create_charge":{"limits":[
    {"counter":"charges","window":"minute","max":1000000000,"scope":"grant"},
    {"counter":"charges_daily","window":"day","max":1000000000,"scope":"grant"}]}}}"#;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(
        || std::env::temp_dir().join(format!("ledger-speed-{}", std::process::id())),
        PathBuf::from,
    );
    let calls = arguments.next().map_or(Ok(200_000), |count| count.parse())?;
    let policy = Policy::load(POLICY, Format::Json).map_err(|e| format!("{e:?}"))?;
    for threads in [1, 2, 8] {
        measure(
            &folder.join(format!("process-{threads}")),
            &policy,
            calls,
            threads,
            Durability::Process,
        )?;
    }
    measure(&folder.join("power-8"), &policy, 2_000, 8, Durability::Power)?;
    measure_reading(&folder.join("process-1"))
}

fn measure(
    folder: &Path,
    policy: &Policy,
    calls: u32,
    threads: u32,
    durability: Durability,
) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let options = Options { durability, ..Options::default() };
    let ledger = Ledger::open(folder, Clock::System, options)?;
    let start = Instant::now();
    let latencies: Vec<Latencies> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| run(&ledger, policy, calls / threads))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()?.ok()).collect()
    });
    let wall_us = start.elapsed().as_secs_f64() * 1e6;
    println!(
        "{durability:?}, {threads} threads: admit {}, settle {}, {:.0} calls/s",
        percentiles(latencies.iter().flat_map(|latencies| &latencies.admit_us)),
        percentiles(latencies.iter().flat_map(|latencies| &latencies.settle_us)),
        f64::from(calls) / wall_us * 1e6
    );
    Ok(())
}

#[derive(Default)]
struct Latencies {
    admit_us: Vec<f64>,
    settle_us: Vec<f64>,
}

fn percentiles<'a>(times: impl Iterator<Item = &'a f64>) -> String {
    let mut times: Vec<f64> = times.copied().collect();
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 1_000).copied().unwrap_or_default();
    format!("p50 {:.2} p99 {:.1} p99.9 {:.0} µs", at(500), at(990), at(999))
}

fn run(ledger: &Ledger, policy: &Policy, calls: u32) -> std::result::Result<Latencies, String> {
    let facts = Facts {
        grant: "alice-laptop",
        session: Some("5f0c7a34-98f1-4a8e-b6f4-0f2e7e2f6b1a"),
        client: Some("claude-code"),
        client_version: Some("2.1.0"),
        server: "stripe",
        method: "tools/call",
        subject: Some(Subject::Tool("create_charge")),
        policy: Some(PolicyRef { name: "payments", version: 3 }),
        argument_keys: &["amount", "currency", "customer"],
        argument_digest: Some([7; 32]),
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736"),
        remote: Some("127.0.0.1:53210"),
        ..Facts::default()
    };
    let mut latencies = Latencies::default();
    for _ in 0..calls {
        let verdict = decide(policy);
        let start = Instant::now();
        let admission = ledger.admit(&verdict, &facts).map_err(|e| e.to_string())?;
        let Admission::Permit(permit) = admission else { return Err("denied".to_owned()) };
        permit.wait_durable().map_err(|e| e.to_string())?;
        latencies.admit_us.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        let outcome = Outcome {
            latency_us: Some(812),
            result_bytes: Some(2_048),
            ..Outcome::new(Ending::Ok)
        };
        permit.settle(&outcome).map_err(|e| e.to_string())?;
        latencies.settle_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies)
}

fn decide(policy: &Policy) -> Verdict {
    policy.decide(&Call {
        subject: Subject::Tool("create_charge"),
        args: None,
        params: None,
        caller: Caller { grant: "alice-laptop", session: None, client: None },
        tool: ToolFacts::default(),
        time: LocalTime { hour: 12, weekday: Weekday::Monday },
    })
}

fn measure_reading(folder: &Path) -> Result<()> {
    let timed = |name: &str, start: Instant| {
        println!("{name}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    };
    let start = Instant::now();
    let ledger = Ledger::open(folder, Clock::System, Options::default())?;
    timed("open", start);
    drop(ledger);
    let reader = Reader::open(folder)?;
    let start = Instant::now();
    let newest = reader.newest_first(&Filter::default())?.take(20).count();
    timed(&format!("newest {newest}"), start);
    let start = Instant::now();
    let verified = reader.verify(None)?;
    timed(&format!("verify {} rows in {} segments", verified.last_seq, verified.segments), start);
    let start = Instant::now();
    let all = reader.oldest_first(&Filter::default())?.count();
    timed(&format!("read {all} entries"), start);
    Ok(())
}
