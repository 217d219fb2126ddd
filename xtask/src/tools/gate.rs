//! Starts a gate for a test: a temporary home, servers, one policy, one grant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::process::{Scratch, Started, free_port, wait_for};

const GRANT: &str = "test";

/// The servers behind the gate.
#[derive(Clone, Debug)]
pub(crate) enum Upstream {
    Url(String),
    Command(Vec<String>),
}

/// A running gate. Dropping it stops the gate and removes its home.
pub(crate) struct Gate {
    pub(crate) token: String,
    port: u16,
    policy: PathBuf,
    _process: Started,
    scratch: Scratch,
}

impl Gate {
    /// Every server is reached with the same policy and the one grant.
    pub(crate) fn start(
        tollgate: &Path,
        servers: &[(&str, Upstream)],
        policy: &Value,
    ) -> Result<Gate> {
        let scratch = Scratch::new("gate")?;
        let home = home(&scratch);
        let policy_file = scratch.path.join("policy.json");
        fs::write(&policy_file, policy.to_string())?;
        let run = |arguments: &[String]| told(tollgate, &home, arguments);
        for (name, upstream) in servers {
            run(&add_words(name, upstream))?;
        }
        run(&words(&["policy", "set", "test", &policy_file.to_string_lossy()]))?;
        let token = create_grant(servers, run)?;
        let port = free_port()?;
        let mut command = Command::new(tollgate);
        command.arg("--home").arg(&home);
        command.args(["up", "--listen", &format!("127.0.0.1:{port}")]);
        let log = scratch.path.join("gate.log");
        let mut process = Started::logged(&mut command, &log)?;
        wait_for(port, &mut process)
            .with_context(|| fs::read_to_string(&log).unwrap_or_default())
            .context("the gate did not start")?;
        Ok(Gate { token, port, policy: policy_file, _process: process, scratch })
    }

    /// The endpoint of one server.
    pub(crate) fn url(&self, server: &str) -> String {
        format!("http://127.0.0.1:{}/mcp/{server}", self.port)
    }

    /// The endpoint of all servers of the grant.
    pub(crate) fn url_of_all(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.path.join("gate.log")).unwrap_or_default()
    }

    /// A client over stdio starts this: one of the servers of the running gate, as the grant.
    pub(crate) fn stdio_words(&self, tollgate: &Path, server: &str) -> Vec<String> {
        let mut all = vec![tollgate.display().to_string()];
        all.extend(words(&["--home", &home(&self.scratch).to_string_lossy(), "stdio", server]));
        all.extend(words(&["--grant", GRANT]));
        all
    }

    /// A client over stdio starts this: the same policy in front of a command.
    pub(crate) fn wrap_words(&self, tollgate: &Path, command: &[String]) -> Vec<String> {
        let mut all = vec![tollgate.display().to_string()];
        all.extend(words(&["--home", &home(&self.scratch).to_string_lossy(), "wrap", "--policy"]));
        all.extend(words(&[&self.policy.to_string_lossy(), "--"]));
        all.extend(command.iter().cloned());
        all
    }
}

/// The gate creates it, so that its mode is the one the gate sets.
fn home(scratch: &Scratch) -> PathBuf {
    scratch.path.join("home")
}

fn add_words(name: &str, upstream: &Upstream) -> Vec<String> {
    let mut all = words(&["server", "add", name]);
    match upstream {
        Upstream::Url(url) => all.extend(words(&["--url", url])),
        Upstream::Command(command) => {
            all.push("--".to_owned());
            all.extend(command.iter().cloned());
        }
    }
    all
}

fn create_grant(
    servers: &[(&str, Upstream)],
    run: impl Fn(&[String]) -> Result<String>,
) -> Result<String> {
    let mut all = words(&["grant", "create", GRANT]);
    for (name, _) in servers {
        all.extend(words(&["--server", &format!("{name}=test")]));
    }
    all.push("--json".to_owned());
    let grant: Value = serde_json::from_str(&run(&all)?)?;
    let token = grant.get("token").and_then(Value::as_str);
    Ok(token.context("`grant create --json` gave no token")?.to_owned())
}

fn told(tollgate: &Path, home: &Path, arguments: &[String]) -> Result<String> {
    let out = Command::new(tollgate).arg("--home").arg(home).args(arguments).output()?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        bail!("`tollgate {}` failed: {why}", arguments.join(" "));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
