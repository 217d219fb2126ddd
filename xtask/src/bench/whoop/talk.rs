//! A client on standard streams: one question at a time, so that the time of an answer is the server's.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Ticks of `/proc/PID/stat` on every Linux we know.
const TICKS_PER_SECOND: f64 = 100.0;
/// Room for a long answer, so that it takes few calls of the system.
const ANSWER_BYTES_USUAL: usize = 128 << 10;
/// User and system time are these fields after the name of the program.
const CPU_FIELDS: std::ops::Range<usize> = 11..13;

/// A server that was started and greeted; it ends with its value.
pub(super) struct Talk {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    last_id: u64,
}

impl Talk {
    pub(super) fn start(command: &mut Command) -> Result<Talk> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let ask = child.stdin.take().context("no input to write to")?;
        let output = child.stdout.take().context("no output to read")?;
        let answers = BufReader::with_capacity(ANSWER_BYTES_USUAL, output);
        let mut talk = Talk { child, ask, answers, last_id: 0 };
        let client = json!({ "name": "tollgate-bench", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        talk.request("initialize", &hello)?;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        talk.send(&format!("{ready}\n"))?;
        Ok(talk)
    }

    /// The structured answer of a tool, and how long its line took to come. An answer that says it
    /// failed is no measurement.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<(Duration, Value)> {
        let params = json!({ "name": tool, "arguments": arguments });
        let (waited, result) = self.request("tools/call", &params)?;
        let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let said = result.get("structuredContent").cloned().unwrap_or(Value::Null);
        if failed || !said.is_object() || said.get("error").is_some() {
            bail!("`{tool}` with {arguments} failed: {result}");
        }
        Ok((waited, said))
    }

    /// The time goes from the first byte of the question to the end of the line with the answer: what
    /// a client then does with it is not the server's, and reading it took ours longer than some
    /// answers.
    fn request(&mut self, method: &str, params: &Value) -> Result<(Duration, Value)> {
        self.last_id += 1;
        let id = self.last_id;
        let question = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let question = format!("{question}\n");
        let asked = Instant::now();
        self.send(&question)?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("the server ended before it answered `{method}`");
            }
            let waited = asked.elapsed();
            let mut message: Value =
                serde_json::from_str(&line).with_context(|| format!("not a message: {line:?}"))?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            return match message.get_mut("result") {
                Some(result) => Ok((waited, result.take())),
                None => bail!("`{method}` failed: {message}"),
            };
        }
    }

    fn send(&mut self, line: &str) -> Result<()> {
        self.ask.write_all(line.as_bytes())?;
        Ok(self.ask.flush()?)
    }

    /// The most memory it ever held, in megabytes.
    pub(super) fn peak_mb(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kb = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
            .context("no VmHWM")?;
        Ok(kb / 1024.0)
    }

    /// The processor time it has taken so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, after_name) = stat.rsplit_once(')').context("no name in its stat")?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let spent = fields.get(CPU_FIELDS).context("its stat is too short")?;
        let ticks: f64 = spent.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS_PER_SECOND)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
