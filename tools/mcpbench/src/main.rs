//! mcpbench: what does an MCP gateway cost?
//!
//! `upstream` serves a minimal MCP server, `load` drives any MCP endpoint, and `compare` drives the
//! upstream directly and through a gateway in turn and prints the ratios.

mod args;
mod client;
mod events;
mod load;
mod procs;
mod upstream;

use std::time::Duration;

use args::Args;
use client::{Kind, Target};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use load::{Outcome, Plan};

const USAGE: &str = "usage:
  mcpbench upstream [--listen 127.0.0.1:9100 | --stdio] [--sse] [--stateless] [--get-stream] [--tools N] [--delay-us N] [--verbose]
  mcpbench load    --url http://127.0.0.1:PORT/mcp [options]
  mcpbench load    [options] -- COMMAND ARGS...        (a gateway that speaks stdio, one process a session)
  mcpbench compare --direct URL --gateway URL [options] [-- COMMAND ARGS...]
options:
  --sessions N[,N...]  concurrent MCP sessions, each with one call in flight (default 1,16)
  --calls N            measured calls a run (default 20000)
  --max-seconds N      bound of each run (default 10)
  --warmup N           calls before measuring (default 500)
  --payload N          bytes of argument text (default 64)
  --rate N             calls a second, open loop; latency counts from when a call was due
  --rounds N           compare: alternating rounds of direct and gateway; medians are reported (default 3)
  --token T            bearer token (compare: for the gateway only)
  --header 'K: V'      further header (compare: for the gateway only); may be repeated
  --tool NAME          tool to call; a prefixed name such as up_echo is found too (default echo)
  --protocol V         MCP version to offer (default 2025-06-18)
  --timeout-ms N       per call (default 10000)
  --pid N              process whose memory and processor time to report, children included
  --label NAME         name in the output
  --json               one JSON object a run instead of text
  --allow-remote       permit a target that is not on loopback";

fn headers(a: &Args) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut out = Vec::new();
    if let Some(t) = a.get("token") {
        let v = HeaderValue::from_str(&format!("Bearer {t}")).map_err(|e| e.to_string())?;
        out.push((AUTHORIZATION, v));
    }
    for h in a.all("header") {
        let (k, v) = h.split_once(':').ok_or("--header wants 'Name: value'")?;
        out.push((
            k.trim().parse().map_err(|_| format!("bad header name {k}"))?,
            HeaderValue::from_str(v.trim()).map_err(|e| e.to_string())?,
        ));
    }
    Ok(out)
}

fn target(a: &Args, kind: Kind, with_headers: bool) -> Result<Target, String> {
    Ok(Target {
        kind,
        headers: if with_headers { headers(a)? } else { Vec::new() },
        protocol: a.get("protocol").unwrap_or("2025-06-18").to_string(),
        timeout: Duration::from_millis(a.num("timeout-ms", 10_000)?),
    })
}

fn plan(a: &Args) -> Result<(Vec<usize>, Plan), String> {
    let sessions: Vec<usize> = a
        .get("sessions")
        .unwrap_or("1,16")
        .split(',')
        .map(|s| s.trim().parse().map_err(|_| format!("--sessions: {s:?}")))
        .collect::<Result<_, _>>()?;
    if sessions.contains(&0) {
        return Err("--sessions must not be 0".into());
    }
    Ok((
        sessions,
        Plan {
            sessions: 1,
            calls: a.num("calls", 20_000)?,
            warmup: a.num("warmup", 500)?,
            max: Duration::from_secs_f64(a.num("max-seconds", 10.0)?),
            payload: a.num("payload", 64)?,
            rate: a.num("rate", 0.0)?,
            tool: a.get("tool").unwrap_or("echo").to_string(),
            pid: a.get("pid").map(str::parse).transpose().map_err(|_| "--pid: not a number")?,
        },
    ))
}

const KNOWN: [&str; 19] = [
    "url",
    "direct",
    "gateway",
    "sessions",
    "calls",
    "max-seconds",
    "warmup",
    "payload",
    "rate",
    "rounds",
    "token",
    "header",
    "tool",
    "protocol",
    "timeout-ms",
    "pid",
    "label",
    "json",
    "allow-remote",
];

fn gateway_kind(a: &Args, name: &str) -> Result<Kind, String> {
    match (a.get(name), a.rest.is_empty()) {
        (Some(url), true) => Target::http(url, a.has("allow-remote")),
        (None, false) => Ok(Kind::Stdio { command: a.rest.clone() }),
        _ => Err(format!("give either --{name} URL or -- COMMAND\n{USAGE}")),
    }
}

