//! Nothing that a child started outlives the gate, however the gate ends.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    dead_code,
    reason = "a failed unwrap is a failed test; helpers are shared by several tests"
)]

#[path = "upstream_support/children.rs"]
mod children;
#[path = "upstream_support/permit.rs"]
mod permit;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use children::{host, options, processes_that, processes_with, python, request, within};
use gateway::upstream::{ChildState, Reply, StdioLink};
use permit::permit;
use platform::guard::Method;
use rustix::process::{Pid, Signal, kill_process};

const LONG: Duration = Duration::from_secs(15);

/// A child that starts one process directly, one in its own group and session, and one whose parent
/// is gone. All run forever, carry the mark, which is a number, and ignore TERM and the end of
/// their input.
fn family(mark: &str) -> [String; 2] {
    let script = format!(
        "trap '' TERM HUP; sleep 3600.{mark} & setsid sleep 3600.{mark} & \
         (setsid sh -c 'trap \"\" TERM; sleep 3600.{mark} & sleep 3600.{mark}' &) ; \
         while :; do sleep 3600.{mark}; done"
    );
    ["-c".to_owned(), script]
}

/// The number of `sleep` processes when all are running. Shells before their `exec` do not count,
/// or the family would seem complete too early.
const SLEEPERS: usize = 5;

fn is_whole(mark: &str) -> bool {
    processes_that(|line| line.starts_with(&format!("sleep 3600.{mark} "))).len() == SLEEPERS
}

fn start_gate(method: Method, mark: &str) -> Child {
    let word = if method == Method::Marks { "run-marked" } else { "run" };
    Command::new(host())
        .args([word, "sh"])
        .args(family(mark))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_of_the_gate_nothing_is_left_within_two_seconds() {
    kill_gates(Method::default(), 10, 10).await;
}

/// How it is done where the kernel neither adopts orphans nor kills a command with its parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_of_the_gate_nothing_marked_is_left_within_two_seconds() {
    kill_gates(Method::Marks, 4, 5).await;
}

async fn kill_gates(method: Method, rounds: usize, gates: usize) {
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let marks: Vec<String> =
            (0..gates).map(|gate| format!("9{}{round}{gate}", std::process::id())).collect();
        let mut started: Vec<Child> = marks.iter().map(|mark| start_gate(method, mark)).collect();
        // Some are killed with the whole family running, some during its start.
        if round % 2 == 0 {
            for mark in &marks {
                assert!(within(LONG, || is_whole(mark)).await, "{mark} did not start");
            }
        } else {
            tokio::time::sleep(Duration::from_millis(7 * round as u64)).await;
        }
        let began = Instant::now();
        for gate in &mut started {
            gate.kill().unwrap();
            gate.wait().unwrap();
        }
        for mark in &marks {
            let command = format!("3600.{mark}");
            assert!(
                within(Duration::from_secs(2), || processes_with(&command).is_empty()).await,
                "left over: {:?}",
                processes_with(&command)
            );
        }
        slowest = slowest.max(began.elapsed());
    }
    let gates = rounds * gates;
    #[expect(clippy::print_stdout, reason = "the figure of promise P26")]
    {
        println!("{gates} gates killed, nothing left after {slowest:?} at most");
    }
}

/// A link to the family with all processes running, and the command line of its members.
async fn linked_family(mark: u8) -> (StdioLink, String) {
    linked_family_by(Method::default(), mark).await
}

async fn linked_family_by(method: Method, mark: u8) -> (StdioLink, String) {
    let mark = format!("{mark}{}", std::process::id());
    let words = family(&mark);
    let mut options = options("sh", &[&words[0], &words[1]]);
    options.guard_program.method = method;
    options.bounds.end_wait_max = Duration::from_millis(100);
    options.bounds.term_wait_max = Duration::from_millis(100);
    let link = StdioLink::start(options);
    assert!(within(LONG, || is_whole(&mark)).await);
    (link, format!("sleep 3600.{mark}"))
}

#[tokio::test]
async fn closing_ends_the_child_and_all_it_started() {
    let (link, sleeping) = linked_family(1).await;
    tokio::time::timeout(Duration::from_secs(3), link.close()).await.unwrap();
    assert_eq!(processes_with(&sleeping), Vec::<u32>::new());
    assert_eq!(link.state(), ChildState::Stopped);
}

#[tokio::test]
async fn closing_ends_a_marked_child_and_all_it_started() {
    let (link, sleeping) = linked_family_by(Method::Marks, 4).await;
    tokio::time::timeout(Duration::from_secs(3), link.close()).await.unwrap();
    assert_eq!(processes_with(&sleeping), Vec::<u32>::new());
    assert_eq!(link.state(), ChildState::Stopped);
}

/// Without its keeper, which watches a pipe of the guard, the family would stay.
#[tokio::test]
async fn a_killed_guard_of_a_marked_family_takes_all_of_it_along() {
    let (link, sleeping) = linked_family_by(Method::Marks, 5).await;
    let ChildState::Running { pid, run } = link.state() else { panic!("it runs") };
    let first = processes_with(&sleeping);
    kill(pid, Signal::KILL);
    let alive = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(within(LONG, || !first.iter().any(alive)).await, "left: {first:?}");
    let began_anew = || matches!(link.state(), ChildState::Running { run: now, .. } if now > run);
    assert!(within(LONG, began_anew).await, "{:?}", link.state());
    link.close().await;
}

