//! A temporary home, the binary running on it, and commands of its owner.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http_client::Client;
use crate::recorder::Recorder;

pub(crate) struct Gate {
    pub(crate) folder: TempDir,
    pub(crate) home: PathBuf,
    pub(crate) port: u16,
    pub(crate) child: Option<Child>,
    /// Postgres, instead of the home.
    pub(crate) store: Option<String>,
    starts: usize,
}

/// How often the random parts are repeated.
pub(crate) fn rounds(usual: usize) -> usize {
    number("TOLLGATE_ROUNDS", usual)
}

/// A count that a longer run sets in the environment.
pub(crate) fn number(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A varying number below `bound`.
pub(crate) fn any_below(bound: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % bound.max(1)
}

/// A stopwatch that leaves out spans in which this process did not run: a test and gate that are stopped
/// together, or a sleeping machine, are not a delay of the gate.
pub(crate) struct Watch(u64);

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch(awake_ms())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(awake_ms() - self.0)
    }
}

/// Milliseconds that this process was seen to run.
fn awake_ms() -> u64 {
    const TICK: Duration = Duration::from_millis(2);
    const GAP_MS_MAX: u64 = 200;
    static AWAKE_MS: AtomicU64 = AtomicU64::new(0);
    static TICKING: Once = Once::new();
    TICKING.call_once(|| {
        std::thread::spawn(|| {
            let mut last = Instant::now();
            loop {
                std::thread::sleep(TICK);
                let gap = u64::try_from(last.elapsed().as_millis()).unwrap();
                last += Duration::from_millis(gap);
                AWAKE_MS.fetch_add(gap.min(GAP_MS_MAX), Ordering::Relaxed);
            }
        });
    });
    AWAKE_MS.load(Ordering::Relaxed)
}

