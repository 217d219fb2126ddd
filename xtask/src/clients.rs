//! Real clients through the gate: every client and era, in front of servers of every era and
//! transport, and real servers from npm and PyPI. Each run is one test.

mod real;
mod whoop;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::test::Tally;
use crate::tools::Tools;
use crate::tools::gate::{Gate, Upstream};
use crate::tools::process::Fixture;

/// Two at a time: each run mostly waits for its peers.
const RUNS_AT_ONCE: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Client {
    script: &'static str,
    era: &'static str,
    /// The Inspector starts a process per request; a few runs of it are enough.
    slow: bool,
}

const CLIENTS: &[Client] = &[
    Client { script: "clients/py-client.py", era: "auto", slow: false },
    Client { script: "clients/py-client.py", era: "legacy", slow: false },
    Client { script: "clients/ts-client.mjs", era: "legacy", slow: false },
    Client { script: "clients/ts-client.mjs", era: "auto", slow: false },
    Client { script: "clients/ts-client.mjs", era: "modern", slow: false },
    Client { script: "clients/ts-sdk.mjs", era: "legacy", slow: false },
    Client { script: "clients/inspector.mjs", era: "legacy", slow: true },
    Client { script: "clients/inspector.mjs", era: "modern", slow: true },
];

/// Scripts that set up a gate of their own.
const SCRIPTS: &[&str] = &["clients/names.mjs", "clients/bundle.mjs"];

/// A server with the kit. Its eras say which clients can talk to it without a gate.
struct Server {
    name: &'static str,
    script: &'static str,
    stdio: bool,
    legacy: bool,
    modern: bool,
}

const SERVERS: &[Server] = &[
    server("dual-http", "servers/dual.mjs", false, true, true),
    server("modern-http", "servers/modern-only.mjs", false, false, true),
    server("legacy-http", "servers/legacy-only.mjs", false, true, false),
    server("dual-stdio", "servers/dual.mjs", true, true, true),
    server("modern-stdio", "servers/modern-only.mjs", true, false, true),
    server("legacy-stdio", "servers/legacy-only.mjs", true, true, false),
];

const fn server(
    name: &'static str,
    script: &'static str,
    stdio: bool,
    legacy: bool,
    modern: bool,
) -> Server {
    Server { name, script, stdio, legacy, modern }
}

/// One client at one target.
struct Case {
    name: String,
    client: Client,
    plan: Value,
}

/// The result: one test per run.
#[derive(Debug, Default)]
pub(crate) struct ClientReport {
    pub(crate) tally: Tally,
}

/// All clients through the gate, over HTTP and over stdio, then the real servers.
pub(crate) fn run(tools: &Tools, tollgate: &Path) -> Result<ClientReport> {
    let fixtures = start_http_fixtures(tools)?;
    let upstreams = upstreams(tools, &fixtures);
    let gate = Gate::start(tollgate, &upstreams, &policy())?;
    let mut cases = Vec::new();
    for server in SERVERS {
        for client in wanted_clients(server) {
            cases.push(over_http(&gate, server, client));
            cases.push(over_stdio(tools, &gate, tollgate, server, client));
        }
    }
    cases.extend(at_all_servers(&gate));
    let mut report = ClientReport { tally: run_cases(tools, &cases) };
    if report.tally.failed > 0 {
        println!("the gate said:\n{}", last_lines(&gate.log(), 40));
    }
    drop(gate);
    report.tally = sum(report.tally, real::run(tools, tollgate)?);
    report.tally = sum(report.tally, whoop::run(tools, tollgate)?);
    for own in SCRIPTS {
        report.tally = sum(report.tally, Tally::one(passes(tools, tollgate, own)?));
    }
    Ok(report)
}

/// Whether a script with a gate of its own ends well.
fn passes(tools: &Tools, tollgate: &Path, own: &str) -> Result<bool> {
    let started = Instant::now();
    let mut command = tools.node_script(own);
    let out = command.env("TOLLGATE", tollgate).stdin(Stdio::null()).output();
    let out = out.with_context(|| format!("cannot start {own}"))?;
    let word = if out.status.success() { "ok" } else { "FAILED" };
    println!("{word} {own}, {:.1} s", started.elapsed().as_secs_f64());
    if !out.status.success() {
        println!("{}", last_lines(&String::from_utf8_lossy(&out.stderr), 12));
    }
    Ok(out.status.success())
}