/// A keeper that is killed is replaced; the next one still ends the family with its guard.
#[tokio::test]
async fn a_killed_keeper_is_replaced() {
    let (link, sleeping) = linked_family_by(Method::Marks, 6).await;
    let ChildState::Running { pid: guard, .. } = link.state() else { panic!("it runs") };
    let keepers = || processes_with(&format!("__child keep -- {guard}-"));
    let [keeper] = keepers()[..] else { panic!("one keeper") };
    kill(keeper, Signal::KILL);
    assert!(within(LONG, || keepers().iter().any(|now| *now != keeper)).await);
    let first = processes_with(&sleeping);
    assert!(!first.is_empty(), "the family outlives its keeper");
    kill(guard, Signal::KILL);
    let alive = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(within(LONG, || !first.iter().any(alive)).await, "left: {first:?}");
    link.close().await;
}

#[tokio::test]
async fn dropping_the_link_is_enough() {
    let (link, sleeping) = linked_family(2).await;
    drop(link);
    assert!(within(LONG, || processes_with(&sleeping).is_empty()).await);
}

#[tokio::test]
async fn the_end_of_a_guard_is_noticed_although_orphans_hold_the_pipes() {
    let (link, sleeping) = linked_family(3).await;
    let ChildState::Running { pid, run } = link.state() else { panic!("it runs") };
    let left = processes_with(&sleeping);
    kill(pid, Signal::KILL);
    let began_anew = || matches!(link.state(), ChildState::Running { run: now, .. } if now > run);
    let noticed = within(LONG, began_anew).await;
    for pid in left {
        kill(pid, Signal::KILL);
    }
    assert!(noticed, "{:?}", link.state());
    link.close().await;
    assert!(within(LONG, || processes_with(&sleeping).is_empty()).await);
}

#[tokio::test]
async fn a_well_behaved_child_exits_at_the_end_of_its_input() {
    let link = python(|_| {});
    let Reply::One { .. } = link.request(&permit(), request(1, "echo", "{}")).await.unwrap() else {
        panic!("one")
    };
    let began = Instant::now();
    link.close().await;
    assert!(
        began.elapsed() < Duration::from_millis(1500),
        "it had to be killed: {:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn after_a_crash_nothing_of_the_family_is_left() {
    let link = python(|_| {});
    let Reply::One { body, .. } = link.request(&permit(), request(1, "fork", "{}")).await.unwrap()
    else {
        panic!("one")
    };
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let plain = body["result"]["plain"].as_u64().unwrap();
    let alive = |pid: u64| std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(alive(plain));
    link.request(&permit(), request(2, "crash", "{}")).await.err().unwrap();
    assert!(!alive(plain), "the crash is told only when everything has ended");
    assert!(link.ready(LONG).await.unwrap() == 2);
}

#[tokio::test]
async fn a_killed_guard_takes_its_child_along_and_both_are_restarted() {
    let link = python(|_| {});
    let Reply::One { body, .. } =
        link.request(&permit(), request(1, "stubborn", "{}")).await.unwrap()
    else {
        panic!("one")
    };
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let child = body["result"]["pid"].as_u64().unwrap();
    let ChildState::Running { pid: guard, .. } = link.state() else { panic!("it runs") };
    assert_ne!(u64::from(guard), child);
    kill(guard, Signal::KILL);
    assert!(within(LONG, || !std::path::Path::new(&format!("/proc/{child}")).exists()).await);
    assert_eq!(link.ready(LONG).await.unwrap(), 2);
}

#[tokio::test]
async fn a_terminated_guard_ends_the_child() {
    let link = python(|options| options.bounds.term_wait_max = Duration::from_millis(200));
    let Reply::One { body, .. } =
        link.request(&permit(), request(1, "stubborn", "{}")).await.unwrap()
    else {
        panic!("one")
    };
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let child = body["result"]["pid"].as_u64().unwrap();
    let ChildState::Running { pid: guard, .. } = link.state() else { panic!("it runs") };
    kill(guard, Signal::TERM);
    assert!(within(LONG, || !std::path::Path::new(&format!("/proc/{child}")).exists()).await);
}

#[test]
fn the_guard_is_small() {
    let mark = format!("3{}", std::process::id());
    let mut gate = start_gate(Method::default(), &mark);
    let began = Instant::now();
    let guard = loop {
        let found = processes_with(&format!("3600.{mark}")).into_iter().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.trim() == "gate-child")
        });
        match found {
            Some(guard) => break guard,
            None => assert!(began.elapsed() < LONG, "there is no guard"),
        }
    };
    std::thread::sleep(Duration::from_millis(200));
    let status = std::fs::read_to_string(format!("/proc/{guard}/status")).unwrap();
    let kib = |field: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    gate.kill().unwrap();
    gate.wait().unwrap();
    // Memory that the guard does not share with the gate.
    assert!(kib("RssAnon") < 1024, "{status}");
    assert_eq!(kib("Threads"), 1);
}
