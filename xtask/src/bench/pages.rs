//! `cargo xtask bench pages`: how fast the dashboard answers with a million audit rows and 500 tools, and on a
//! small home. Each page is fetched over a new connection, as a browser's first visit does.

mod tail;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::gate_settings::PROCESS;
use super::{
    Scratch, Started, build_mcpbench, build_tollgate, cargo, free_port, set_up, target_folder,
    wait_for,
};

const TOOLS: usize = 500;
const ROWS: u32 = 1_000_000;
const FETCHES: usize = 21;
/// The bars of the issue.
const MEDIAN_MS_MAX: f64 = 100.0;
const FIRST_BYTE_MS_MAX: f64 = 20.0;
const BYTES_MAX: usize = 150_000;

/// `{audit}` is the number of an entry.
const PAGES: [&str; 24] = [
    "/",
    "/approvals",
    "/audit",
    "/audit?tool=echo",
    "/audit?text=nothing-has-this-text",
    "/audit/{audit}",
    "/servers",
    "/servers/up",
    "/servers/up/tools/echo",
    "/policies",
    "/policies/bench",
    "/policies/bench?server=up",
    "/grants",
    "/grants/bench",
    "/catalogue",
    "/catalogue/up",
    "/catalogue/up/echo",
    "/stack",
    "/accounts",
    "/health",
    "/notifications",
    "/people",
    "/your-sign-in",
    "/audit/verify",
];

/// One fetched page.
struct Fetched {
    first_byte: Duration,
    whole: Duration,
    bytes: usize,
}

/// `cargo xtask bench pages [--rows N] [--debug]`. The bars are for release builds; debug builds show in a minute
/// whether it runs, and which page is far off.
pub(crate) fn pages(root: &Path, args: &[String]) -> Result<()> {
    let rows = args.iter().position(|arg| arg == "--rows").and_then(|at| args.get(at + 1));
    let rows: u32 = rows.map_or(Ok(ROWS), |rows| rows.parse()).context("--rows N")?;
    let is_release = !args.iter().any(|arg| arg == "--debug");
    let build = Build::make(root, is_release)?;
    println!("| home | page | first byte | whole page | bytes |");
    println!("| --- | --- | --- | --- | --- |");
    measure(&build, "small", 0)?;
    measure(&build, &format!("{rows} rows, {TOOLS} tools"), rows)?;
    tail::compare(&build)
}

/// The programs that are measured, and what they are measured with.
struct Build {
    bench: PathBuf,
    tollgate: PathBuf,
    is_release: bool,
}

impl Build {
    fn make(root: &Path, is_release: bool) -> Result<Build> {
        if is_release {
            let (bench, tollgate) = (build_mcpbench(root)?, build_tollgate(root)?);
            return Ok(Build { bench, tollgate, is_release });
        }
        cargo(&["build", "-p", "mcpbench", "-p", "tollgate"], None)?;
        let folder = target_folder(root).join("debug");
        let named = std::env::var_os("TOLLGATE_BIN").map(PathBuf::from);
        let tollgate = named.unwrap_or_else(|| folder.join("tollgate"));
        Ok(Build { bench: folder.join("mcpbench"), tollgate, is_release })
    }

    /// Fills the audit log of a home.
    fn fill(&self, home: &Path, rows: u32) -> Result<()> {
        // A call has two rows.
        let (folder, calls) = (home.join("audit"), (rows / 2).to_string());
        let release: &[&str] = if self.is_release { &["--release"] } else { &[] };
        let example = ["-p", "store", "--example", "ledger_fill", "--"];
        cargo(&[&["run"], release, &example, &[&folder.to_string_lossy(), &calls]].concat(), None)
    }
}

fn measure(build: &Build, label: &str, rows: u32) -> Result<()> {
    let Build { bench, tollgate, .. } = build;
    let upstream_port = free_port()?;
    let tools = if rows == 0 { 5 } else { TOOLS };
    let _upstream = Started::silent(
        Command::new(bench)
            .args(["upstream", "--listen", &format!("127.0.0.1:{upstream_port}")])
            .args(["--tools", &tools.to_string()]),
    )?;
    wait_for(upstream_port)?;
    let home = Scratch::new("pages")?;
    set_up(tollgate, &home.path, upstream_port, PROCESS, tools)?;
    if rows > 0 {
        build.fill(&home.path, rows)?;
    }
    let port = free_port()?;
    let (gate, link) = start(tollgate, &home.path, port)?;
    let gate = Gate(gate);
    let cookie = sign_in(port, &link)?;
    let entry = if rows > 0 { rows / 2 * 2 - 1 } else { 5 };
    for page in PAGES {
        let path = page.replace("{audit}", &entry.to_string());
        let mut all: Vec<Fetched> = Vec::new();
        for _ in 0..FETCHES {
            all.push(get(port, &path, &cookie)?);
        }
        report(label, page, &mut all, rows == 0);
    }
    drop(gate);
    Ok(())
}

fn report(label: &str, page: &str, all: &mut [Fetched], is_small: bool) {
    let middle = all.len() / 2;
    all.sort_by_key(|fetched| fetched.first_byte);
    let first_byte = all.get(middle).map_or(0.0, |one| one.first_byte.as_secs_f64() * 1000.0);
    all.sort_by_key(|fetched| fetched.whole);
    let whole = all.get(middle).map_or(0.0, |one| one.whole.as_secs_f64() * 1000.0);
    let bytes = all.iter().map(|fetched| fetched.bytes).max().unwrap_or(0);
    let late = is_small && first_byte > FIRST_BYTE_MS_MAX;
    let misses = whole > MEDIAN_MS_MAX || bytes > BYTES_MAX || late;
    let mark = if misses { " (over the bar)" } else { "" };
    println!("| {label} | `{page}` | {first_byte:.1} ms | {whole:.1} ms | {bytes}{mark} |");
}

/// Ends the gate with the measurement.
struct Gate(Child);

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gate, and the link that it printed.
fn start(tollgate: &Path, home: &Path, port: u16) -> Result<(Child, String)> {
    let mut child = Command::new(tollgate)
        .arg("--home")
        .arg(home)
        .args(["--json", "up", "--listen", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut said = String::new();
    let stdout = child.stdout.take().context("no output to read")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said)?;
    let said: Value = serde_json::from_str(&said).context("`up --json` printed no JSON")?;
    let link = said.get("dashboard").and_then(Value::as_str).context("no link was printed")?;
    Ok((child, link.to_owned()))
}

fn sign_in(port: u16, link: &str) -> Result<String> {
    let token = link.split("token=").nth(1).context("the link has no token")?;
    let body = format!("token={token}");
    let request = format!(
        "POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: http://127.0.0.1:{port}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let (text, _) = exchange(port, &request)?;
    let cookie = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next())?
    });
    Ok(cookie.context("the sign-in set no cookie")?.to_owned())
}

fn get(port: u16, path: &str, cookie: &str) -> Result<Fetched> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
    );
    let (text, fetched) = exchange(port, &request)?;
    let status = text.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        bail!("`{path}` answered `{status}`");
    }
    Ok(fetched)
}

fn exchange(port: u16, request: &str) -> Result<(String, Fetched)> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(request.as_bytes())?;
    let mut all = vec![0];
    stream.read_exact(&mut all)?;
    let first_byte = begin.elapsed();
    stream.read_to_end(&mut all)?;
    let fetched = Fetched { first_byte, whole: begin.elapsed(), bytes: all.len() };
    Ok((String::from_utf8_lossy(&all).into_owned(), fetched))
}
