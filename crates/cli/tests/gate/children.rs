//! Servers on stdio: when they start, how long they run, and what they receive.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http_client::{Client, call};
use crate::running::{alive, with_child};
use crate::test_gate::{Gate, Watch, until};

#[test]
fn a_server_that_keeps_exiting_is_restarted_with_back_off() {
    for place in ["start", "list"] {
        let mut gate = Gate::new();
        let (token, notes) = with_child(&gate);
        gate.up();
        let client = gate.client(&token, "/mcp/child");
        assert!(client.call("echo", &json!({})).passed());
        let starts =
            || fs::read_to_string(notes.with_extension("pids")).unwrap().lines().count() / 2;
        fs::write(notes.with_extension("end"), place).unwrap();
        let pids = fs::read_to_string(notes.with_extension("pids")).unwrap();
        let last = pids.lines().rev().nth(1).unwrap().parse().unwrap();
        kill_process(Pid::from_raw(last).unwrap(), Signal::KILL).unwrap();
        let check = |client: &Client| {
            let (before, began) = (starts(), Watch::start());
            let mut calls = 0;
            while began.elapsed() < Duration::from_secs(3) {
                assert!(!client.call("echo", &json!({})).passed());
                calls += 1;
                thread::sleep(Duration::from_millis(10));
            }
            // At once, and after 0.2, 0.4, 0.8 and 1.6 seconds.
            let started = starts() - before;
            assert!(started <= 5, "{place}: {started} starts for {calls} calls");
        };
        check(&client);
        gate.stop();
        gate.up();
        let client = gate.client(&token, "/mcp/child");
        check(&client);
        fs::remove_file(notes.with_extension("end")).unwrap();
        until("it answers again", Duration::from_secs(20), || {
            client.call("echo", &json!({})).passed()
        });
    }
}

/// Some programs loop over all possible file numbers and are slow if the limit is high.
#[test]
fn a_server_may_have_as_many_open_files_as_without_the_gate() {
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    gate.up_after("ulimit -S -n 777");
    assert!(gate.client(&token, "/mcp/child").call("echo", &json!({})).passed());
    let limit = |pid: &str| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        line.split_whitespace().skip(3).take(2).map(|n| n.parse().unwrap()).collect::<Vec<u64>>()
    };
    let pids = fs::read_to_string(notes.with_extension("pids")).unwrap();
    let (of_gate, of_child) = (limit(&gate.pid().to_string()), limit(pids.lines().last().unwrap()));
    assert!(of_gate[0] > 777, "the gate asked for more: {of_gate:?}");
    assert_eq!(of_child, [777, of_gate[1]]);
}

#[test]
fn a_server_that_cannot_start_reports_why_to_the_first_call() {
    let mut gate = Gate::new();
    gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
    gate.run(&["server", "add", "none", "--no-connect", "--", "/no/such/program"]);
    let token = gate.grant("agent", &["none=rules"]);
    gate.up();
    let answer = gate.client(&token, "/mcp/none").call("echo", &json!({}));
    assert!(answer.text().contains("there is no program `/no/such/program`"), "{}", answer.text());
    assert!(answer.text().contains("the call did not happen"), "{}", answer.text());
}

/// A client that opens sessions and abandons them would keep a process for each.
#[test]
fn the_processes_of_a_grants_sessions_are_limited() {
    let mut gate = Gate::new();
    gate.settings("[limits]\ncommands_per_grant_max = 3\n");
    let (token, notes) = with_child(&gate);
    let other = gate.grant("other", &["child=open"]);
    gate.up();
    let of_other = gate.client(&other, "/mcp/child").with_session();
    assert!(of_other.call("echo", &json!({})).passed());
    let each = alive(&notes);
    let sessions: Vec<_> =
        (0..5).map(|_| gate.client(&token, "/mcp/child").with_session()).collect();
    until("the first ones end", Duration::from_secs(10), || alive(&notes) == each * (1 + 3));
    let statuses: Vec<_> = sessions.iter().map(|s| s.call("echo", &json!({})).status).collect();
    assert_eq!(statuses, [404, 404, 200, 200, 200], "those that were idle longest");
    assert!(of_other.call("echo", &json!({})).passed(), "another grant has its own number");
}