/// Polls until it holds; returns how long that took.
pub(crate) fn until(what: &str, wait: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Watch::start();
    while !holds() {
        assert!(started.elapsed() < wait, "{what}: not within {wait:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    started.elapsed()
}

/// Denies `secret`, allows three calls of `limited`, needs an approval for `pay`, and allows the rest.
pub(crate) fn rules() -> Value {
    json!({
        "version": "1",
        "default": "allow",
        "tools": {
            "limited": { "limits": [{ "window": "hour", "max": 3 }] },
            "secret": { "action": "deny", "reason": "no secrets" },
            "pay": { "action": "require_approval" },
        },
    })
}

pub(crate) const TOOLS: &[&str] = &["echo", "other", "limited", "secret", "pay"];

/// The token for `/metrics` of every test gate.
pub(crate) const METRICS_TOKEN: &str = "metrics-of-the-tests";

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate::at(None)
    }

    /// A gate with a home outside its temporary folder.
    pub(crate) fn at(home: Option<&Path>) -> Gate {
        let folder = TempDir::new().unwrap();
        let home = home.map_or_else(|| folder.path().join("home"), Path::to_path_buf);
        Gate { folder, home, port: 0, child: None, store: None, starts: 0 }
    }

    /// A running gate with a recorder behind it as `rec`, and a client that may use it.
    pub(crate) fn with_recorder() -> (Gate, Recorder, Client) {
        let mut gate = Gate::new();
        let recorder = Recorder::new(TOOLS);
        let token = gate.set_up(&recorder);
        gate.up();
        let client = gate.client(&token, "/mcp/rec");
        assert!(client.call("echo", &json!({ "nonce": "first" })).passed());
        (gate, recorder, client)
    }

    /// Adds server `rec`, policy `rules` and grant `agent`; returns its token.
    pub(crate) fn set_up(&self, recorder: &Recorder) -> String {
        // A call that needs an approval returns at once, so that tests need not wait.
        self.settings("[limits]\napproval_hold_seconds = 0\n");
        self.policy("rules", &rules());
        self.run(&["server", "add", "rec", "--url", &recorder.url()]);
        self.grant("agent", &["rec=rules"])
    }

    pub(crate) fn settings(&self, text: &str) {
        platform::private::create_folders(&self.home).unwrap();
        fs::write(self.home.join("tollgate.toml"), text).unwrap();
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.env_remove("TOLLGATE_HOME").arg("--home").arg(&self.home).stdin(Stdio::null());
        if let Some(store) = &self.store {
            command.args(["--store", store]);
        }
        command
    }

    pub(crate) fn cli(&self, words: &[&str]) -> Output {
        self.command().args(words).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.cli(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tollgate {words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn policy(&self, name: &str, rules: &Value) {
        let file = self.folder.path().join(format!("{name}.json"));
        fs::write(&file, rules.to_string()).unwrap();
        self.run(&["policy", "set", name, file.to_str().unwrap()]);
    }

    pub(crate) fn grant(&self, label: &str, servers: &[&str]) -> String {
        let mut words = vec!["--json", "grant", "create", label];
        for server in servers {
            words.extend(["--server", server]);
        }
        let made: Value = serde_json::from_str(&self.run(&words)).unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn client(&self, token: &str, path: &str) -> Client {
        Client {
            port: self.port,
            token: token.to_owned(),
            path: path.to_owned(),
            headers: String::new(),
        }
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join(format!("gate-{}.log", self.starts))
    }

    /// The log of the running gate so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Starts the gate on a free port; returns how long it took to listen.
    pub(crate) fn up(&mut self) -> Duration {
        self.start(self.command())
    }

    /// The same with a limit on open files.
    pub(crate) fn up_within(&mut self, files: u64) -> Duration {
        self.up_after(&format!("ulimit -n {files}"))
    }

    /// The same after another shell command.
    pub(crate) fn up_after(&mut self, before: &str) -> Duration {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
            .args([env!("CARGO_BIN_EXE_tollgate"), "--home"])
            .arg(&self.home)
            .env_remove("TOLLGATE_HOME")
            .stdin(Stdio::null());
        self.start(command)
    }

    fn start(&mut self, mut command: Command) -> Duration {
        self.starts += 1;
        let log = File::create(self.log_file()).unwrap();
        let child = command
            .args(["up", "--listen", "127.0.0.1:0"])
            .env("TOLLGATE_METRICS_TOKEN", METRICS_TOKEN)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let mut port = None;
        let took = until("the gate listens", Duration::from_secs(20), || {
            let log = self.log();
            let said = log.split("listens at http://127.0.0.1:").nth(1);
            port = said.and_then(|rest| rest.split('/').next()?.parse().ok());
            port.is_some()
        });
        self.port = port.unwrap();
        took
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGTERM; returns how long the gate took to exit.
    pub(crate) fn stop(&mut self) -> Duration {
        let mut child = self.child.take().unwrap();
        let started = Watch::start();
        ask_to_stop(&mut child);
        until("the gate ends", Duration::from_secs(20), || child.try_wait().unwrap().is_some());
        started.elapsed()
    }

    /// Every entry of the audit log.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let lines = self.run(&["audit", "export", "--format", "jsonl"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The decision rows of client requests.
    pub(crate) fn decisions(&self) -> Vec<Value> {
        let mut rows = self.rows();
        rows.retain(|row| {
            row["kind"] == "call" && row["decision"] != "own" && row["decision"] != "passed"
        });
        rows
    }

    pub(crate) fn admitted(&self, tool: &str) -> usize {
        let rows = self.decisions();
        rows.iter().filter(|row| row["tool"] == tool && row["decision"] == "admitted").count()
    }

    pub(crate) fn verify(&self) {
        let said = self.run(&["audit", "verify"]);
        assert!(said.starts_with("whole"), "{said}");
    }

    pub(crate) fn rss_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// The files of the home, the logs and the exports that contain one of the words.
    pub(crate) fn files_with(&self, words: &[String]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.clone(), self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if holds_any(&path, words) {
                    found.push(path);
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

fn holds_any(path: &Path, words: &[String]) -> bool {
    let mut bytes = Vec::new();
    // The file may have been removed in between.
    let _ = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    words.iter().any(|word| bytes.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// As a service manager does.
#[cfg(unix)]
fn ask_to_stop(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}

/// Windows has no signal that asks one process.
#[cfg(windows)]
fn ask_to_stop(child: &mut Child) {
    child.kill().unwrap();
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
