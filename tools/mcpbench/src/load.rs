//! The load itself: sessions, calls, and what they took.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::client::{Client, Target};
use crate::procs::{self, Usage};

#[derive(Clone, Debug)]
pub struct Plan {
    pub sessions: usize,
    /// Measured calls, over all sessions.
    pub calls: u64,
    pub warmup: u64,
    pub max: Duration,
    pub payload: usize,
    /// Calls a second over all sessions; 0 is as fast as possible.
    pub rate: f64,
    pub tool: String,
    pub pid: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub ok: u64,
    pub failures: BTreeMap<&'static str, u64>,
    pub first_failure: Option<String>,
    pub seconds: f64,
    pub nanos: Vec<u64>,
    pub handshake_ms: Vec<f64>,
    pub reconnects: u64,
    pub sse: bool,
    pub tool: String,
    pub before: Usage,
    pub after: Usage,
}

impl Outcome {
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.ok as f64 / self.seconds } else { 0.0 }
    }

    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The value below which a share `q` of the calls fell, in microseconds.
    pub fn quantile(&self, q: f64) -> f64 {
        if self.nanos.is_empty() {
            return f64::NAN;
        }
        let i = ((self.nanos.len() as f64 * q).ceil() as usize).clamp(1, self.nanos.len()) - 1;
        self.nanos[i] as f64 / 1000.0
    }

    /// Processor microseconds that the watched process spent on each call.
    pub fn cpu_us(&self) -> Option<f64> {
        let ticks = self.after.cpu_ticks.checked_sub(self.before.cpu_ticks)?;
        (self.ok > 0 && self.after.processes > 0)
            .then(|| ticks as f64 / procs::TICKS * 1e6 / self.ok as f64)
    }

    pub fn line(&self, label: &str) -> String {
        let mut s = format!(
            "{label:<10} {:>8} ok {:>5} failed {:>7.2} s {:>10.0} calls/s   p50 {:>8.0} us  p90 {:>8.0}  p99 {:>8.0}  p99.9 {:>8.0}  max {:>8.0}",
            self.ok,
            self.failed(),
            self.seconds,
            self.rate(),
            self.quantile(0.50),
            self.quantile(0.90),
            self.quantile(0.99),
            self.quantile(0.999),
            self.quantile(1.0),
        );
        if self.after.processes > 0 {
            s.push_str(&format!(
                "   rss {:.1} MiB (peak {:.1}, {} proc)  cpu {:.0} us/call",
                self.after.rss_kib as f64 / 1024.0,
                self.after.peak_kib as f64 / 1024.0,
                self.after.processes,
                self.cpu_us().unwrap_or(f64::NAN),
            ));
        }
        if self.reconnects > 0 {
            s.push_str(&format!("   reconnects {}", self.reconnects));
        }
        if let Some(f) = &self.first_failure {
            s.push_str(&format!("\n           first failure: {f}  {:?}", self.failures));
        }
        s
    }

    pub fn json(&self, label: &str, sessions: usize) -> String {
        format!(
            r#"{{"label":"{label}","sessions":{sessions},"ok":{},"failed":{},"seconds":{:.3},"calls_per_s":{:.1},"p50_us":{:.1},"p90_us":{:.1},"p99_us":{:.1},"p999_us":{:.1},"max_us":{:.1},"reconnects":{},"sse":{},"tool":"{}","rss_kib":{},"peak_kib":{},"cpu_us_per_call":{}}}"#,
            self.ok,
            self.failed(),
            self.seconds,
            self.rate(),
            self.quantile(0.50),
            self.quantile(0.90),
            self.quantile(0.99),
            self.quantile(0.999),
            self.quantile(1.0),
            self.reconnects,
            self.sse,
            self.tool,
            self.after.rss_kib,
            self.after.peak_kib,
            self.cpu_us().map_or("null".into(), |v| format!("{v:.1}")),
        )
    }
}

struct Shared {
    /// Calls still to be taken.
    left: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn take(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok()
    }
}

#[derive(Default)]
struct Part {
    nanos: Vec<u64>,
    failures: BTreeMap<&'static str, u64>,
    first_failure: Option<String>,
    handshake_ms: f64,
    reconnects: u64,
    sse: bool,
    tool: String,
}

