//! `cargo xtask bench whoop`: the built-in WHOOP server compared with the public Python server, on the same
//! stand-in with the same calls in alternating rounds. Every figure is the median over all rounds.

mod contestant;
mod stdio_client;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::contestant::{Contestant, Environment};
use self::stdio_client::StdioClient;
use crate::tools::process::{Fixture, Scratch};

/// Ten years that end at this moment (2026-11-15, noon UTC): with a fixed end both servers and all
/// machines see the same records.
const DAYS: &str = "3650";
const NOW_UNIX_SECONDS: &str = "1794744000";
const SEED: &str = "7";
/// The delay of a response from a distant server; WHOOP itself takes longer.
const FAR_ANSWER_MS: u32 = 50;
/// Thirty days that are complete at that time.
const MONTH: [&str; 2] = ["2026-10-12", "2026-11-11"];
const MONTH_OF_DATES: &str = "2026-10";
const LISTS: [&str; 4] =
    ["list_whoop_cycles", "list_whoop_recoveries", "list_whoop_sleeps", "list_whoop_workouts"];
/// Syncs with nothing new in a round.
const AGAIN_SYNCS: u32 = 5;
const FORMATS: [&str; 3] = ["csv", "jsonl", "parquet"];

struct Plan {
    rounds: u32,
    starts: u32,
    reads: u32,
    exports: u32,
}

/// What is compared, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Ready,
    Sync,
    SyncCpu,
    /// Requests to WHOOP during the sync, and during all reads and exports after it.
    SyncRequests,
    LaterRequests,
    /// A sync with nothing new, and its requests.
    Again,
    AgainRequests,
    FarSync,
    FarSyncCpu,
    List,
    Summary,
    Export(&'static str),
    Peak,
}

/// One value of one server; times are seconds, memory megabytes, requests a number.
struct Sample {
    figure: Figure,
    contestant: Contestant,
    value: f64,
}

/// The counts that both servers must agree on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Amounts {
    synced: u64,
    listed: u64,
    exported: u64,
}

/// `cargo xtask bench whoop [--quick]`
pub(crate) fn whoop(root: &Path, args: &[String]) -> Result<()> {
    let quick = args.iter().any(|arg| arg == "--quick");
    let plan = if quick {
        Plan { rounds: 1, starts: 3, reads: 40, exports: 1 }
    } else {
        Plan { rounds: 3, starts: 7, reads: 200, exports: 3 }
    };
    let python = crate::tools::whoop_python()?;
    let tollgate = program(root, "TOLLGATE_BIN", "tollgate")?;
    let sandbox = program(root, "SANDBOX_BIN", "sandbox")?;
    let environment = |sandbox| -> Result<Environment> {
        let (tollgate, python) = (tollgate.clone(), python.clone());
        Ok(Environment { tollgate, python, root: root.to_owned(), sandbox: stand_in(sandbox)? })
    };
    let (near, far) = (environment(&sandbox)?, environment(&sandbox)?);
    far.slow_down(FAR_ANSWER_MS)?;
    let mut samples = Vec::new();
    let mut amounts = Amounts::default();
    for round in 0..plan.rounds {
        // The second one runs on a warmer machine, so the order alternates.
        let order = if round % 2 == 0 {
            [Contestant::Ours, Contestant::Python]
        } else {
            [Contestant::Python, Contestant::Ours]
        };
        let [first, second] =
            order.map(|contestant| run_contestant(&near, contestant, &plan, &mut samples));
        amounts = first?;
        let other = second?;
        if amounts != other {
            bail!("the servers disagree: {order:?} have {amounts:?} and {other:?}");
        }
        for contestant in order {
            sync_with_latency(&far, contestant, &mut samples)?;
        }
    }
    print(&plan, &amounts, &samples);
    Ok(())
}

fn stand_in(sandbox: &Path) -> Result<Fixture> {
    let years = ["--days", DAYS, "--seed", SEED, "--now", NOW_UNIX_SECONDS];
    let mut command = Command::new(sandbox);
    Fixture::start(command.arg("whoop").args(years).args(["--stand-still", "--unlimited"]))
}

