//! Stopping, dying, and servers that hang.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::recorder::Recorder;
use crate::world::{Gate, TOOLS, rounds, until};

/// A server on standard streams that starts a child of its own and notes both and every call.
const SERVER: &str = r#"
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
with open(sys.argv[1] + ".pids", "a") as pids:
    pids.write("%d\n%d\n" % (os.getpid(), child.pid))
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "secret")]
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        with open(sys.argv[1] + ".calls", "a") as calls:
            calls.write(line)
        result = {"content": [{"type": "text", "text": "ok"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

/// Puts the child server behind the gate as `child`; answers with a token and where it takes notes.
pub(crate) fn with_child(gate: &Gate) -> (String, std::path::PathBuf) {
    let script = gate.folder.path().join("server.py");
    fs::write(&script, SERVER).unwrap();
    let notes = gate.folder.path().join("notes");
    gate.policy(
        "open",
        &json!({ "version": "1", "default": "allow", "tools": { "secret": { "action": "deny" } } }),
    );
    let (script, at) = (script.to_str().unwrap(), notes.to_str().unwrap());
    gate.run(&["server", "add", "child", "--", "python3", script, at]);
    (gate.grant("agent", &["child=open"]), notes)
}

fn alive(notes: &Path) -> usize {
    let pids = fs::read_to_string(notes.with_extension("pids")).unwrap();
    let lives = |pid: &&str| {
        // A zombie is dead; its parent has not looked yet.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    pids.lines().filter(lives).count()
}

#[test]
fn p26_no_child_outlives_a_killed_gate() {
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    let mut slowest = Duration::ZERO;
    let kills = rounds(3);
    for _ in 0..kills {
        gate.up();
        let client = gate.client(&token, "/mcp/child");
        assert!(client.call("echo", &json!({})).passed());
        client.with_session().call("echo", &json!({}));
        assert!(alive(&notes) >= 4, "two servers and their children run");
        gate.kill();
        let took = until("no child is left", Duration::from_secs(2), || alive(&notes) == 0);
        slowest = slowest.max(took);
    }
    println!("P26: {kills} kills with children of children, 0 left after {slowest:.0?}");
}

#[test]
fn p24_a_server_that_hangs_does_not_stop_the_others() {
    let (gate, recorder, hung) = Gate::with_recorder();
    let second = Recorder::new(TOOLS);
    gate.run(&["server", "add", "well", "--url", &second.url()]);
    let well = gate.client(&gate.grant("well", &["well=rules"]), "/mcp/well");
    until("the grant counts", Duration::from_secs(5), || well.call("echo", &json!({})).passed());
    recorder.hang_on("other");
    let waiting: Vec<_> = (0..40)
        .map(|_| {
            use std::io::Write;
            let body = crate::door::call("other", &json!({})).to_string();
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", gate.port)).unwrap();
            stream.write_all(&hung.request(body.as_bytes(), "")).unwrap();
            stream
        })
        .collect();
    until("all calls hang", Duration::from_secs(10), || recorder.count("other") == 40);
    let mut took: Vec<Duration> = (0..50)
        .map(|_| {
            let answer = well.call("echo", &json!({}));
            assert!(answer.passed());
            answer.took
        })
        .collect();
    took.sort();
    println!(
        "P24: 40 calls hang at one server; at the other 50 calls took {:.1?} in the middle, {:.1?} at most",
        took[25], took[49]
    );
    assert!(took[49] < Duration::from_secs(2));
    assert!(hung.call("echo", &json!({})).passed(), "even the same server answers other calls");
    drop(waiting);
}

#[test]
fn p25_a_stop_settles_every_call_within_five_seconds() {
    let (mut gate, recorder, client) = Gate::with_recorder();
    recorder.hang_on("other");
    let waiting = thread::spawn({
        let client = client.clone();
        move || {
            let _ = std::panic::catch_unwind(|| client.call("other", &json!({})));
        }
    });
    until("the call hangs", Duration::from_secs(5), || recorder.count("other") == 1);
    let took = gate.stop();
    waiting.join().unwrap();
    let rows = gate.decisions();
    let open = |row: &&Value| row["decision"] == "admitted" && row["outcome"].is_null();
    let open: Vec<&Value> = rows.iter().filter(open).collect();
    let started = Instant::now();
    gate.up();
    assert!(gate.client(&client.token, "/mcp/rec").call("echo", &json!({})).passed());
    println!(
        "P25: a stop took {took:.1?} with a call that hangs, {} left open; start to first call {:.0?}",
        open.len(),
        started.elapsed()
    );
    assert!(took < Duration::from_secs(5));
    assert!(open.is_empty(), "{open:?}");
    gate.verify();
}

fn live(gate: &Gate, server: &str) -> Value {
    // Exit code 1 would mean that no gate runs.
    let status: Value = serde_json::from_str(&gate.run(&["--json", "status"])).unwrap();
    let servers = status["gates"][0]["live"]["servers"].as_array().unwrap().clone();
    servers.into_iter().find(|one| one["name"] == server).unwrap()
}

#[test]
fn the_owner_sees_how_servers_stand_and_nobody_else_does() {
    use std::os::unix::fs::PermissionsExt;
    let mut gate = Gate::new();
    let (token, _notes) = with_child(&gate);
    let recorder = Recorder::new(TOOLS);
    gate.policy("rules", &crate::world::rules());
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let other = gate.grant("other", &["rec=rules"]);
    gate.up();
    assert_eq!(live(&gate, "child")["state"], "not in use");
    let client = gate.client(&token, "/mcp/child");
    assert!(client.call("echo", &json!({})).passed());
    let child = live(&gate, "child");
    assert_eq!((&child["kind"], &child["state"]), (&json!("command"), &json!("running")));
    let pid = child["processes"][0]["pid"].as_u64().unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(child["in_flight"], 0);

    recorder.hang_on("other");
    let rec = gate.client(&other, "/mcp/rec");
    assert!(rec.call("echo", &json!({})).passed());
    let waiting = std::thread::spawn({
        let rec = rec.clone();
        move || rec.call("other", &json!({}))
    });
    until("the call is in flight", Duration::from_secs(5), || live(&gate, "rec")["in_flight"] == 1);
    recorder.let_go();
    assert!(waiting.join().unwrap().passed());
    assert_eq!(live(&gate, "rec")["state"], "in use");
    recorder.lie(Some(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n".to_vec()));
    assert!(!rec.call("echo", &json!({})).passed());
    let failing = live(&gate, "rec");
    assert_eq!(failing["state"], "failing");
    let words = failing["last_error"]["words"].as_str().unwrap();
    assert!(words.contains("content type"), "{words}");
    let shown = gate.run(&["status"]);
    assert!(shown.contains("live       child: running, process "), "{shown}");
    assert!(shown.contains("live       rec: failing, last error"), "{shown}");

    let folder = gate.home.join("running");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let socket = folder.join(format!("{}.sock", gate.pid()));
    assert_eq!(mode(&socket), 0o600);
    gate.kill();
    assert!(!gate.cli(&["status"]).status.success());
    assert!(!socket.exists(), "what a killed gate left behind is swept away");
}
