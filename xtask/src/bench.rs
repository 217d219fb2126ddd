//! `cargo xtask bench gate`: what the gate costs, as ratios to a direct connection measured in the same run.
//! The load generator is `tools/mcpbench`, a member of the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tools::process::{Scratch, Started, free_port};
use gate_settings::{GateSettings, POWER, PROCESS, PROCESS_BUSY_POLL};

pub(crate) mod catalog;
pub(crate) mod cost;
mod gate_settings;
mod no_audit_build;
pub(crate) mod pages;
pub(crate) mod scale;
pub(crate) mod whoop;

/// Tools in the policy and on the upstream; the performance target names this number.
const TOOLS: usize = 50;
/// A limit that is checked on every call and never reached.
const LIMIT_MAX: u64 = 1_000_000_000;

struct Plan {
    calls: u32,
    rounds: u32,
    sessions: String,
}

/// `cargo xtask bench gate [--quick] [--without-audit] [--rows N]`; N audit rows (say 10,000,000) need
/// about 400 bytes each.
pub(crate) fn gate(root: &Path, args: &[String]) -> Result<()> {
    let quick = args.iter().any(|arg| arg == "--quick");
    let plan = Plan {
        calls: if quick { 4000 } else { 20_000 },
        rounds: if quick { 1 } else { 3 },
        sessions: "1,16".to_owned(),
    };
    let rows = args.iter().position(|arg| arg == "--rows").and_then(|at| args.get(at + 1));
    let rows: Option<u32> = rows.map(|rows| rows.parse().context("--rows N")).transpose()?;
    let bench = build_mcpbench(root)?;
    let tollgate = build_tollgate(root)?;
    let upstream_port = free_port()?;
    let _upstream = Started::silent(
        Command::new(&bench)
            .args(["upstream", "--listen", &format!("127.0.0.1:{upstream_port}")])
            .args(["--tools", &TOOLS.to_string()]),
    )?;
    wait_for(upstream_port)?;
    println!(
        "| case | sessions | added p50 | added p99 | throughput of direct | CPU per call | memory |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for settings in [PROCESS, PROCESS_BUSY_POLL, POWER] {
        let gate = RunningGate::start(&tollgate, upstream_port, settings, TOOLS)?;
        compare(&bench, upstream_port, &gate, &settings.label(), &plan)?;
    }
    if args.iter().any(|arg| arg == "--without-audit") {
        let gate =
            RunningGate::start(&no_audit_build::build(root)?, upstream_port, PROCESS, TOOLS)?;
        compare(&bench, upstream_port, &gate, "no audit (special build)", &plan)?;
    }
    nginx_baseline(&bench, upstream_port, &plan)?;
    if let Some(rows) = rows {
        with_many_rows(&bench, &tollgate, upstream_port, rows, &plan)?;
    }
    flat_cost(&bench, &tollgate, upstream_port, &plan)?;
    idle_and_busy_memory(&bench, &tollgate, upstream_port)?;
    cold_start(&tollgate, upstream_port)
}

/// One alternating comparison, printed as rows of the table.
fn compare(
    bench: &Path,
    upstream: u16,
    gate: &RunningGate,
    label: &str,
    plan: &Plan,
) -> Result<()> {
    compare_at(
        bench,
        upstream,
        &gate.url(),
        Some(&gate.token),
        gate.process.child.id(),
        label,
        plan,
    )
}

fn compare_at(
    bench: &Path,
    upstream: u16,
    url: &str,
    token: Option<&str>,
    pid: u32,
    label: &str,
    plan: &Plan,
) -> Result<()> {
    let out = Command::new(bench)
        .args(["compare", "--direct", &format!("http://127.0.0.1:{upstream}/mcp")])
        .args(["--gateway", url, "--pid", &pid.to_string()])
        .args(token.iter().flat_map(|token| ["--token", token]))
        .args(["--sessions", &plan.sessions, "--calls", &plan.calls.to_string()])
        .args(["--rounds", &plan.rounds.to_string(), "--json"])
        .output()
        .context("cannot run mcpbench")?;
    let text = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        bail!("mcpbench failed: {text}{}", String::from_utf8_lossy(&out.stderr));
    }
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let row: Value = serde_json::from_str(line)?;
        println!("{}", table_row(label, &row));
    }
    Ok(())
}