/// A full sync from a service with network latency.
fn sync_with_latency(
    environment: &Environment,
    contestant: Contestant,
    samples: &mut Vec<Sample>,
) -> Result<()> {
    let scratch = Scratch::new("bench-whoop")?;
    let home = scratch.path.join("home");
    environment.sign_in(contestant, &home)?;
    let mut client = environment.start(contestant, &home)?;
    let cpu_before = client.cpu_seconds()?;
    let (seconds, answer) = timed(&mut client, "sync_whoop", &json!({ "full": true }))?;
    synced(&answer)?;
    let cpu = client.cpu_seconds()? - cpu_before;
    samples.push(Sample { figure: Figure::FarSync, contestant, value: seconds });
    samples.push(Sample { figure: Figure::FarSyncCpu, contestant, value: cpu });
    Ok(())
}

/// One server through everything, from an empty home.
fn run_contestant(
    environment: &Environment,
    contestant: Contestant,
    plan: &Plan,
    samples: &mut Vec<Sample>,
) -> Result<Amounts> {
    let scratch = Scratch::new("bench-whoop")?;
    let home = scratch.path.join("home");
    environment.sign_in(contestant, &home)?;
    let mut put = |figure, value| samples.push(Sample { figure, contestant, value });
    for _ in 0..plan.starts {
        let begin = Instant::now();
        let mut client = environment.start(contestant, &home)?;
        client.call("get_whoop_auth_status", &json!({}))?;
        put(Figure::Ready, begin.elapsed().as_secs_f64());
    }
    let mut client = environment.start(contestant, &home)?;
    let cpu_before = client.cpu_seconds()?;
    let requests_before = environment.requests()?;
    let (seconds, answer) = timed(&mut client, "sync_whoop", &json!({ "full": true }))?;
    put(Figure::Sync, seconds);
    put(Figure::SyncCpu, client.cpu_seconds()? - cpu_before);
    let requests_after_sync = environment.requests()?;
    put(Figure::SyncRequests, requests_after_sync - requests_before);
    let mut amounts = Amounts { synced: synced(&answer)?, ..Amounts::default() };
    for _ in 0..AGAIN_SYNCS {
        let before = environment.requests()?;
        let (seconds, answer) = timed(&mut client, "sync_whoop", &json!({}))?;
        synced(&answer)?;
        put(Figure::Again, seconds);
        put(Figure::AgainRequests, environment.requests()? - before);
    }
    let requests_after_sync = environment.requests()?;
    for turn in 0..plan.reads {
        let list = LISTS.get(turn as usize % LISTS.len()).context("no list")?;
        let [start, end] = MONTH;
        let (seconds, answer) = timed(&mut client, list, &json!({ "start": start, "end": end }))?;
        put(Figure::List, seconds);
        amounts.listed +=
            answer.get("records").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        let date = format!("{MONTH_OF_DATES}-{:02}", turn % 28 + 1);
        let (seconds, _) = timed(&mut client, "get_whoop_daily_summary", &json!({ "date": date }))?;
        put(Figure::Summary, seconds);
    }
    for turn in 0..plan.exports {
        for format in FORMATS {
            let path = format!("export-{format}-{turn}");
            let what = json!({ "kind": "all", "format": format, "path": path });
            let (seconds, answer) = timed(&mut client, "export_whoop", &what)?;
            put(Figure::Export(format), seconds);
            amounts.exported += sum(answer.get("files").and_then(Value::as_array), "records");
        }
    }
    put(Figure::LaterRequests, environment.requests()? - requests_after_sync);
    put(Figure::Peak, client.peak_mb()?);
    Ok(amounts)
}

fn timed(client: &mut StdioClient, tool: &str, arguments: &Value) -> Result<(f64, Value)> {
    let (waited, answer) = client.call(tool, arguments)?;
    Ok((waited.as_secs_f64(), answer))
}

