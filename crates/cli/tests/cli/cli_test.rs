//! A home in a temporary folder, the binary, and output with varying parts replaced.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

pub(crate) struct CliTest {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// The output and exit code of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.all_output()))
    }

    pub(crate) fn all_output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Writes the input, closes it when every request has its response, and waits for the exit.
pub(crate) fn conversation(mut child: Child, input: &str) -> CommandOutput {
    let mut waiting = unanswered(input);
    let errors = child.stderr.take().map(|mut errors| {
        std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        })
    });
    let mut heard = BufReader::new(child.stdout.take().unwrap());
    let mut printed = child.stdin.take().unwrap();
    // A command that does not read its input may have exited already.
    let _ = printed.write_all(input.as_bytes());
    let mut stdout = String::new();
    while !waiting.is_empty() {
        let start = stdout.len();
        if heard.read_line(&mut stdout).unwrap() == 0 {
            break;
        }
        let answer: Value = serde_json::from_str(&stdout[start..]).unwrap_or_default();
        waiting.retain(|id| answer["id"] != *id);
    }
    drop(printed);
    heard.read_to_string(&mut stdout).unwrap();
    let code = child.wait().unwrap().code().unwrap_or(-1);
    let stderr = errors.map(|errors| errors.join().unwrap()).unwrap_or_default();
    CommandOutput { code, stdout, stderr }
}

/// The ids of the requests among these lines that are not cancelled.
fn unanswered(input: &str) -> Vec<Value> {
    let lines: Vec<Value> =
        input.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
    let taken_back = |id: &Value| lines.iter().any(|line| line["params"]["requestId"] == *id);
    let ids = lines.iter().map(|line| line["id"].clone());
    ids.filter(|id| !id.is_null() && !taken_back(id)).collect()
}