fn table_row(label: &str, row: &Value) -> String {
    let number = |key: &str| row.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    format!(
        "| {label} | {} | {:+.0} µs | {:+.0} µs | {:.0} % | {:.0} µs | {:.0} MB |",
        number("sessions"),
        number("added_p50_us"),
        number("added_p99_us"),
        100.0 * number("throughput_ratio"),
        number("cpu_us_per_call"),
        number("rss_mib"),
    )
}

/// nginx as a plain reverse proxy, if it is installed: the cost of forwarding bytes without any rules.
fn nginx_baseline(bench: &Path, upstream: u16, plan: &Plan) -> Result<()> {
    let Ok(version) = Command::new("nginx").arg("-v").output() else {
        println!("| nginx (not installed) | | | | | | |");
        return Ok(());
    };
    let home = Scratch::new("nginx")?;
    let port = free_port()?;
    let folder = home.path.display();
    let settings = format!(
        "daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
         events {{ worker_connections 4096; }}
         http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
           fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
           keepalive_requests 100000000;
           upstream up {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 100000000; }}
           server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://up; proxy_http_version 1.1;
             proxy_set_header Connection \"\"; }} }} }}\n"
    );
    let file = home.path.join("nginx.conf");
    std::fs::write(&file, settings)?;
    let nginx = Started::silent(Command::new("nginx").arg("-c").arg(&file))?;
    wait_for(port)?;
    let version = String::from_utf8_lossy(&version.stderr);
    let version = version.trim().rsplit('/').next().unwrap_or_default();
    let label = format!("nginx {version}, plain reverse proxy");
    let url = format!("http://127.0.0.1:{port}/mcp");
    compare_at(bench, upstream, &url, None, nginx.child.id(), &label, plan)
}

/// The cost per call when the audit log already holds very many rows.
fn with_many_rows(
    bench: &Path,
    tollgate: &Path,
    upstream: u16,
    rows: u32,
    plan: &Plan,
) -> Result<()> {
    let home = Scratch::new("rows")?;
    let port = free_port()?;
    let token = set_up(tollgate, &home.path, upstream, PROCESS, TOOLS)?;
    let (folder, calls) = (home.path.join("audit"), (rows / 2).to_string());
    // A call has two rows.
    cargo(
        &[
            "run",
            "--release",
            "-p",
            "store",
            "--example",
            "ledger_fill",
            "--",
            &folder.to_string_lossy(),
            &calls,
        ],
        None,
    )?;
    let process = Started::silent(up(tollgate, &home.path, port))?;
    wait_for(port)?;
    let gate = RunningGate { process, port, token, _home: home };
    let one = Plan { calls: plan.calls, rounds: plan.rounds, sessions: "1".to_owned() };
    compare(bench, upstream, &gate, &format!("after {rows} audit rows"), &one)
}

/// The cost per call with few and with very many policy entries.
fn flat_cost(bench: &Path, tollgate: &Path, upstream: u16, plan: &Plan) -> Result<()> {
    for entries in [10, 10_000] {
        let gate = RunningGate::start(tollgate, upstream, PROCESS, entries)?;
        let one = Plan { calls: plan.calls, rounds: plan.rounds, sessions: "1".to_owned() };
        compare(bench, upstream, &gate, &format!("{entries} policy entries"), &one)?;
    }
    Ok(())
}

fn idle_and_busy_memory(bench: &Path, tollgate: &Path, upstream: u16) -> Result<()> {
    let gate = RunningGate::start(tollgate, upstream, PROCESS, TOOLS)?;
    let at_rest = resident_mb(gate.process.child.id())?;
    let status = Command::new(bench)
        .args(["load", "--url", &gate.url(), "--token", &gate.token])
        .args(["--sessions", "1000", "--calls", "20000", "--max-seconds", "20"])
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("the load of 1,000 sessions had failures");
    }
    let busy = resident_mb(gate.process.child.id())?;
    println!("\nmemory: {at_rest:.0} MB at rest, {busy:.0} MB with 1,000 sessions");
    Ok(())
}

