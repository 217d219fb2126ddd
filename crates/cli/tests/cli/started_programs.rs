//! Programs that the binary starts: the refresh helper that outlives a kill of the whole process tree, and
//! the browser that gets none of our secrets.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sandbox::{Fault, FaultKind, TokenKind};

use crate::accounts;

const WAIT_MAX: Duration = Duration::from_mins(1);

/// Every process below this one, as `/proc` shows them now.
fn descendants(of: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let after = stat.rsplit(')').next().unwrap_or_default();
        let parent = after.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        children.entry(parent.unwrap_or_default()).or_default().push(pid);
    }
    let (mut found, mut next) = (Vec::new(), vec![of]);
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

/// Kills a process with its group and all descendants, as a supervisor does.
fn kill_tree(root: u32) {
    let root = i32::try_from(root).unwrap();
    let below = descendants(root);
    kill_process_group(Pid::from_raw(root).unwrap(), Signal::KILL).ok();
    for pid in below.into_iter().filter_map(Pid::from_raw) {
        kill_process_group(pid, Signal::KILL).ok();
        kill_process(pid, Signal::KILL).ok();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_kill_of_the_whole_tree_during_a_token_request_never_loses_the_login() {
    let kills: u32 =
        std::env::var("TOLLGATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let (test, sandbox, _) = accounts::connected();
    let mut refreshed = 0;
    for n in 0..kills {
        sandbox.control().clear_faults();
        sandbox.control().fault(Fault::on("/oauth/oauth2/token", FaultKind::Delay { ms: 300 }));
        sandbox.control().expire(TokenKind::Access);
        let before = sandbox.control().counters().refreshes;
        let mut command = test.command(&["accounts", "--check"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().unwrap();
        // Half of the kills hit the request, the others happen anywhere before it.
        let wait_max = if n % 2 == 0 { WAIT_MAX } else { Duration::from_millis(u64::from(n) * 15) };
        let begun = Instant::now();
        while sandbox.control().counters().refreshes == before && begun.elapsed() < wait_max {
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_tree(child.id());
        child.wait().unwrap();
        refreshed += u32::from(sandbox.control().counters().refreshes > before);
        sandbox.control().clear_faults();
        // Waits for a helper that is still running.
        let output = test.run(&["accounts", "--check"]);
        assert_eq!(output.code, 0, "kill {n} of {kills}\n{}", output.all_output());
    }
    assert!(refreshed * 2 >= kills, "only {refreshed} of {kills} kills met a refresh");
    println!("P28: {kills} kills of the whole tree, {refreshed} during a request, 0 logins lost");
}

#[test]
fn the_browser_of_connect_gets_none_of_our_secrets() {
    let (mut test, _sandbox) = accounts::set_up();
    let env = test.path("env.txt").display().to_string();
    let opener =
        test.write("xdg-open", &format!("#!/bin/sh\nenv > {env}.new\nmv {env}.new {env}\n"));
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", test.path("").display());
    test.set("PATH", &path);
    test.set("TOLLGATE_METRICS_TOKEN", "planted-metrics-token-0123456789abcdef");
    test.set("OTHER_TOKEN", "planted-other-token");
    test.set("DISPLAY", ":7");
    let mut command = test.command(&["connect", "whoop"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while !test.path("env.txt").exists() {
        assert!(begun.elapsed() < WAIT_MAX, "no browser was started");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let env = std::fs::read_to_string(test.path("env.txt")).unwrap();
    assert!(env.contains("DISPLAY=:7") && env.contains("PATH="), "{env}");
    for name in ["TOLLGATE_", "CLIENT_SECRET", "OTHER_TOKEN", "planted"] {
        assert!(!env.contains(name), "`{name}` is in {env}");
    }
}
