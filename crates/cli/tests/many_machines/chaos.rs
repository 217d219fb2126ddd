//! Three gates and one Postgres with many clients, while gates are killed, paused and cut off and
//! the server crashes: never over the limit, no call without its row, one chain.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::http_client::Client;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::recorder::Recorder;
use crate::serving::replica_of;
use crate::test_gate::{Gate, number};

const TOOLS: usize = 40;
const WINDOW_US: u64 = 10_000_000;
const PER_WINDOW: usize = 250;
const PER_MINUTE: usize = 1_000;

pub(crate) fn signal(gate: &Gate, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(gate.pid()).unwrap()).unwrap(), signal).unwrap();
}

/// Calls until it is told to stop. The port may change, because a gate was started again.
fn call_until(
    stop: &AtomicBool,
    port: &Mutex<u16>,
    token: &str,
    client: usize,
    passed: &AtomicUsize,
) {
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let port = *port.lock().unwrap_or_else(PoisonError::into_inner);
        let client_of = Client {
            port,
            token: token.to_owned(),
            path: "/mcp/rec".to_owned(),
            headers: String::new(),
        };
        let tool = format!("t{}", (client + round) % TOOLS);
        let called = std::panic::catch_unwind(|| client_of.call(&tool, &json!({})).passed());
        match called {
            Ok(true) => {
                passed.fetch_add(1, Ordering::Relaxed);
            }
            _ => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// The most rows in any interval of this length.
fn most_in(mut ticks: Vec<u64>, window_us: u64) -> usize {
    ticks.sort_unstable();
    let upto = |from: usize| ticks[from..].partition_point(|tick| *tick < ticks[from] + window_us);
    (0..ticks.len()).map(upto).max().unwrap_or(0)
}

#[test]
fn p_three_gates_keep_one_limit_while_they_and_their_store_fail() {
    let server = Server::private();
    let tools: Vec<String> = (0..TOOLS).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = tools.iter().map(String::as_str).collect();
    let recorder = Recorder::new(&names);
    let proxy = Proxy::to(server.folder());
    let direct = server.address("public");
    let mut gates = vec![Gate::new()];
    gates[0].store = Some(direct.clone());
    let limits = json!([
        { "counter": "c", "window": "10s", "max": PER_WINDOW, "scope": "everyone" },
        { "counter": "c", "window": "minute", "max": PER_MINUTE, "scope": "everyone" },
    ]);
    let rules = json!({
        "version": "1", "default": "deny", "tools": { "t*": { "limits": limits } },
    });
    gates[0].policy("rules", &rules);
    gates[0].settings("durability = \"power\"\n");
    gates[0].run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gates[0].grant("agent", &["rec=rules"]);
    gates.extend([replica_of(&gates[0]), replica_of(&gates[0])]);
    gates[2].store =
        Some(format!("postgres://tollgate@127.0.0.1:{}/postgres?schema=public", proxy.port));
    for gate in &mut gates {
        gate.up();
    }
    let ports: Vec<Mutex<u16>> = gates.iter().map(|gate| Mutex::new(gate.port)).collect();
    let (stop, passed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clients = number("TOLLGATE_CLIENTS", 30);
    let pause = Duration::from_secs(number("TOLLGATE_PAUSE_SECONDS", 12) as u64);
    thread::scope(|scope| {
        for client in 0..clients {
            let (stop, passed, port, token) = (&stop, &passed, &ports[client % 3], &token);
            scope.spawn(move || call_until(stop, port, token, client, passed));
        }
        let settle = Duration::from_secs(3);
        thread::sleep(settle);
        signal(&gates[1], Signal::STOP);
        let paused = Instant::now();
        gates[0].kill();
        server.crash();
        gates[0].up();
        *ports[0].lock().unwrap() = gates[0].port;
        thread::sleep(settle);
        proxy.cut();
        thread::sleep(settle);
        server.crash();
        proxy.mend();
        thread::sleep(pause.saturating_sub(paused.elapsed()));
        signal(&gates[1], Signal::CONT);
        thread::sleep(settle);
        gates[2].kill();
        gates[2].up();
        *ports[2].lock().unwrap() = gates[2].port;
        thread::sleep(settle);
        stop.store(true, Ordering::Relaxed);
    });
    for gate in &mut gates {
        gate.stop();
    }
    check(&gates[0], &recorder, passed.into_inner());
}

fn check(gate: &Gate, recorder: &Recorder, passed: usize) {
    let mut rows = gate.decisions();
    rows.retain(|row| row["decision"] == "admitted");
    let ticks: Vec<u64> = rows.iter().map(|row| row["tick"].as_u64().unwrap()).collect();
    assert!(most_in(ticks.clone(), WINDOW_US) <= PER_WINDOW, "{}", most_in(ticks, WINDOW_US));
    assert!(most_in(ticks.clone(), 60_000_000) <= PER_MINUTE);
    let mut admitted: HashMap<&str, usize> = HashMap::new();
    for row in &rows {
        *admitted.entry(row["tool"].as_str().unwrap()).or_default() += 1;
    }
    let mut reached: HashMap<String, usize> = HashMap::new();
    for tool in recorder.calls() {
        *reached.entry(tool).or_default() += 1;
    }
    for (tool, count) in &reached {
        let rows = admitted.get(tool.as_str()).copied().unwrap_or(0);
        assert!(rows >= *count, "{tool}: {count} calls reached the server, {rows} rows");
    }
    assert!(passed > 100, "{passed} calls passed");
    let ended = |ending: &str| rows.iter().filter(|row| row["outcome"] == ending).count();
    let (ok, unknown) = (ended("ok"), ended("unknown"));
    println!("{} admitted, {passed} answered, {ok} ok, {unknown} unknown", rows.len());
    assert!(ok + unknown > rows.len() / 2, "endings are written");
    gate.verify();
}