/// From starting the process to the first answered call.
fn cold_start(tollgate: &Path, upstream: u16) -> Result<()> {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let home = Scratch::new("cold")?;
        let port = free_port()?;
        let token = set_up(tollgate, &home.path, upstream, PROCESS, TOOLS)?;
        let begin = Instant::now();
        let _gate = Started::silent(up(tollgate, &home.path, port))?;
        while !answers(port, &token) {
            if begin.elapsed() > Duration::from_secs(10) {
                bail!("the gate did not answer within 10 s");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(begin.elapsed());
    }
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "cold start to the first answered call: {:.0} ms (median of 5)",
        median.as_secs_f64() * 1e3
    );
    Ok(())
}

fn answers(port: u16, token: &str) -> bool {
    use std::io::{Read, Write};
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}"#;
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    let request = format!(
        "POST /mcp/up HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

/// A gate with one upstream, one policy and one grant, in a temporary home.
struct RunningGate {
    process: Started,
    port: u16,
    token: String,
    _home: Scratch,
}

impl RunningGate {
    fn start(
        tollgate: &Path,
        upstream: u16,
        settings: GateSettings,
        entries: usize,
    ) -> Result<RunningGate> {
        let home = Scratch::new("gate")?;
        let port = free_port()?;
        let token = set_up(tollgate, &home.path, upstream, settings, entries)?;
        let process = Started::silent(up(tollgate, &home.path, port))?;
        wait_for(port)?;
        Ok(RunningGate { process, port, token, _home: home })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp/up", self.port)
    }
}

fn up(tollgate: &Path, home: &Path, port: u16) -> &'static mut Command {
    let mut command = Command::new(tollgate);
    command.arg("--home").arg(home).args(["up", "--listen", &format!("127.0.0.1:{port}")]);
    // The benchmark makes a handful of these.
    Box::leak(Box::new(command))
}

fn set_up(
    tollgate: &Path,
    home: &Path,
    upstream: u16,
    settings: GateSettings,
    entries: usize,
) -> Result<String> {
    std::fs::create_dir_all(home)?;
    std::fs::write(home.join("tollgate.toml"), settings.text())?;
    let policy_file = home.join("bench-policy.json");
    std::fs::write(&policy_file, policy(entries).to_string())?;
    let run = |args: &[&str]| -> Result<String> {
        let out = Command::new(tollgate).arg("--home").arg(home).args(args).output()?;
        if !out.status.success() {
            bail!("`tollgate {}` failed: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    run(&["server", "add", "up", "--url", &format!("http://127.0.0.1:{upstream}/mcp")])?;
    run(&["policy", "set", "bench", &policy_file.to_string_lossy()])?;
    let grant: Value = serde_json::from_str(&run(&[
        "grant", "create", "bench", "--server", "up=bench", "--json",
    ])?)?;
    let token = grant
        .get("token")
        .and_then(Value::as_str)
        .context("`grant create --json` printed no token")?;
    Ok(token.to_owned())
}

fn policy(entries: usize) -> Value {
    let limit = serde_json::json!({ "limits": [{ "counter": "calls", "window": "minute", "max": LIMIT_MAX, "scope": "grant" }] });
    let mut tools = serde_json::Map::new();
    tools.insert("echo".to_owned(), limit.clone());
    for n in 1..entries {
        tools.insert(format!("tool_{n}"), limit.clone());
    }
    serde_json::json!({ "version": "1", "default": "deny", "tools": tools })
}

fn build_mcpbench(root: &Path) -> Result<PathBuf> {
    cargo(&["build", "--release", "--locked", "--package", "mcpbench"], None)?;
    Ok(target_folder(root).join("release/mcpbench"))
}

fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The release build, or the one that `TOLLGATE_BIN` names.
fn build_tollgate(root: &Path) -> Result<PathBuf> {
    if let Some(built) = std::env::var_os("TOLLGATE_BIN") {
        return Ok(built.into());
    }
    cargo(&["build", "--release", "--package", "tollgate"], None)?;
    Ok(target_folder(root).join("release/tollgate"))
}

fn cargo(args: &[&str], target: Option<&Path>) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).arg("--quiet");
    if let Some(target) = target {
        command.env("CARGO_TARGET_DIR", target);
    }
    if !command.status()?.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(())
}

fn wait_for(port: u16) -> Result<()> {
    let begin = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begin.elapsed() > Duration::from_secs(10) {
            bail!("nothing listens on port {port} after 10 s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn resident_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kb = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .context("no VmRSS")?;
    Ok(kb / 1024.0)
}
