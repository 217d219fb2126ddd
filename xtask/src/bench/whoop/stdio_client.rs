//! An MCP client over stdio that sends one request at a time, so that it measures only the server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Clock ticks per second in `/proc/PID/stat`, on every Linux this runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// Read buffer for a long response, so that reading needs few system calls.
const READ_BUFFER_BYTES: usize = 128 << 10;
/// User and system time are these fields after the name of the program.
const CPU_FIELDS: std::ops::Range<usize> = 11..13;

/// A client with its server process, after the handshake. Dropping it ends the process.
pub(super) struct StdioClient {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl StdioClient {
    pub(super) fn start(command: &mut Command) -> Result<StdioClient> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let stdin = child.stdin.take().context("no input to write to")?;
        let output = child.stdout.take().context("no output to read")?;
        let stdout = BufReader::with_capacity(READ_BUFFER_BYTES, output);
        let mut client = StdioClient { child, stdin, stdout, last_id: 0 };
        let client_info = json!({ "name": "tollgate-bench", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info });
        client.request("initialize", &hello)?;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.send(&format!("{ready}\n"))?;
        Ok(client)
    }

    /// The structured result of a tool and its latency. A failed call is an error, not a measurement.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<(Duration, Value)> {
        let params = json!({ "name": tool, "arguments": arguments });
        let (waited, result) = self.request("tools/call", &params)?;
        let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let content = result.get("structuredContent").cloned().unwrap_or(Value::Null);
        if failed || !content.is_object() || content.get("error").is_some() {
            bail!("`{tool}` with {arguments} failed: {result}");
        }
        Ok((waited, content))
    }

    /// Measures from the first byte of the request to the end of the response line. Parsing is not included:
    /// it takes longer than some responses.
    fn request(&mut self, method: &str, params: &Value) -> Result<(Duration, Value)> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let request = format!("{request}\n");
        let sent = Instant::now();
        self.send(&request)?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                bail!("the server ended before it answered `{method}`");
            }
            let waited = sent.elapsed();
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
        self.stdin.write_all(line.as_bytes())?;
        Ok(self.stdin.flush()?)
    }

    /// Peak resident memory in megabytes.
    pub(super) fn peak_mb(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kb = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
            .context("no VmHWM")?;
        Ok(kb / 1024.0)
    }

    /// CPU time so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, after_name) = stat.rsplit_once(')').context("no name in its stat")?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let spent = fields.get(CPU_FIELDS).context("its stat is too short")?;
        let ticks: f64 = spent.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS_PER_SECOND)
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
