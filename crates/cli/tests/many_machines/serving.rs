//! One gate on Postgres behaves like one on files; several share limits, approvals and the log.

use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::http_client::{Answer, exchange};
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::recorder::Recorder;
use crate::test_gate::{Gate, TOOLS, until};

const WAIT: Duration = Duration::from_secs(20);
/// A replica serves again within this time after its store is back.
const BACK_MAX: Duration = Duration::from_secs(5);

/// A set-up gate with a recorder behind it, which does not run yet, and the token of a grant.
pub(crate) fn set_up(store: &str) -> (Gate, Recorder, String) {
    let mut gate = Gate::new();
    gate.store = Some(store.to_owned());
    let recorder = Recorder::new(TOOLS);
    let token = gate.set_up(&recorder);
    (gate, recorder, token)
}

/// Another gate on the same store and with the same servers and grants.
pub(crate) fn replica_of(gate: &Gate) -> Gate {
    let mut replica = Gate::at(Some(&gate.home));
    replica.store.clone_from(&gate.store);
    replica
}

pub(crate) fn probe(gate: &Gate, path: &str) -> Answer {
    // A probe of an orchestrator names the address of the machine.
    let request = format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.7:80\r\nConnection: close\r\n\r\n");
    exchange(gate.port, request.as_bytes(), WAIT)
}

#[test]
fn a_gate_on_postgres_serves_as_one_on_files() {
    let server = Server::shared();
    let (mut gate, recorder, token) = set_up(&server.address(&server.new_schema()));
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    let session = client.with_session();
    for client in [&client, &session] {
        assert!(client.call("echo", &json!({ "nonce": "a" })).passed());
    }
    let passed = |_: &usize| client.call("limited", &json!({})).passed();
    assert_eq!((0..5).filter(passed).count(), 3);
    assert_eq!(client.call("secret", &json!({})).denial()["code"], "denied_by_rule");
    let asked = client.call("pay", &json!({})).denial();
    assert_eq!(asked["code"], "approval_pending", "{asked}");
    gate.run(&["approvals", "approve", "--yes", asked["approval_id"].as_str().unwrap()]);
    let paid = || client.call("pay", &json!({})).passed();
    until("it is paid", Duration::from_secs(3), paid);
    assert_eq!(recorder.count("pay"), 1);
    assert_eq!(probe(&gate, "/livez").status, 200);
    assert_eq!(probe(&gate, "/readyz").status, 200);
    let away =
        exchange(gate.port, b"GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", WAIT);
    assert!(matches!(away.status, 401 | 403), "{}", away.status);
    gate.stop();
    assert_eq!(gate.admitted("echo"), 2);
    assert_eq!(gate.admitted("limited"), 3);
    let ended = |row: &&serde_json::Value| row["outcome"] == "ok" && row["tool"] == "echo";
    assert_eq!(gate.decisions().iter().filter(ended).count(), 2, "{:?}", gate.decisions());
    gate.verify();
    assert!(!gate.home.join("audit/00000001.log").exists());
    assert!(server_rows(&gate) > 10);
}

fn server_rows(gate: &Gate) -> u64 {
    let checkpoint = gate.run(&["audit", "checkpoint"]);
    serde_json::from_str::<serde_json::Value>(&checkpoint).unwrap()["seq"].as_u64().unwrap()
}

#[test]
fn the_password_of_the_store_is_not_an_argument_and_is_never_printed() {
    let gate = Gate::new();
    let said = gate.cli(&["--store", "postgres://u:hunter2@127.0.0.1:1/t", "server", "list"]);
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(
        error.contains("must not contain the password") && !error.contains("hunter2"),
        "{error}"
    );
    let mut command = gate.command();
    command.env("TOLLGATE_STORE", "postgres://u:hunter2@127.0.0.1:1/t");
    let said = command.args(["audit", "checkpoint"]).output().unwrap();
    let all = format!("{said:?}");
    assert!(!said.status.success() && !all.contains("hunter2"), "{all}");
    assert!(all.contains("cannot reach the store"), "{all}");
}

#[test]
fn replicas_share_limits_and_an_approval_releases_a_call_that_waits_on_another() {
    let server = Server::shared();
    let (mut first, recorder, token) = set_up(&server.address(&server.new_schema()));
    let url = recorder.url();
    first.settings(&format!("[limits]\napproval_hold_seconds = 20\n# {url}\n"));
    let mut second = replica_of(&first);
    first.up();
    second.up();
    let clients = [&first, &second].map(|gate| gate.client(&token, "/mcp/rec"));
    let passed = (0..6).filter(|n| clients[n % 2].call("limited", &json!({})).passed()).count();
    assert_eq!(passed, 3, "one limit for both");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| clients[0].call("pay", &json!({})));
        let mut id = String::new();
        until("the call waits", WAIT, || {
            let listed = second.run(&["--json", "approvals", "list"]);
            let at =
                listed.find("ap-").map(|at| listed[at..].split('"').next().unwrap().to_owned());
            id = at.unwrap_or_default();
            !id.is_empty()
        });
        second.run(&["approvals", "approve", "--yes", &id]);
        let answer = waiting.join().unwrap();
        assert!(answer.passed(), "{}", answer.text());
    });
    assert_eq!(recorder.count("pay"), 1);
    first.stop();
    second.stop();
    first.verify();
}

#[test]
fn a_gate_without_its_store_refuses_says_so_and_serves_again() {
    let server = Server::private();
    let proxy = Proxy::to(server.folder());
    let store = format!("postgres://tollgate@127.0.0.1:{}/postgres", proxy.port);
    let (mut gate, recorder, token) = set_up(&store);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed());
    let is_back =
        || probe(&gate, "/readyz").status == 200 && client.call("echo", &json!({})).passed();
    server.stop();
    until("it is not ready", WAIT, || probe(&gate, "/readyz").status == 503);
    let seen = recorder.calls().len();
    let refused = client.call("echo", &json!({}));
    assert!(!refused.passed() && refused.took < Duration::from_secs(1), "{}", refused.text());
    assert_eq!(probe(&gate, "/livez").status, 200);
    server.start();
    until("it serves again", BACK_MAX, is_back);
    proxy.cut();
    until("it is not ready", WAIT, || probe(&gate, "/readyz").status == 503);
    assert!(!client.call("echo", &json!({})).passed());
    proxy.mend();
    until("it serves again", BACK_MAX, is_back);
    assert!(recorder.calls().len() >= seen + 2);
    gate.stop();
    gate.verify();
}
