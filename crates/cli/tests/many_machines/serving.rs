//! One gate on Postgres behaves like one on files; several share limits, approvals and the log.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::chaos::signal;
use crate::http_client::{Answer, Client, exchange};
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

/// Another machine on the same store: a home of its own with the same vault key and settings.
pub(crate) fn replica_of(gate: &Gate) -> Gate {
    let mut replica = Gate::new();
    replica.store.clone_from(&gate.store);
    replica.settings("");
    for file in ["vault.key", "tollgate.toml"] {
        fs::copy(gate.home.join(file), replica.home.join(file)).unwrap();
    }
    replica
}

/// Runs a command in the gate's home, on another address.
fn run_on(gate: &Gate, store: &str, words: &[&str]) -> String {
    let mut other = Gate::at(Some(&gate.home));
    other.store = Some(store.to_owned());
    other.run(words)
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

/// How long until a gate refuses this client.
fn refused_after(client: &Client) -> Duration {
    let began = Instant::now();
    until("the grant is refused", WAIT, || client.call("echo", &json!({})).status == 401);
    began.elapsed()
}

#[test]
fn what_one_machine_changes_holds_on_the_others_within_a_second() {
    let server = Server::shared();
    let (mut first, recorder, token) = set_up(&server.address(&server.new_schema()));
    let mut second = replica_of(&first);
    assert!(!second.home.join("gate.db").exists());
    first.up();
    second.up();
    assert!(!second.home.join("gate.db").exists(), "the registry is in the store");
    let client = second.client(&token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed(), "a grant that the first machine made");
    // A policy, from the second machine to the first.
    second.policy("rules", &json!({ "version": "1", "default": "deny" }));
    let of_first = first.client(&token, "/mcp/rec");
    let took = until("the policy holds", WAIT, || !of_first.call("echo", &json!({})).passed());
    assert!(took < Duration::from_secs(1), "{took:?}");
    second.policy("rules", &crate::test_gate::rules());
    until("the policy holds", WAIT, || of_first.call("echo", &json!({})).passed());
    first.run(&["grant", "revoke", "agent"]);
    let took = refused_after(&client);
    assert!(took < Duration::from_secs(1), "{took:?}");
    let seen = recorder.calls().len();
    assert_eq!(client.call("echo", &json!({})).status, 401);
    assert_eq!(recorder.calls().len(), seen);
    first.stop();
    second.stop();
    second.verify();
}

#[test]
fn a_machine_that_slept_through_a_revocation_lets_no_waiting_call_out() {
    let server = Server::shared();
    let (mut first, recorder, token) = set_up(&server.address(&server.new_schema()));
    let mut second = replica_of(&first);
    first.up();
    second.up();
    let client = second.client(&token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed());
    signal(&second, Signal::STOP);
    let before = recorder.calls().len();
    thread::scope(|scope| {
        let calls = (0..20).map(|_| scope.spawn(|| client.call("echo", &json!({})).passed()));
        let calls: Vec<_> = calls.collect();
        thread::sleep(Duration::from_millis(300));
        first.run(&["grant", "revoke", "agent"]);
        signal(&second, Signal::CONT);
        for call in calls {
            assert!(!call.join().unwrap(), "a call of a revoked grant passed");
        }
    });
    assert_eq!(recorder.calls().len(), before);
    first.stop();
    second.stop();
}

#[test]
fn a_machine_with_another_vault_key_is_refused() {
    let server = Server::shared();
    let (gate, _recorder, _) = set_up(&server.address(&server.new_schema()));
    let mut stranger = Gate::new();
    stranger.store.clone_from(&gate.store);
    let said = stranger.cli(&["server", "list"]);
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(!said.status.success() && error.contains("copy `vault.key`"), "{error}");
}

#[test]
fn a_home_moves_to_a_store_and_back_with_its_grants_and_its_log() {
    let server = Server::shared();
    let mut old = Gate::new();
    let recorder = Recorder::new(TOOLS);
    let token = old.set_up(&recorder);
    old.up();
    let passes = |gate: &Gate| gate.client(&token, "/mcp/rec").call("echo", &json!({})).passed();
    assert!(passes(&old));
    let store = server.address(&server.new_schema());
    let to_store = ["--store", &store, "store", "copy", "--to", "store"];
    let running = String::from_utf8(old.cli(&to_store).stderr).unwrap();
    assert!(running.contains("stop all gates first"), "{running}");
    old.stop();
    let said = old.run(&to_store);
    assert!(said.starts_with("copied and compared, from this home to "), "{said}");
    assert!(!old.cli(&to_store).status.success(), "only to an empty one");

    let mut shared = replica_of(&old);
    shared.store = Some(store.clone());
    shared.up();
    assert!(passes(&shared));
    shared.stop();
    assert_eq!(shared.admitted("echo"), 2);
    shared.verify();

    let mut new = replica_of(&old);
    assert!(new.store.is_none());
    new.run(&["--store", &store, "store", "copy", "--to", "home"]);
    new.up();
    assert!(passes(&new));
    new.stop();
    assert_eq!(new.admitted("echo"), 3);
    new.verify();
}

#[test]
fn a_gate_serves_with_the_rights_of_its_role_and_can_change_no_row_of_the_log() {
    let server = Server::private();
    server.sql("CREATE ROLE gate LOGIN; CREATE ROLE reader LOGIN; CREATE SCHEMA gates");
    let address = |user: &str| {
        let folder = server.folder().display();
        format!("postgres://{user}@/postgres?host={folder}&schema=gates")
    };
    let mut gate = Gate::new();
    gate.store = Some(address("gate"));
    let refused = gate.cli(&["store", "migrate"]);
    assert!(!refused.status.success(), "{refused:?}");
    let owner = address("tollgate");
    run_on(&gate, &owner, &["store", "migrate", "--gate", "gate"]);
    server.sql(&run_on(&gate, &owner, &["store", "roles", "--gate", "gate", "--reader", "reader"]));
    let recorder = Recorder::new(TOOLS);
    let token = gate.set_up(&recorder);
    gate.settings("durability = \"power\"\n");
    gate.up();
    assert!(gate.client(&token, "/mcp/rec").call("echo", &json!({})).passed());
    gate.run(&["grant", "revoke", "agent"]);
    gate.stop();
    gate.verify();
    for (role, statement, may) in [
        ("gate", "UPDATE ledger_rows SET line = ''", false),
        ("gate", "DELETE FROM ledger_rows", false),
        ("gate", "TRUNCATE ledger_rows", false),
        ("gate", "DELETE FROM ledger_segments", false),
        ("gate", "CREATE TABLE mine (a integer)", false),
        ("reader", "SELECT count(*) FROM ledger_rows", true),
        ("reader", "SELECT count(*) FROM captures", false),
        ("reader", "INSERT INTO ledger_logs VALUES (1)", false),
    ] {
        let words = format!("SET ROLE {role}; SET search_path = gates; {statement}");
        assert_eq!(server.try_sql(&words).is_ok(), may, "{role}: {statement}");
    }
    // The reader reads and verifies the log.
    assert!(run_on(&gate, &address("reader"), &["audit", "verify"]).starts_with("whole"));
}

#[test]
fn a_dump_that_is_restored_elsewhere_serves_and_a_later_checkpoint_shows_what_it_lacks() {
    let server = Server::private();
    let (mut gate, _recorder, token) = set_up(&server.address("public"));
    gate.up();
    let passes = |gate: &Gate| gate.client(&token, "/mcp/rec").call("echo", &json!({})).passed();
    assert!(passes(&gate));
    let file = |name: &str| gate.folder.path().join(name);
    let [dump, before, after] = ["dump", "before", "after"].map(file);
    gate.run(&["audit", "checkpoint", "--out", before.to_str().unwrap()]);
    server.dump(&dump);
    assert!(passes(&gate));
    gate.run(&["audit", "checkpoint", "--out", after.to_str().unwrap()]);
    gate.stop();

    let another = Server::private();
    another.restore(&dump);
    let mut restored = replica_of(&gate);
    restored.store = Some(another.address("public"));
    let verify = |checkpoint: &Path| {
        restored.cli(&["audit", "verify", "--checkpoint", checkpoint.to_str().unwrap()])
    };
    assert!(verify(&before).status.success());
    let lacks = verify(&after);
    assert_eq!(lacks.status.code(), Some(1), "{lacks:?}");
    restored.up();
    assert!(passes(&restored));
    restored.stop();
    restored.verify();
}