impl Part {
    fn fail(&mut self, f: &crate::client::Failure) {
        *self.failures.entry(f.kind()).or_default() += 1;
        if self.first_failure.is_none() {
            self.first_failure = Some(f.to_string());
        }
    }
}

async fn session(
    number: usize,
    target: Target,
    plan: Plan,
    shared: Arc<Shared>,
    ready: Arc<Barrier>,
    go: Arc<Barrier>,
) -> Part {
    let mut part = Part::default();
    let mut client = Client::new(target);
    let began = Instant::now();
    let opened = client.open(&plan.tool).await;
    part.handshake_ms = began.elapsed().as_secs_f64() * 1000.0;
    let text = "x".repeat(plan.payload);
    let mut alive = true;
    match opened {
        Ok(tool) => part.tool = tool,
        Err(f) => {
            part.fail(&f);
            alive = false;
        }
    }
    let tool = part.tool.clone();
    let each = plan.warmup / plan.sessions as u64;
    if alive {
        for n in 0..each {
            if client.call(&tool, &text, &format!("w{number}-{n}.")).await.is_err() {
                break;
            }
        }
    }
    ready.wait().await;
    go.wait().await;
    let start = Instant::now();
    let gap = (plan.rate > 0.0).then(|| Duration::from_secs_f64(plan.sessions as f64 / plan.rate));
    let offset = gap.map(|g| g.mul_f64(number as f64 / plan.sessions as f64));
    let mut n = 0u64;
    let mut bad_in_a_row = 0;
    while alive && shared.take() {
        let nonce = format!("n{number}-{n}.");
        let mut from = Instant::now();
        if let (Some(g), Some(o)) = (gap, offset) {
            let due = start + o + g.mul_f64(n as f64);
            if due > from {
                tokio::time::sleep_until(due.into()).await;
            }
            // Measured from when the call was due, so that a stall counts against later calls too.
            from = due;
        }
        match client.call(&tool, &text, &nonce).await {
            Ok(()) => {
                part.nanos.push(from.elapsed().as_nanos() as u64);
                bad_in_a_row = 0;
            }
            Err(f) => {
                part.fail(&f);
                bad_in_a_row += 1;
                if bad_in_a_row >= 20 {
                    alive = false;
                }
            }
        }
        n += 1;
    }
    part.reconnects = client.reconnects;
    part.sse = client.sse_answers > 0;
    client.close().await;
    part
}

pub async fn run(target: &Target, plan: &Plan) -> Outcome {
    let shared =
        Arc::new(Shared { left: AtomicU64::new(plan.calls), stop: AtomicBool::new(false) });
    let ready = Arc::new(Barrier::new(plan.sessions + 1));
    let go = Arc::new(Barrier::new(plan.sessions + 1));
    let mut tasks = Vec::new();
    for n in 0..plan.sessions {
        tasks.push(tokio::spawn(session(
            n,
            target.clone(),
            plan.clone(),
            shared.clone(),
            ready.clone(),
            go.clone(),
        )));
    }
    ready.wait().await;
    let mut out = Outcome::default();
    if let Some(pid) = plan.pid {
        out.before = procs::tree(pid);
    }
    let began = Instant::now();
    go.wait().await;
    let timer = {
        let shared = shared.clone();
        let max = plan.max;
        tokio::spawn(async move {
            tokio::time::sleep(max).await;
            shared.stop.store(true, Ordering::Relaxed);
        })
    };
    let mut parts = Vec::new();
    for t in tasks {
        parts.push(t.await.expect("a session does not panic"));
    }
    out.seconds = began.elapsed().as_secs_f64();
    timer.abort();
    if let Some(pid) = plan.pid {
        out.after = procs::tree(pid);
    }
    for p in parts {
        out.ok += p.nanos.len() as u64;
        out.nanos.extend(p.nanos);
        for (k, v) in p.failures {
            *out.failures.entry(k).or_default() += v;
        }
        if out.first_failure.is_none() {
            out.first_failure = p.first_failure;
        }
        out.handshake_ms.push(p.handshake_ms);
        out.reconnects += p.reconnects;
        out.sse |= p.sse;
        if out.tool.is_empty() {
            out.tool = p.tool;
        }
    }
    out.nanos.sort_unstable();
    out
}