/// SIGHUP stops the gate like SIGTERM, unless it was started with `nohup`.
#[test]
fn sighup_stops_a_gate_that_was_not_started_with_nohup() {
    let gate = Gate::new();
    let (_token, notes) = with_child(&gate);
    for (before, goes_on) in [("true", false), ("trap '' HUP", true)] {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
            .args([env!("CARGO_BIN_EXE_tollgate"), "--home", gate.home.to_str().unwrap()])
            .args(["stdio", "child", "--grant", "agent"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut ask = || -> Option<String> {
            writeln!(input, "{}", call("echo", &json!({}))).ok()?;
            let mut line = String::new();
            output.read_line(&mut line).ok().filter(|bytes| *bytes > 0).map(|_| line)
        };
        assert!(ask().unwrap().contains("\"result\""));
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        if goes_on {
            thread::sleep(Duration::from_millis(300));
            assert!(ask().unwrap().contains("\"result\""), "it goes on");
            drop(input);
        }
        assert!(child.wait().unwrap().success(), "{before}: it stops in order");
        until("its server ends", Duration::from_secs(5), || alive(&notes) == 0);
    }
}

#[test]
fn a_server_shared_without_sessions_ends_when_it_is_idle() {
    let mut gate = Gate::new();
    gate.settings("[limits]\nsession_idle_seconds_max = 2\n");
    let (token, notes) = with_child(&gate);
    gate.up();
    let client = gate.client(&token, "/mcp/child");
    assert!(client.call("echo", &json!({})).passed());
    let used = Watch::start();
    while used.elapsed() < Duration::from_secs(4) {
        assert!(client.call("echo", &json!({})).passed());
        assert!(alive(&notes) > 0, "it is in use");
        thread::sleep(Duration::from_millis(100));
    }
    until("it ends", Duration::from_secs(10), || alive(&notes) == 0);
    assert!(client.call("echo", &json!({})).passed(), "and starts again");
}

#[test]
fn a_child_gets_a_complete_trace_context() {
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    gate.up();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let calls = [
        ("tracestate: a=1\r\ntracestate: b=2\r\n", json!({}), json!("a=1,b=2")),
        ("", json!({}), Value::Null),
        // The trace state of another parent is not forwarded.
        ("", json!({ "traceparent": parent, "tracestate": "old=1", "x/y": 1 }), Value::Null),
    ];
    for (headers, meta, state) in calls {
        let mut client = gate.client(&token, "/mcp/child");
        client.headers = format!("traceparent: {parent}\r\n{headers}");
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "echo", "arguments": {}, "_meta": meta },
        });
        assert!(client.send(&message).passed());
        let heard = fs::read_to_string(notes.with_extension("calls")).unwrap();
        let heard: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
        let told = &heard["params"]["_meta"];
        assert_eq!((&told["traceparent"], &told["tracestate"]), (&json!(parent), &state));
        assert_eq!(told["x/y"], meta["x/y"]);
    }
}

/// The niceness of one thread, or of the only one of a process.
fn niceness(stat: &str) -> i32 {
    const BEHIND_NAME: usize = 16;
    let stat = fs::read_to_string(stat).unwrap();
    let fields = stat.rsplit(") ").next().unwrap();
    fields.split(' ').nth(BEHIND_NAME).unwrap().parse().unwrap()
}

#[test]
fn connection_threads_have_priority_if_allowed_and_commands_do_not() {
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    gate.up();
    assert!(gate.client(&token, "/mcp/child").call("echo", &json!({})).passed());
    let tasks = format!("/proc/{}/task", gate.pid());
    let own = niceness(&format!("{tasks}/{}/stat", gate.pid()));
    let workers: Vec<i32> = fs::read_dir(&tasks)
        .unwrap()
        .map(|task| task.unwrap().path())
        .filter(|task| fs::read_to_string(task.join("comm")).unwrap().starts_with("worker-"))
        .map(|task| niceness(task.join("stat").to_str().unwrap()))
        .collect();
    let expected = if rustix::process::geteuid().is_root() { (own - 5).max(-20) } else { own };
    assert!(
        !workers.is_empty() && workers.iter().all(|worker| *worker == expected),
        "{workers:?}, {own}"
    );
    let pids = fs::read_to_string(notes.with_extension("pids")).unwrap();
    // The processes of `server add` have ended.
    let stats = pids.lines().map(|pid| format!("/proc/{pid}/stat"));
    let of_commands: Vec<i32> =
        stats.filter(|stat| fs::exists(stat).unwrap()).map(|stat| niceness(&stat)).collect();
    assert!(!of_commands.is_empty() && of_commands.iter().all(|one| *one == own));
}
