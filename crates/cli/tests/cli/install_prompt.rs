//! `docs/AGENT_INSTALL_PROMPT.md`, followed literally: every `sh` block runs in order in a fresh home, and
//! what each step says to check is checked. Only the port, the compile and the network are replaced.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{Config, Running, Sandbox};

const PAGE: &str = include_str!("../../../../docs/AGENT_INSTALL_PROMPT.md");
/// The repository root, the base of the page's relative paths.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Each step by its number, and what its commands must print.
const CHECKS: &[(&str, &[&str])] = &[
    ("1", &["tollgate 0."]),
    ("2", &["files", "2 tools"]),
    ("3", &["read_text_file", "write_file", "ok"]),
    ("4", &["my-agent", "files (policy read-only)"]),
    ("5", &["running", "127.0.0.1:"]),
    (
        "6",
        &[
            "remember the milk",
            "[POLICY DENIED]",
            "read_text_file",
            "write_file",
            "whole: rows 1 to ",
        ],
    ),
    ("7", &["whoop", "my-agent-whoop"]),
];

/// Replaces `cargo install`, which takes minutes: the binary of this test is installed already.
const CARGO: &str = "#!/bin/sh\n[ \"$*\" = 'install --path crates/cli --locked' ] && [ -f crates/cli/Cargo.toml ]\n";

/// Replaces `npx` and the file server, which come from a registry.
const NPX: &str = r#"#!/usr/bin/env python3
import json, sys
assert sys.argv[1:3] == ["-y", "@modelcontextprotocol/server-filesystem"], sys.argv
def tool(name):
    return {"name": name, "description": name.replace("_", " "), "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "files", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [tool("read_text_file"), tool("write_file")]}
    elif method == "tools/call":
        text = open(params["arguments"]["path"]).read()
        result = {"content": [{"type": "text", "text": text}]}
    elif "id" in message:
        error = {"code": -32601, "message": "unknown method"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// Replaces the owner with a browser: it follows the sign-in to its end.
const BROWSER: &str = "#!/bin/sh\nexec curl --silent --location --output /dev/null \"$1\"\n";

/// One home for the whole page, and the processes that its steps leave running.
struct Machine {
    folder: tempfile::TempDir,
    port: u16,
    sandbox: Running,
    groups: Vec<u32>,
}

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_tollgate"), programs.join("tollgate")).unwrap();
        for (name, text) in [("cargo", CARGO), ("npx", NPX), ("xdg-open", BROWSER)] {
            let path = programs.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let port = free_port();
        let settings = folder.path().join("settings.toml");
        fs::write(&settings, format!("listen = \"127.0.0.1:{port}\"\n")).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now_us = i64::try_from(now.as_micros()).unwrap();
        let sandbox = Sandbox::start(Config::whoop(7, 2, now_us)).unwrap();
        Machine { folder, port, sandbox, groups: Vec::new() }
    }

    /// Runs one block as an agent would, in a separate shell; a failing command fails the test.
    fn run(&mut self, script: &str) -> String {
        let path = std::env::var("PATH").unwrap();
        let ready = self.sandbox.control().ready();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", &script.replace("4180", &self.port.to_string())])
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.folder.path())
            .env("TOLLGATE_CONFIG", self.path("settings.toml"))
            .env("WHOOP_API_BASE_URL", self.sandbox.url())
            .env("WHOOP_OAUTH_BASE_URL", self.sandbox.url())
            .env("WHOOP_REDIRECT_URI", format!("http://localhost:{}/callback", free_port()))
            .env("WHOOP_CLIENT_ID", ready["client_id"].as_str().unwrap())
            .env("WHOOP_CLIENT_SECRET", ready["client_secret"].as_str().unwrap())
            .current_dir(ROOT)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn().unwrap();
        self.groups.push(child.id());
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(output.status.success(), "{script}\n{text}");
        text
    }

    /// Ends the processes that earlier steps left running.
    fn stop(&self) {
        for group in &self.groups {
            let _ = Command::new("kill")
                .args(["--", &format!("-{group}")])
                .stderr(Stdio::null())
                .status();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The number of each step and its `sh` block.
fn steps() -> Vec<(&'static str, &'static str)> {
    let sections = PAGE.split("\n## ").skip(1);
    sections
        .filter_map(|section| {
            let (number, _) = section.split_once('.')?;
            let (_, rest) = section.split_once("```sh\n")?;
            Some((number, rest.split_once("```")?.0))
        })
        .collect()
}

#[test]
fn the_install_prompt_works_when_it_is_followed_literally() {
    assert!(Path::new(ROOT).join("examples/policies/read-only.json").exists());
    let numbers: Vec<&str> = steps().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, CHECKS.iter().map(|(number, _)| *number).collect::<Vec<_>>());
    assert_eq!(PAGE.matches("```").count(), 2 * numbers.len(), "every block belongs to a step");
    let mut machine = Machine::new();
    for ((number, script), (_, wanted)) in steps().into_iter().zip(CHECKS) {
        let printed = machine.run(script);
        for words in *wanted {
            assert!(printed.contains(words), "step {number} does not say `{words}`:\n{printed}");
        }
        assert!(!printed.contains("tg_"), "step {number} prints a token:\n{printed}");
    }
    let printed = machine
        .run("tollgate accounts && tollgate clients list && tollgate policy recommend files");
    assert!(printed.contains("whoop") && printed.contains("read_text_file"), "{printed}");
    machine.run("tollgate grant revoke my-agent");
    machine.stop();
    machine.run("while tollgate status; do sleep 0.1; done; tollgate purge --yes");
}