impl CliTest {
    pub(crate) fn new() -> CliTest {
        CliTest { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// A home with the demo server, its policy, and nothing else.
    pub(crate) fn with_demo() -> CliTest {
        let test = CliTest::new();
        test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
        let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/up/demo/policy.json");
        test.succeed(&["policy", "set", "demo", policy]);
        test
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.env_clear();
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("HOME", self.folder.path()).env("TZ", "UTC").env("USER", "owner");
        command.env("TOLLGATE_HOME", self.home()).env("NO_COLOR", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with(arguments, "")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read its input may have exited already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a session like a client that stays until every request is answered: after the end of input a gate
    /// gives in-flight calls only a few seconds, which a busy machine may exceed.
    pub(crate) fn run_session(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        conversation(command.spawn().unwrap(), input)
    }

    /// Runs a command that must succeed.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> CommandOutput {
        let printed = self.run(arguments);
        assert_eq!(printed.code, 0, "tollgate {}\n{}", arguments.join(" "), printed.all_output());
        printed
    }

    /// A command and its output, for a snapshot.
    pub(crate) fn transcript(&self, arguments: &[&str]) -> String {
        let printed = self.run(arguments);
        let mut text = format!("$ tollgate {}\n{}", arguments.join(" "), printed.stdout);
        if !printed.stderr.is_empty() {
            text = format!("{text}--- stderr\n{}", printed.stderr);
        }
        self.blanked(&format!("{text}--- exit {}\n", printed.code))
    }

    /// The same for several commands.
    pub(crate) fn transcripts(&self, commands: &[&[&str]]) -> String {
        commands.iter().map(|arguments| self.transcript(arguments)).collect::<Vec<_>>().join("\n")
    }

    /// Replaces times, hashes, tokens, ids and paths.
    pub(crate) fn blanked(&self, text: &str) -> String {
        let folder = self.folder.path().display().to_string();
        let mut text = text.replace(&folder, "[TMP]");
        text = text.replace(env!("CARGO_BIN_EXE_tollgate"), "[TOLLGATE]");
        text = text.replace(env!("CARGO_MANIFEST_DIR"), "[CLI]");
        text = text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
        for (pattern, blank) in [
            // The path of the shell.
            (r"(/usr)?/bin/sh\b", "[SH]"),
            (r"tg_[0-9A-Za-z]{49}", "[TOKEN]"),
            (r"tg_link_[0-9A-Za-z]{43}", "[SIGN-IN]"),
            (r"ap-\d+-[0-9a-f]+", "[APPROVAL]"),
            (r"g_[0-9A-Za-z]{12}", "[GRANT ID]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "[UTC TIME]"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[TIME]"),
            // Row numbers are not part of the contract.
            (r"(?m)^\[TIME\] +\d+", "[TIME] [ROW]"),
            (r"\b(rows?) \d+( to \d+)?", "$1 [ROW]"),
            (r"\b\d+ rows", "[N] rows"),
            (r"\b[0-9a-f]{64}\b", "[SHA-256]"),
            (r"hash [0-9a-f]{16}", "hash [HASH]"),
            (r"\b[0-9a-f]{12}\b", "[HASH]"),
            (r"process \d+", "process [PID]"),
            (r"\b\d+(\.\d)?ms\b", "[LATENCY]"),
            (r"\d+ MiB free", "[N] MiB free"),
            (r"\d+[smhd]( \d+[smh])? ago", "[SPAN] ago"),
            (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:[PORT]"),
        ] {
            text = Regex::new(pattern).unwrap().replace_all(&text, blank).into_owned();
        }
        // Column widths depend on the replaced text.
        Regex::new(r"(\S) {2,}").unwrap().replace_all(&text, "$1  ").into_owned()
    }

    /// Creates a grant on the demo server and returns its token.
    pub(crate) fn grant(&self, label: &str) -> String {
        let printed = self.succeed(&["grant", "create", label, "--server", "demo=demo", "--json"]);
        printed.json()["token"].as_str().unwrap().to_owned()
    }

    /// Starts `tollgate up` on a free port.
    pub(crate) fn up(&self, more: &[&str]) -> Up {
        let mut arguments = vec!["up", "--listen", "127.0.0.1:0", "--json"];
        arguments.extend(more);
        Up::start(self.command(&arguments))
    }
}

/// A running gate. Killed when dropped, if it was not stopped.
pub(crate) struct Up {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) facts: Value,
}

impl Up {
    fn start(mut command: Command) -> Up {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("the gate did not start: {stderr}");
        }
        Up { child, stdout, facts: serde_json::from_str(&line).unwrap() }
    }

    /// `http://127.0.0.1:PORT/mcp`.
    pub(crate) fn url(&self) -> &str {
        self.facts["url"].as_str().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Crashes it with core files allowed; returns whether it left one.
    #[cfg(unix)]
    pub(crate) fn leaves_a_core(mut self) -> bool {
        leaves_a_core(&mut self.child)
    }

    /// Stops it like a service manager; returns its output and exit code.
    pub(crate) fn stop(mut self) -> CommandOutput {
        ask_to_stop(&mut self.child);
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_secs(10), "the gate does not stop");
            std::thread::sleep(Duration::from_millis(5));
        };
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        CommandOutput { code: status.code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As a service manager does.
#[cfg(unix)]
pub(crate) fn ask_to_stop(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// Windows has no signal that asks one process.
#[cfg(windows)]
pub(crate) fn ask_to_stop(child: &mut Child) {
    child.kill().unwrap();
}

/// Sets the permission bits of a file or folder; on Windows, whether it is read-only.
pub(crate) fn set_bits(path: &Path, bits: u32) {
    platform::private::set_bits(&fs::File::open(path).unwrap(), bits).unwrap();
}

/// Crashes a process with core files allowed; returns whether it left one.
#[cfg(unix)]
pub(crate) fn leaves_a_core(child: &mut Child) -> bool {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::{Pid, Signal, kill_process};
    let pid = Pid::from_child(child);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, prlimit};
        // If the hard limit forbids core files, none is left.
        let _ = prlimit(Some(pid), Resource::Core, Rlimit { current: None, maximum: None });
    }
    kill_process(pid, Signal::ABORT).unwrap();
    child.wait().unwrap().core_dumped()
}

/// Every file below a folder with its bytes.
pub(crate) fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found
}