async fn load_command(a: &Args) -> Result<bool, String> {
    a.known(&KNOWN)?;
    let t = target(a, gateway_kind(a, "url")?, true)?;
    let (sessions, mut p) = plan(a)?;
    let label = a.get("label").unwrap_or("load");
    let mut clean = true;
    for s in sessions {
        p.sessions = s;
        let o = load::run(&t, &p).await;
        clean &= o.failed() == 0 && o.ok > 0;
        if a.has("json") {
            println!("{}", o.json(label, s));
        } else {
            println!("sessions {s:>3}  {}", o.line(label));
        }
    }
    Ok(clean)
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(|a, b| a.total_cmp(b));
    match v.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => v[n / 2],
        n => (v[n / 2 - 1] + v[n / 2]) / 2.0,
    }
}

async fn compare_command(a: &Args) -> Result<bool, String> {
    a.known(&KNOWN)?;
    let direct_url = a.get("direct").ok_or("compare needs --direct URL")?;
    let direct = target(a, Target::http(direct_url, a.has("allow-remote"))?, false)?;
    let gateway = target(a, gateway_kind(a, "gateway")?, true)?;
    let rounds: usize = a.num("rounds", 3)?;
    let label = a.get("label").unwrap_or("gateway");
    let (sessions, mut p) = plan(a)?;
    let pid = p.pid;
    let mut clean = true;
    for s in sessions {
        p.sessions = s;
        let mut d: Vec<Outcome> = Vec::new();
        let mut g: Vec<Outcome> = Vec::new();
        for _ in 0..rounds {
            p.pid = None;
            d.push(load::run(&direct, &p).await);
            p.pid = pid;
            g.push(load::run(&gateway, &p).await);
            for (name, o) in [("direct", d.last()), (label, g.last())] {
                let o = o.expect("just pushed");
                clean &= o.failed() == 0 && o.ok > 0;
                if !a.has("json") {
                    println!("sessions {s:>3}  {}", o.line(name));
                }
            }
        }
        let m = |v: &[Outcome], f: &dyn Fn(&Outcome) -> f64| median(v.iter().map(f).collect());
        let rate = |o: &Outcome| o.rate();
        let p50 = |o: &Outcome| o.quantile(0.5);
        let p99 = |o: &Outcome| o.quantile(0.99);
        let cpu = |o: &Outcome| o.cpu_us().unwrap_or(f64::NAN);
        let last = g.last().expect("a round");
        let (dr, gr) = (m(&d, &rate), m(&g, &rate));
        let (d50, g50) = (m(&d, &p50), m(&g, &p50));
        let (d99, g99) = (m(&d, &p99), m(&g, &p99));
        let failed: u64 = g.iter().map(Outcome::failed).sum();
        if a.has("json") {
            println!(
                r#"{{"label":"{label}","sessions":{s},"rounds":{rounds},"direct_calls_per_s":{dr:.1},"gateway_calls_per_s":{gr:.1},"throughput_ratio":{:.4},"direct_p50_us":{d50:.1},"gateway_p50_us":{g50:.1},"added_p50_us":{:.1},"direct_p99_us":{d99:.1},"gateway_p99_us":{g99:.1},"added_p99_us":{:.1},"gateway_failed":{failed},"rss_mib":{:.1},"peak_mib":{:.1},"cpu_us_per_call":{},"sse":{},"reconnects":{}}}"#,
                gr / dr,
                g50 - d50,
                g99 - d99,
                last.after.rss_kib as f64 / 1024.0,
                last.after.peak_kib as f64 / 1024.0,
                Some(m(&g, &cpu))
                    .filter(|v| v.is_finite())
                    .map_or("null".into(), |v| format!("{v:.1}")),
                last.sse,
                last.reconnects,
            );
        } else {
            println!(
                "sessions {s:>3}  => {label}: {:.1}% of direct throughput ({gr:.0} of {dr:.0} calls/s); added p50 {:+.0} us, p99 {:+.0} us; failed {failed}\n",
                100.0 * gr / dr,
                g50 - d50,
                g99 - d99,
            );
        }
    }
    Ok(clean)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let switches = ["stdio", "sse", "stateless", "get-stream", "verbose", "json", "allow-remote"];
    let args = match Args::parse(words, &switches) {
        Ok(a) => a,
        Err(e) => {
            eprintln!("{e}\n{USAGE}");
            std::process::exit(2);
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let result = runtime.block_on(async {
        match command.as_str() {
            "upstream" => upstream::run(&args).await.map(|()| true),
            "load" => load_command(&args).await,
            "compare" => compare_command(&args).await,
            _ => Err(USAGE.to_string()),
        }
    });
    match result {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2);
        }
    }
}
