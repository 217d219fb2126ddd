//! Child processes and temporary folders that are cleaned up on drop, and ports.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const START_SECONDS_MAX: u64 = 20;

/// A process that is killed when this is dropped.
pub(crate) struct Started {
    pub(crate) child: Child,
}

impl Started {
    /// Its output is discarded.
    pub(crate) fn silent(command: &mut Command) -> Result<Started> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Started { child })
    }

    /// Its output goes to the file, so that a failing run can be understood afterwards.
    pub(crate) fn logged(command: &mut Command, log: &std::path::Path) -> Result<Started> {
        let file = fs::File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Started { child })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A test server over HTTP: it says where it listens in its first line.
pub(crate) struct Fixture {
    pub(crate) url: String,
    /// All that it said there.
    pub(crate) said: Value,
    _process: Started,
}

impl Fixture {
    pub(crate) fn start(command: &mut Command) -> Result<Fixture> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let stdout = child.stdout.take().context("no output to read")?;
        let process = Started { child };
        let mut first = String::new();
        let mut lines = BufReader::new(stdout);
        lines.read_line(&mut first)?;
        // Later output must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let said: Value = serde_json::from_str(&first)
            .with_context(|| format!("{command:?} did not say where it listens: {first:?}"))?;
        let url = said.get("url").and_then(Value::as_str).context("no `url` in its first line")?;
        Ok(Fixture { url: url.to_owned(), said, _process: process })
    }
}

/// A folder that is removed when this is dropped.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("tollgate-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path)?;
        Ok(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until something listens, or until the process that should has ended.
pub(crate) fn wait_for(port: u16, process: &mut Started) -> Result<()> {
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = process.child.try_wait()? {
            bail!("it ended with {status} before it listened");
        }
        if begin.elapsed() > Duration::from_secs(START_SECONDS_MAX) {
            bail!("nothing listens on port {port} after {START_SECONDS_MAX} s");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