/// The same clients at the servers themselves, where their eras match: checks the harness
/// without a gate.
pub(crate) fn run_all_direct(tools: &Tools) -> Result<ClientReport> {
    let fixtures = start_http_fixtures(tools)?;
    let mut cases = Vec::new();
    for server in SERVERS {
        let fixture = fixtures.iter().find(|(name, _)| *name == server.name);
        for client in wanted_clients(server).filter(|client| meet(server, client)) {
            let target = match fixture {
                Some((_, fixture)) => json!({ "url": fixture.url }),
                None => json!({ "command": tools.node_words(server.script, &["--stdio"]) }),
            };
            cases.push(case(format!("{}, directly", server.name), client, target));
        }
    }
    let real = real::run_direct(tools)?;
    Ok(ClientReport { tally: sum(run_cases(tools, &cases), real) })
}

fn wanted_clients(server: &Server) -> impl Iterator<Item = Client> {
    let slow_too = server.script.ends_with("dual.mjs");
    CLIENTS.iter().copied().filter(move |client| slow_too || !client.slow)
}

fn meet(server: &Server, client: &Client) -> bool {
    match client.era {
        "legacy" => server.legacy,
        "modern" => server.modern,
        _ => true,
    }
}

fn start_http_fixtures(tools: &Tools) -> Result<Vec<(&'static str, Fixture)>> {
    let over_http = SERVERS.iter().filter(|server| !server.stdio);
    over_http
        .map(|server| Ok((server.name, Fixture::start(&mut tools.node_script(server.script))?)))
        .collect()
}