/// The records of a sync that went well in every resource.
fn synced(answer: &Value) -> Result<u64> {
    if answer.get("status").and_then(Value::as_str) != Some("success") {
        bail!("the sync did not succeed: {answer}");
    }
    let resources = answer.get("resources").and_then(Value::as_object).context("no resources")?;
    let stored = |one: &Value| one.get("records_upserted").and_then(Value::as_u64);
    Ok(resources.values().filter_map(stored).sum())
}

fn sum(items: Option<&Vec<Value>>, key: &str) -> u64 {
    let amount = |item: &Value| item.get(key).and_then(Value::as_u64);
    items.into_iter().flatten().filter_map(amount).sum()
}

/// A program named by the owner, or a release build of ours.
fn program(root: &Path, variable: &str, package: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        let path = PathBuf::from(path);
        return path.canonicalize().with_context(|| format!("no `{}`", path.display()));
    }
    super::cargo(&["build", "--release", "--package", package], None)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join(package))
}

fn print(plan: &Plan, amounts: &Amounts, samples: &[Sample]) {
    println!(
        "| WHOOP, ten years, {} records | tollgate | whoop-mcp 0.8.5 | ratio |",
        amounts.synced
    );
    println!("| --- | --- | --- | --- |");
    let single = [
        Figure::Ready,
        Figure::Sync,
        Figure::SyncCpu,
        Figure::Again,
        Figure::AgainRequests,
        Figure::FarSync,
        Figure::FarSyncCpu,
        Figure::List,
        Figure::Summary,
    ];
    let exports = FORMATS.map(Figure::Export);
    for figure in single.into_iter().chain(exports).chain([Figure::Peak]) {
        let ours = median(samples, figure, Contestant::Ours);
        let theirs = median(samples, figure, Contestant::Python);
        let (ours_shown, theirs_shown) = (shown(figure, ours), shown(figure, theirs));
        let ratio = if ours > 0.0 { format!("{:.1}×", theirs / ours) } else { "–".to_owned() };
        println!("| {} | {ours_shown} | {theirs_shown} | {ratio} |", title(figure));
    }
    let asked = |figure, contestant| median(samples, figure, contestant);
    println!(
        "\nRequests to WHOOP for the full sync: {} and {}; for all reads and exports after it: {} and {}.",
        asked(Figure::SyncRequests, Contestant::Ours),
        asked(Figure::SyncRequests, Contestant::Python),
        asked(Figure::LaterRequests, Contestant::Ours),
        asked(Figure::LaterRequests, Contestant::Python),
    );
    println!(
        "Medians of {} round(s) in turn, each with {} starts, 2 syncs, {} lists, {} summaries, {} export(s) of each format.",
        plan.rounds, plan.starts, plan.reads, plan.reads, plan.exports
    );
}

fn title(figure: Figure) -> String {
    match figure {
        Figure::Ready => "ready: start to the first answer".to_owned(),
        Figure::Sync => "full sync".to_owned(),
        Figure::SyncCpu => "processor time of the full sync".to_owned(),
        Figure::SyncRequests => "requests of the full sync".to_owned(),
        Figure::LaterRequests => "requests after it".to_owned(),
        Figure::Again => "sync with nothing new".to_owned(),
        Figure::AgainRequests => "requests of that".to_owned(),
        Figure::FarSync => format!("full sync, {FAR_ANSWER_MS} ms an answer"),
        Figure::FarSyncCpu => "processor time of that sync".to_owned(),
        Figure::List => "30-day list".to_owned(),
        Figure::Summary => "daily summary".to_owned(),
        Figure::Export(format) => format!("export of everything, {format}"),
        Figure::Peak => "peak memory".to_owned(),
    }
}

fn shown(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Peak => format!("{value:.0} MB"),
        Figure::SyncRequests | Figure::LaterRequests | Figure::AgainRequests => {
            format!("{value:.0}")
        }
        _ if value >= 1.0 => format!("{value:.2} s"),
        _ => format!("{:.2} ms", value * 1e3),
    }
}

fn median(samples: &[Sample], figure: Figure, contestant: Contestant) -> f64 {
    let wanted = |sample: &&Sample| sample.figure == figure && sample.contestant == contestant;
    let mut values: Vec<f64> = samples.iter().filter(wanted).map(|sample| sample.value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
