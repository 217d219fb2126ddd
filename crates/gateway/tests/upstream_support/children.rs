//! Child processes for tests: a Python server with one behaviour per method, and the minimal gate
//! that serves as the guard.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gateway::upstream::{ChildOptions, GuardProgram, StdioLink, UpstreamMessage, base_env};
use mcp::{Id, request_body};
use platform::guard::Method;

/// A server whose methods are its behaviours. `heard` returns the other messages it received.
pub const SERVER: &str = r#"
import json, os, signal, subprocess, sys, time

def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()

def answer(id, result):
    say({"jsonrpc": "2.0", "id": id, "result": result})

heard = []
for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None or id is None:
        heard.append(message)
        continue
    if method == "echo":
        answer(id, params)
    elif method == "heard":
        answer(id, heard)
    elif method == "progress":
        token = params["_meta"]["progressToken"]
        lines = [json.dumps({"jsonrpc": "2.0", "method": "notifications/progress",
                             "params": {"progressToken": token, "progress": n}}) for n in range(params["count"])]
        lines.append(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}))
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    elif method == "noise":
        sys.stdout.write("listening on port 3000\n\n{\"half\":\n[1]\n")
        answer(id, {})
    elif method == "giant":
        id_first = {"jsonrpc": "2.0", "id": id, "result": "x" * params["bytes"]}
        id_last = {"result": "x" * params["bytes"], "jsonrpc": "2.0", "id": id}
        say({"first": id_first, "last": id_last, "none": {"result": "x" * params["bytes"]}}[params["where"]])
    elif method == "stderr":
        sys.stderr.write(params["text"] * params["times"] + "\n")
        sys.stderr.flush()
        answer(id, {})
    elif method == "say":
        for n in range(params["times"]):
            say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": n}})
        answer(id, {})
    elif method == "tagged":
        for n in range(2):
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
                 "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
    elif method == "world":
        answer(id, {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:]})
    elif method == "crash":
        sys.exit(3)
    elif method == "abort":
        os.kill(os.getpid(), signal.SIGKILL)
    elif method == "hang":
        pass
    elif method == "deaf":
        time.sleep(3600)
    elif method == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        answer(id, {"pid": os.getpid()})
        while True:
            time.sleep(3600)
    elif method == "fork":
        plain = subprocess.Popen(["sleep", "3600"])
        apart = subprocess.Popen(["setsid", "-f", "sh", "-c", "sleep 3600 & sleep 3601"])
        apart.wait()
        answer(id, {"pid": os.getpid(), "plain": plain.pid})
"#;

/// The minimal gate. `cargo test` builds it; for a single test it is built here.
pub fn host() -> PathBuf {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let host = test.ancestors().nth(2).unwrap().join("examples/upstream_host");
        let sources = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/upstream"));
        // Older than the sources that the test was built from, so it was not part of this build.
        let is_stale = |built| built < sources && made(&test) >= Some(sources);
        if made(&host).is_none_or(is_stale) {
            build();
        }
        assert!(host.exists(), "the example `upstream_host` is not where it should be");
        host
    })
    .clone()
}

fn made(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|data| data.modified()).ok()
}

fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let age = |path: PathBuf| if path.is_dir() { newest(&path) } else { made(&path).unwrap() };
    entries.map(age).max().unwrap()
}

fn build() {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "gateway", "--example", "upstream_host"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // The variables of this test's package would trigger build scripts again.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_")) {
        if !["CARGO_HOME", "CARGO_TARGET_DIR"].contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    assert!(cargo.status().unwrap().success(), "cannot build the example `upstream_host`");
}

pub fn options(program: &str, args: &[&str]) -> ChildOptions {
    let guard_program = GuardProgram {
        program: host(),
        args: vec!["__child".into()],
        method: Method::default(),
        files_max: None,
    };
    let mut options = ChildOptions::new(guard_program, program);
    options.args = args.iter().map(Into::into).collect();
    options.env = base_env(std::env::vars_os(), []);
    // A test that waits in vain must not wait long.
    options.waits.first_byte_max = Duration::from_secs(20);
    // Exits must be reported on a busy machine too.
    options.bounds.exit_status_wait_max = Duration::from_secs(20);
    options
}

/// The server above, with changes.
pub fn python(change: impl FnOnce(&mut ChildOptions)) -> StdioLink {
    let mut options = options("python3", &["-c", SERVER, "one", "two words"]);
    change(&mut options);
    StdioLink::start(options)
}

pub fn request(id: u64, method: &str, params: &str) -> UpstreamMessage {
    let id = Id::number(id);
    let body = request_body(&id, method, Some(params));
    UpstreamMessage::request(id, Bytes::from(body))
}

/// The processes whose command line contains these words.
pub fn processes_with(words: &str) -> Vec<u32> {
    processes_that(|line| line.contains(words))
}

/// The processes whose command line matches; arguments are followed by a blank.
pub fn processes_that(is_such: impl Fn(&str) -> bool) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            is_such(&String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

/// Polls until the check succeeds; false on a timeout.
pub async fn within(wait: Duration, check: impl Fn() -> bool) -> bool {
    let until = tokio::time::Instant::now() + wait;
    while !check() {
        if tokio::time::Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    true
}
