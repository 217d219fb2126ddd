//! Widely used servers from npm and PyPI behind the gate: their tools work, and denied calls never reach
//! them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{CLIENTS, Case, bearer, case, run_cases, sum};
use crate::test::Tally;
use crate::tools::Tools;
use crate::tools::gate::{Gate, Upstream};
use crate::tools::process::Scratch;

struct RealServer {
    name: &'static str,
    command: Vec<String>,
    /// Calls that must work, with a piece of their answer.
    calls: Value,
    /// A call that the policy denies.
    denied: Option<(&'static str, Value)>,
}

/// Through the gate. The Python client as it comes, the TypeScript client pinned to the newest
/// revision (all these servers are older), and the SDK of the handshake era.
pub(super) fn run(tools: &Tools, tollgate: &Path) -> Result<Tally> {
    let scratch = prepared()?;
    let servers = servers(tools, &scratch.path);
    let upstreams: Vec<(&str, Upstream)> = servers
        .iter()
        .map(|server| (server.name, Upstream::Command(server.command.clone())))
        .collect();
    let gate = Gate::start(tollgate, &upstreams, &policy(&servers))?;
    let mut cases = Vec::new();
    for server in &servers {
        let mut calls = server.calls.as_array().cloned().unwrap_or_default();
        if let Some((tool, args)) = &server.denied {
            calls.push(json!({ "tool": tool, "args": args, "denied": "denied_by_rule" }));
        }
        let target = json!({ "url": gate.url(server.name), "headers": bearer(&gate) });
        cases.extend(cases_for(server.name, &target, &calls, "gate before"));
    }
    let target = json!({ "url": gate.url_of_all(), "headers": bearer(&gate) });
    cases.extend(cases_for("all servers", &target, &calls_at_all(&servers), "gate before"));
    let tally = run_cases(tools, &cases);
    Ok(sum(tally, Tally::one(untouched(&scratch.path))))
}

/// The same calls at the servers themselves.
pub(super) fn run_direct(tools: &Tools) -> Result<Tally> {
    let scratch = prepared()?;
    let mut cases = Vec::new();
    for server in servers(tools, &scratch.path) {
        let calls = server.calls.as_array().cloned().unwrap_or_default();
        let target = json!({ "command": server.command });
        let direct = cases_for(server.name, &target, &calls, "directly");
        // None of these servers knows the newest revision by itself.
        cases.extend(direct.into_iter().filter(|case| case.client.era != "modern"));
    }
    Ok(run_cases(tools, &cases))
}

/// The same calls at the endpoint of all servers: by the listed name, the older form, and the own name, which
/// no two of these servers share.
fn calls_at_all(servers: &[RealServer]) -> Vec<Value> {
    let mut all = Vec::new();
    for server in servers {
        let mut calls = server.calls.as_array().cloned().unwrap_or_default();
        if let Some((tool, args)) = &server.denied {
            calls.push(json!({ "tool": tool, "args": args, "denied": "denied_by_rule" }));
        }
        for (number, mut call) in calls.into_iter().enumerate() {
            let own = call.get("tool").and_then(Value::as_str).unwrap_or_default();
            let name = match number % 3 {
                0 => format!("{}__{own}", server.name),
                1 => format!("{}.{own}", server.name),
                _ => own.to_owned(),
            };
            if let Some(fields) = call.as_object_mut() {
                fields.insert("tool".to_owned(), name.into());
            }
            all.push(call);
        }
    }
    all
}

fn cases_for(name: &str, target: &Value, calls: &[Value], how: &str) -> Vec<Case> {
    let picked = [
        ("clients/py-client.py", "auto"),
        ("clients/ts-client.mjs", "modern"),
        ("clients/ts-sdk.mjs", "legacy"),
    ];
    let clients = CLIENTS.iter().filter(|client| picked.contains(&(client.script, client.era)));
    clients
        .map(|client| {
            let mut plan = target.clone();
            if let Some(fields) = plan.as_object_mut() {
                fields.insert("calls".to_owned(), Value::from(calls.to_vec()));
                fields.insert("only_calls".to_owned(), true.into());
            }
            case(format!("{how} {name}"), *client, plan)
        })
        .collect()
}

fn servers(tools: &Tools, dir: &Path) -> Vec<RealServer> {
    let shared = dir.join("shared").display().to_string();
    let repository = dir.join("repository").display().to_string();
    let note = dir.join("shared/note.txt").display().to_string();
    let memory = format!("MEMORY_FILE_PATH={}", dir.join("memory.jsonl").display());
    let mut with_memory = vec!["env".to_owned(), memory];
    with_memory.extend(tools.npm_words("mcp-server-memory", &[]));
    let venv = |program: &str, arguments: &[&str]| {
        let mut words = vec![tools.venv_program(program).display().to_string()];
        words.extend(arguments.iter().map(ToString::to_string));
        words
    };
    vec![
        RealServer {
            name: "everything",
            command: tools.npm_words("mcp-server-everything", &["stdio"]),
            calls: json!([
                { "tool": "echo", "args": { "message": "hello" }, "contains": "hello" },
                { "tool": "get-sum", "args": { "a": 2, "b": 40 }, "contains": "42" },
                { "tool": "get-structured-content", "args": { "location": "New York" }, "contains": "structuredContent" },
                { "tool": "get-tiny-image", "contains": "image/png" },
                { "tool": "trigger-long-running-operation", "args": { "duration": 1, "steps": 4 }, "contains": "completed" },
            ]),
            denied: Some(("get-env", json!({}))),
        },
        RealServer {
            name: "filesystem",
            command: tools.npm_words("mcp-server-filesystem", &[&shared]),
            calls: json!([
                { "tool": "list_directory", "args": { "path": shared }, "contains": "note.txt" },
                { "tool": "read_text_file", "args": { "path": note }, "contains": "remember the milk" },
            ]),
            denied: Some((
                "write_file",
                json!({ "path": format!("{shared}/intruder.txt"), "content": "x" }),
            )),
        },
        RealServer {
            name: "memory",
            command: with_memory,
            calls: json!([
                { "tool": "create_entities", "args": { "entities": [{ "name": "Ada", "entityType": "person", "observations": ["counts"] }] } },
                { "tool": "read_graph", "contains": "Ada" },
            ]),
            denied: Some(("delete_entities", json!({ "entityNames": ["Ada"] }))),
        },
        RealServer {
            name: "time",
            command: venv("mcp-server-time", &["--local-timezone", "UTC"]),
            calls: json!([{ "tool": "get_current_time", "args": { "timezone": "Europe/Paris" }, "contains": "Europe/Paris" }]),
            denied: None,
        },
        RealServer {
            name: "git",
            command: venv("mcp-server-git", &["--repository", &repository]),
            calls: json!([
                { "tool": "git_status", "args": { "repo_path": repository }, "contains": "nothing to commit" },
                { "tool": "git_log", "args": { "repo_path": repository }, "contains": "the first" },
            ]),
            denied: Some((
                "git_create_branch",
                json!({ "repo_path": repository, "branch_name": "intruder" }),
            )),
        },
    ]
}

fn policy(servers: &[RealServer]) -> Value {
    let denied = servers.iter().filter_map(|server| server.denied.as_ref());
    let tools: serde_json::Map<String, Value> = denied
        .map(|(tool, _)| ((*tool).to_owned(), json!({ "action": "deny", "reason": "read only" })))
        .collect();
    json!({ "version": "1", "default": "allow", "tools": tools })
}

/// A folder to read and a repository with one commit.
fn prepared() -> Result<Scratch> {
    let scratch = Scratch::new("real")?;
    fs::create_dir_all(scratch.path.join("shared"))?;
    fs::write(scratch.path.join("shared/note.txt"), "remember the milk\n")?;
    let repository = scratch.path.join("repository");
    fs::create_dir_all(&repository)?;
    fs::write(repository.join("readme"), "hello\n")?;
    for arguments in [
        &["init", "--quiet"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@example.com"],
        &["add", "readme"],
        &["commit", "--quiet", "--message", "the first"],
    ] {
        let status = Command::new("git").current_dir(&repository).args(arguments).status()?;
        if !status.success() {
            bail!("`git {}` failed", arguments.join(" "));
        }
    }
    Ok(scratch)
}

/// What was denied must not have happened.
fn untouched(dir: &Path) -> bool {
    let written = dir.join("shared/intruder.txt").exists();
    let branched = dir.join("repository/.git/refs/heads/intruder").exists();
    let remembered = fs::read_to_string(dir.join("memory.jsonl")).unwrap_or_default();
    let kept = remembered.contains("Ada");
    if written || branched || !kept {
        println!(
            "FAILED a denied call had an effect: written {written}, branched {branched}, kept {kept}"
        );
    }
    !written && !branched && kept
}