fn upstreams(tools: &Tools, fixtures: &[(&'static str, Fixture)]) -> Vec<(&'static str, Upstream)> {
    let over_http = fixtures.iter().map(|(name, at)| (*name, Upstream::Url(at.url.clone())));
    let over_stdio = SERVERS.iter().filter(|server| server.stdio).map(|server| {
        let words = tools.node_words(server.script, &["--stdio"]);
        (server.name, Upstream::Command(words))
    });
    over_http.chain(over_stdio).collect()
}

/// Everything but one tool. The kit grows tools while it runs, so changes are let through here;
/// pins have their own tests.
fn policy() -> Value {
    json!({
        "version": "1",
        "default": "allow",
        "on_change": "allow",
        "tools": { "delete_everything": { "action": "deny", "reason": "nothing is deleted here" } },
    })
}

fn over_http(gate: &Gate, server: &Server, client: Client) -> Case {
    let target = through_gate(json!({ "url": gate.url(server.name), "headers": bearer(gate) }));
    case(format!("gate before {}", server.name), client, target)
}

/// A command goes through `wrap`; a server at an address through `stdio`.
fn over_stdio(
    tools: &Tools,
    gate: &Gate,
    tollgate: &Path,
    server: &Server,
    client: Client,
) -> Case {
    let (how, words) = if server.stdio {
        let inner = tools.node_words(server.script, &["--stdio"]);
        ("wrap of", gate.wrap_words(tollgate, &inner))
    } else {
        ("stdio for", gate.stdio_words(tollgate, server.name))
    };
    let target = through_gate(json!({ "command": words }));
    case(format!("{how} {}", server.name), client, target)
}

/// The one endpoint of all servers, where names carry the server's.
fn at_all_servers(gate: &Gate) -> Vec<Case> {
    let clients = CLIENTS.iter().filter(|client| !client.slow && client.era != "legacy");
    clients
        .map(|client| {
            let target = json!({
                "url": gate.url_of_all(), "headers": bearer(gate), "prefix": "dual-http__",
                // Several servers offer the same addresses here; that is a test of its own.
                "skip": ["resources"],
            });
            case("gate before all servers".to_owned(), *client, through_gate(target))
        })
        .collect()
}

fn bearer(gate: &Gate) -> Value {
    json!({ "Authorization": format!("Bearer {}", gate.token) })
}

fn through_gate(mut target: Value) -> Value {
    if let Some(fields) = target.as_object_mut() {
        let denied = json!({ "tool": "delete_everything", "code": "denied_by_rule" });
        fields.insert("denied".to_owned(), denied);
    }
    target
}

fn case(name: String, client: Client, mut plan: Value) -> Case {
    if let Some(fields) = plan.as_object_mut() {
        fields.insert("era".to_owned(), client.era.into());
    }
    Case { name, client, plan }
}

/// Runs the cases a few at a time, in order, and prints each verdict.
fn run_cases(tools: &Tools, cases: &[Case]) -> Tally {
    let waiting = Mutex::new(cases.iter());
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = waiting.lock().ok().and_then(|mut cases| cases.next()) {
                    let passed = run_case(tools, case);
                    if let Ok(mut tally) = tally.lock() {
                        *tally = sum(*tally, Tally::one(passed));
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap_or_default()
}

fn run_case(tools: &Tools, case: &Case) -> bool {
    let started = Instant::now();
    let label = format!("{} ({}): {}", case.client.script, case.client.era, case.name);
    let verdict = ask(tools, case.client, &case.plan);
    let seconds = started.elapsed().as_secs_f64();
    let complaints = match &verdict {
        Ok(verdict) => complaints_in(verdict),
        Err(error) => vec![format!("{error:#}")],
    };
    let word = if complaints.is_empty() { "ok" } else { "FAILED" };
    let mut lines = vec![format!("{word} {label}, {seconds:.1} s")];
    lines.extend(complaints.iter().map(|complaint| format!("     {complaint}")));
    println!("{}", lines.join("\n"));
    complaints.is_empty()
}

/// Starts the script with the plan on its standard input and reads the verdict.
fn ask(tools: &Tools, client: Client, plan: &Value) -> Result<Value> {
    let mut command = script(tools, client.script);
    let mut child = command
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", client.script))?;
    let mut stdin = child.stdin.take().context("no input to write to")?;
    stdin.write_all(plan.to_string().as_bytes())?;
    drop(stdin);
    let out = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let last = text.lines().rev().find(|line| line.starts_with('{'));
    let last = last.with_context(|| {
        format!("no verdict: {}", last_lines(&String::from_utf8_lossy(&out.stderr), 12))
    })?;
    Ok(serde_json::from_str(last)?)
}

fn script(tools: &Tools, script: &str) -> Command {
    let is_python = Path::new(script).extension().is_some_and(|extension| extension == "py");
    if is_python { tools.python_script(script) } else { tools.node_script(script) }
}

fn complaints_in(verdict: &Value) -> Vec<String> {
    let steps = verdict.get("steps").and_then(Value::as_array);
    let failed = steps.into_iter().flatten().filter(|step| step.get("ok") != Some(&json!(true)));
    let mut complaints: Vec<String> = failed.map(ToString::to_string).collect();
    if complaints.is_empty() && verdict.get("ok") != Some(&json!(true)) {
        complaints.push("the verdict is not ok".to_owned());
    }
    complaints
}

fn sum(one: Tally, other: Tally) -> Tally {
    Tally { passed: one.passed + other.passed, failed: one.failed + other.failed }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().rev().take(count).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_a_complaint() {
        let good = json!({ "ok": true, "steps": [{ "step": "connect", "ok": true }] });
        assert!(complaints_in(&good).is_empty());
        let bad =
            json!({ "ok": false, "steps": [{ "step": "connect", "ok": false, "error": "no" }] });
        assert_eq!(complaints_in(&bad).len(), 1);
        assert_eq!(complaints_in(&json!({ "ok": false, "steps": [] })).len(), 1);
    }

    #[test]
    fn eras_meet_where_both_know_one() {
        let legacy = server("legacy", "x.mjs", false, true, false);
        let meeting = CLIENTS.iter().filter(|client| meet(&legacy, client)).count();
        assert_eq!(meeting, CLIENTS.iter().filter(|client| client.era != "modern").count());
    }
}
