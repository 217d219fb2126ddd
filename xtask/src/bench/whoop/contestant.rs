//! The two servers that are compared, each with its own home and the same login.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::stdio_client::StdioClient;
use crate::tools::process::Fixture;

const PEER: &str = "tests/e2e/servers/whoop_peer.py";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Ours,
    Python,
}

/// Where the programs are and where WHOOP's stand-in listens.
pub(super) struct Environment {
    pub(super) tollgate: PathBuf,
    pub(super) python: PathBuf,
    pub(super) root: PathBuf,
    pub(super) sandbox: Fixture,
}

impl Environment {
    /// Writes the login into a new home.
    pub(super) fn sign_in(&self, contestant: Contestant, home: &Path) -> Result<()> {
        std::fs::create_dir_all(home)?;
        let tokens = self.said("tokens")?.to_string();
        let mut command = self.command(contestant, home);
        match contestant {
            Contestant::Ours => command.args(["connect", "whoop", "--tokens", "-"]),
            Contestant::Python => command.arg("tokens"),
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        child.stdin.take().context("no input to write to")?.write_all(tokens.as_bytes())?;
        let out = child.wait_with_output()?;
        if !out.status.success() {
            bail!("{contestant:?} cannot sign in: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(())
    }

    pub(super) fn start(&self, contestant: Contestant, home: &Path) -> Result<StdioClient> {
        let mut command = self.command(contestant, home);
        match contestant {
            Contestant::Ours => command.args(["stdio", "whoop"]),
            Contestant::Python => command.args(["serve", &self.sandbox.url]),
        };
        StdioClient::start(&mut command)
    }

    /// Requests that the stand-in has received so far.
    pub(super) fn requests(&self) -> Result<f64> {
        let counters = self.steer("GET", "counters", "")?;
        counters.get("requests").and_then(Value::as_f64).context("the sandbox counts no requests")
    }

    /// From now on each API response takes this long.
    pub(super) fn slow_down(&self, answer_ms: u32) -> Result<()> {
        let fault = json!({ "path": "/developer", "fault": "delay", "ms": answer_ms });
        self.steer("POST", "faults", &fault.to_string()).map(drop)
    }

    fn steer(&self, method: &str, what: &str, body: &str) -> Result<Value> {
        let host = self.sandbox.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host)?;
        write!(
            stream,
            "{method} /_sandbox/{what} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer of the sandbox")?;
        if !head.starts_with("HTTP/1.1 2") {
            bail!("the sandbox does not take {what}: {answer}");
        }
        if body.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(body)?) }
    }

    fn command(&self, contestant: Contestant, home: &Path) -> Command {
        let mut command = match contestant {
            Contestant::Ours => {
                let mut command = Command::new(&self.tollgate);
                command.arg("--home").arg(home);
                command
            }
            Contestant::Python => {
                let mut command = Command::new(&self.python);
                command.arg(self.root.join(PEER));
                command
            }
        };
        command.current_dir(home).env("HOME", home).env("WHOOP_UPDATE_CHECK", "false");
        let url = self.sandbox.url.as_str();
        command.env("WHOOP_API_BASE_URL", url).env("WHOOP_OAUTH_BASE_URL", url);
        for (name, key) in
            [("WHOOP_CLIENT_ID", "client_id"), ("WHOOP_CLIENT_SECRET", "client_secret")]
        {
            if let Some(value) = self.sandbox.said.get(key).and_then(Value::as_str) {
                command.env(name, value);
            }
        }
        command
    }

    fn said(&self, key: &str) -> Result<&Value> {
        self.sandbox.said.get(key).with_context(|| format!("the sandbox did not say `{key}`"))
    }
}
