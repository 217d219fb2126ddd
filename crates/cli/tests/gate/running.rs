//! Stopping, dying, and servers that hang.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_client::{Client, exchange};
use crate::recorder::{Manner, Recorder};
use crate::test_gate::{Gate, TOOLS, Watch, number, rounds, rules, until};

/// A server on stdio that starts a child and notes both PIDs and every call. It does not list its tools
/// while there is a file `.wait` next to its notes, and exits where `.end` says: at its `start`, or at a
/// `list` request.
const SERVER: &str = r#"
import json, os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
with open(sys.argv[1] + ".pids", "a") as pids:
    pids.write("%d\n%d\n" % (os.getpid(), child.pid))
def end_at(place):
    if os.path.exists(sys.argv[1] + ".end") and open(sys.argv[1] + ".end").read() == place:
        child.kill()
        sys.exit(3)
end_at("start")
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "secret")]
greeted = False
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        continue
    if method == "initialize":
        greeted = True
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif not greeted:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "not greeted"}}), flush=True)
        continue
    elif method == "tools/list":
        end_at("list")
        while os.path.exists(sys.argv[1] + ".wait"):
            time.sleep(0.01)
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

/// Puts the child server behind the gate as `child`; returns a token and the path of its notes.
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

pub(crate) fn alive(notes: &Path) -> usize {
    let pids = fs::read_to_string(notes.with_extension("pids")).unwrap();
    let lives = |pid: &&str| {
        // A zombie is dead; its parent has not reaped it yet.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    pids.lines().filter(lives).count()
}

#[test]
fn p19_a_grant_that_is_revoked_while_its_server_starts_opens_nothing() {
    let mut gate = Gate::new();
    let (_, notes) = with_child(&gate);
    let token = gate.grant("leaver", &["child=open"]);
    gate.up();
    let client = gate.client(&token, "/mcp/child");
    let (wait, begun) = (notes.with_extension("wait"), alive(&notes));
    fs::write(&wait, "").unwrap();
    thread::scope(|scope| {
        let calling = scope.spawn(|| client.call("echo", &json!({})));
        until("its server starts", Duration::from_secs(10), || alive(&notes) > begun);
        gate.run(&["grant", "revoke", "leaver"]);
        fs::remove_file(&wait).unwrap();
        let answer = calling.join().unwrap();
        assert!(!answer.passed(), "{}", answer.text());
    });
    assert!(!notes.with_extension("calls").exists(), "the call did not reach its server");
}

#[cfg(unix)]
#[test]
fn a_restarted_server_gets_a_new_handshake() {
    use rustix::process::{Pid, Signal, kill_process};
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    gate.up();
    let client = gate.client(&token, "/mcp/child");
    let session = client.with_session();
    for client in [&client, &session] {
        assert!(client.call("echo", &json!({})).passed());
    }
    let pids = fs::read_to_string(notes.with_extension("pids")).unwrap();
    for pid in pids.lines().step_by(2).map(|pid| pid.parse().unwrap()) {
        // The process of `server add` has ended already.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
    for client in [&client, &session] {
        until("it answers again", Duration::from_secs(10), || {
            client.call("echo", &json!({})).passed()
        });
    }
}

#[test]
fn the_servers_of_a_revoked_grant_end() {
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    let leaver = gate.grant("leaver", &["child=open"]);
    gate.up();
    assert!(gate.client(&token, "/mcp/child").call("echo", &json!({})).passed());
    let one = alive(&notes);
    assert!(gate.client(&leaver, "/mcp/child").call("echo", &json!({})).passed());
    assert!(alive(&notes) > one, "each grant has its own");
    gate.run(&["grant", "revoke", "leaver"]);
    until("its server ends", Duration::from_secs(10), || alive(&notes) == one);
    assert!(gate.client(&token, "/mcp/child").call("echo", &json!({})).passed());
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

/// A server that starts together with the gate may not be ready for the first handshake.
#[test]
fn a_server_that_refused_both_revisions_is_tried_with_both_again() {
    let mut gate = Gate::new();
    let recorder = Recorder::new(TOOLS);
    recorder.behave(Manner::Asleep);
    gate.policy("rules", &rules());
    gate.run(&["server", "add", "rec", "--no-connect", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    assert!(!client.call("echo", &json!({})).passed());
    recorder.behave(Manner::Newer);
    let answer = client.call("echo", &json!({}));
    assert!(answer.passed(), "{}", answer.text());
}

/// Sends a call and reads nothing.
fn left_waiting(client: &Client, tool: &str) -> TcpStream {
    let body = crate::http_client::call(tool, &json!({})).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", client.port)).unwrap();
    stream.write_all(&client.request(body.as_bytes(), "")).unwrap();
    stream
}

/// The median and the p99 of a hundred calls to a good server.
fn pace(client: &Client) -> (Duration, Duration) {
    let calls = 100 * rounds(2);
    let mut line = client.line();
    let mut took: Vec<Duration> = (0..calls)
        .map(|_| {
            let answer = line.call("echo", &json!({}));
            assert!(answer.passed(), "{}", answer.text());
            answer.took
        })
        .collect();
    took.sort();
    (took[calls / 2], took[calls * 99 / 100 - 1])
}

/// Servers that never answer the handshake: a client of all servers gets the tools of the others before its
/// timeout, however many servers hang.
#[test]
fn p24_servers_that_hang_are_left_out_of_the_list_of_all() {
    let (gate, _recorder, _) = Gate::with_recorder();
    for name in ["hang-a", "hang-b"] {
        gate.run(&["server", "add", name, "--no-connect", "--", "sleep", "1000"]);
    }
    let token = gate.grant("all", &["rec=rules", "hang-a=rules", "hang-b=rules"]);
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let client = gate.client(&token, "/mcp");
    let wait = Duration::from_secs(28);
    let answer = exchange(gate.port, &client.request(ask.to_string().as_bytes(), ""), wait);
    let tools = answer.json()["result"]["tools"].as_array().map_or(0, Vec::len);
    assert!(tools > 0, "{}", answer.text());
    println!("P24: 2 servers of 3 hang, {tools} tools of the third after {:.1?}", answer.took);
}

/// The median and p99 of calls without and with load, measured alternately so that both see the same
/// conditions.
fn paces(client: &Client, at_work: &AtomicBool) -> [(Duration, Duration); 2] {
    const TURNS: usize = 8;
    let calls = 20 * rounds(2);
    let mut line = client.line();
    let mut took = [Vec::new(), Vec::new()];
    for turn in 0..TURNS {
        at_work.store(turn % 2 == 1, Ordering::Relaxed);
        // In-flight work ends or begins.
        thread::sleep(Duration::from_millis(200));
        for _ in 0..calls {
            let answer = line.call("echo", &json!({}));
            assert!(answer.passed(), "{}", answer.text());
            took[turn % 2].push(answer.took);
        }
    }
    took.map(|mut took| {
        took.sort();
        (took[took.len() / 2], took[took.len() * 99 / 100 - 1])
    })
}

#[test]
fn p24_bad_servers_do_not_stop_the_others() {
    let (gate, recorder, hung) = Gate::with_recorder();
    let list_tools = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let other = |name: &str, path: &str| {
        let server = Recorder::new(TOOLS);
        gate.run(&["server", "add", name, "--url", &server.url()]);
        let token = gate.grant(name, &[&format!("{name}=rules")]);
        let client = gate.client(&token, path);
        until("the grant counts", Duration::from_secs(5), || {
            client.send(&list_tools).status == 200
        });
        (server, client)
    };
    let (_, well) = other("well", "/mcp/well");
    let (drip, dripping) = other("drip", "/mcp/drip");
    let (flood, flooding) = other("flood", "/mcp/flood");
    let (fill, filling) = other("fill", "/mcp/fill");
    // There the gate reads all pages of a list itself.
    let (list, listing) = other("list", "/mcp");

    recorder.hang_on("other");
    drip.behave(Manner::Drips);
    flood.behave(Manner::Floods);
    fill.behave(Manner::Fills);
    list.behave(Manner::Lists);
    let mut waiting: Vec<_> = (0..40).map(|_| left_waiting(&hung, "other")).collect();
    waiting.extend((0..10).map(|_| left_waiting(&dripping, "echo")));
    until("all calls hang", Duration::from_secs(10), || recorder.count("other") == 40);
    until("all calls drip", Duration::from_secs(10), || drip.calls().len() >= 10);
    println!("P24: 40 calls hang and 10 drip all the time; calls to other servers pass");

    let floods = || {
        let answer = flooding.call("echo", &json!({}));
        assert!(answer.refused(), "{} bytes of a flood", answer.body.len());
    };
    let fills = || {
        let answer = filling.call("echo", &json!({}));
        assert!(answer.passed(), "{} bytes of a large answer", answer.body.len());
    };
    let lists = || assert_eq!(listing.send(&list_tools).status, 200);
    let trials: [(&str, &[Asks<'_>]); 4] = [
        ("answers of 200 MB", &[&floods]),
        ("answers of 8 MB, which are taken", &[&fills]),
        ("lists without end", &[&lists]),
        ("all of these at once", &[&floods, &fills, &lists]),
    ];
    for (what, bad) in trials {
        let (at_work, over, asked) = Default::default();
        let [(middle, slow), (with_middle, with_slow)] = thread::scope(|scope| {
            for ask in bad {
                scope.spawn(|| again_and_again(ask, &at_work, &over, &asked));
            }
            let paces = std::panic::catch_unwind(|| paces(&well, &at_work));
            over.store(true, Ordering::Relaxed);
            paces.unwrap()
        });
        let asked = asked.into_inner();
        println!(
            "P24: {asked} {what}: {with_middle:.1?} in the middle and {with_slow:.1?} at p99, without them {middle:.1?} and {slow:.1?}"
        );
        assert!(asked > 0, "{what}");
        // A machine with two cores may need this long.
        assert!(with_slow < slow * 2 + Duration::from_millis(100), "{what}: {with_slow:?}");
    }
    assert!(hung.call("echo", &json!({})).passed(), "even the same server answers other calls");
    assert!(gate.rss_mib() < 256, "{} MiB", gate.rss_mib());
    drop(waiting);
}

/// Sends one request to a bad server.
type Asks<'a> = &'a (dyn Fn() + Sync);

/// Sends requests to a bad server while `at_work` is set.
fn again_and_again(ask: Asks<'_>, at_work: &AtomicBool, over: &AtomicBool, asked: &AtomicUsize) {
    while !over.load(Ordering::Relaxed) {
        if at_work.load(Ordering::Relaxed) {
            asked.fetch_add(1, Ordering::Relaxed);
            ask();
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn p25_a_stop_settles_every_call_within_five_seconds() {
    let (mut gate, recorder, client) = Gate::with_recorder();
    recorder.hang_on("other");
    let waiting: Vec<_> = (0..20).map(|_| left_waiting(&client, "other")).collect();
    until("the calls hang", Duration::from_secs(5), || recorder.count("other") == 20);
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                // Until the gate is gone.
                while std::panic::catch_unwind(|| client.call("echo", &json!({}))).is_ok() {}
            })
        })
        .collect();
    until("other calls pass", Duration::from_secs(5), || recorder.count("echo") > 40);
    let took = gate.stop();
    drop(waiting);
    for one in busy {
        one.join().unwrap();
    }
    let rows = gate.decisions();
    let open = |row: &&Value| row["decision"] == "admitted" && row["outcome"].is_null();
    let open: Vec<&Value> = rows.iter().filter(open).collect();
    let started = Watch::start();
    gate.up();
    assert!(gate.client(&client.token, "/mcp/rec").call("echo", &json!({})).passed());
    println!(
        "P25: a stop under load took {took:.1?} with 20 calls that hang, {} of {} left open; start to first call {:.0?}",
        open.len(),
        rows.len(),
        started.elapsed()
    );
    assert!(took < Duration::from_secs(5));
    assert!(open.is_empty(), "{open:?}");
    gate.verify();
}

#[test]
fn p23_in_flight_limits_survive_policy_reloads() {
    const PLACES: usize = 4;
    let mut gate = Gate::new();
    let recorder = Recorder::new(TOOLS);
    let token = gate.set_up(&recorder);
    gate.settings(&format!("[limits]\nin_flight_per_grant_max = {PLACES}\n"));
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed());
    recorder.hang_on("other");
    let _waiting: Vec<_> = (0..PLACES).map(|_| left_waiting(&client, "other")).collect();
    until("the calls hang", Duration::from_secs(10), || recorder.count("other") == PLACES);
    for why in ["as it was", "under other rules"] {
        let answer = client.call("echo", &json!({}));
        assert_eq!(answer.status, 429, "{why}: {}", answer.text());
        gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
    }
}

/// A server on stdio that answers no call and ends only on SIGKILL. It notes its PID.
const STUBBORN: &str = r#"
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".pids", "w") as pids:
    pids.write("%d\n" % os.getpid())
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/call":
        open(sys.argv[1], "a").close()
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
while True:
    time.sleep(1)
"#;

#[test]
fn p25_a_server_that_does_not_exit_delays_no_stop() {
    let mut gate = Gate::new();
    let (script, notes) =
        (gate.folder.path().join("stubborn.py"), gate.folder.path().join("notes"));
    fs::write(&script, STUBBORN).unwrap();
    gate.policy("rules", &rules());
    let words = [script.to_str().unwrap(), notes.to_str().unwrap()];
    gate.run(&["server", "add", "child", "--no-connect", "--", "python3", words[0], words[1]]);
    let token = gate.grant("agent", &["child=rules"]);
    gate.up();
    let waiting = left_waiting(&gate.client(&token, "/mcp/child"), "echo");
    until("the call hangs", Duration::from_secs(10), || notes.exists());
    let took = gate.stop();
    let left = until("it was killed", Duration::from_secs(2), || alive(&notes) == 0);
    println!(
        "P25: a stop took {took:.1?} with a server that does not end, which was gone {left:.0?} later"
    );
    assert!(took < Duration::from_secs(5));
    drop(waiting);
    let rows = gate.decisions();
    assert!(rows.iter().all(|row| !row["outcome"].is_null()), "{rows:?}");
    gate.verify();
}

/// Records calls as a gate does, two rows each.
fn write_calls(audit: &Path, calls: usize) {
    use ::store::ledger::{Admission, Ending, Facts, Ledger, Options, Outcome};
    use policy::{Call, Caller, Format, LocalTime, Policy, Subject, ToolFacts, Weekday};
    let ledger = Ledger::open(audit, ::store::clock::Clock::System, Options::default()).unwrap();
    let rules = Policy::load(r#"{"version":"1","default":"allow"}"#, Format::Json).unwrap();
    let subject = Subject::Tool("echo");
    let verdict = rules.decide(&Call {
        subject,
        args: None,
        params: None,
        caller: Caller { grant: "agent", session: None, client: None },
        tool: ToolFacts::default(),
        time: LocalTime { hour: 12, weekday: Weekday::Monday },
    });
    let facts = Facts {
        grant: "agent",
        server: "rec",
        method: "tools/call",
        subject: Some(subject),
        ..Facts::default()
    };
    for _ in 0..calls {
        let Admission::Permit(permit) = ledger.admit(&verdict, &facts).unwrap() else {
            panic!("nothing is limited");
        };
        permit.settle(&Outcome::new(Ending::Ok)).unwrap();
    }
}

#[test]
fn p25_a_long_log_does_not_delay_the_start() {
    let (mut gate, _recorder, client) = Gate::with_recorder();
    let (middle, slow) = pace(&client);
    gate.stop();
    let rows = number("TOLLGATE_AUDIT_ROWS", 20_000);
    write_calls(&gate.home.join("audit"), rows / 2);
    let started = Watch::start();
    gate.up();
    let client = gate.client(&client.token, "/mcp/rec");
    assert!(client.call("echo", &json!({})).passed());
    let took = started.elapsed();
    let (with_middle, with_slow) = pace(&client);
    println!(
        "P25: start to first call {took:.0?} with {rows} rows in the log; then calls took \
         {with_middle:.1?} in the middle and {with_slow:.1?} at p99, before them {middle:.1?} and {slow:.1?}"
    );
    assert!(took < Duration::from_secs(1), "{took:?}");
}

fn live(gate: &Gate, server: &str) -> Value {
    // Exit code 1 would mean that no gate runs.
    let status: Value = serde_json::from_str(&gate.run(&["--json", "status"])).unwrap();
    let servers = status["gates"][0]["live"]["servers"].as_array().unwrap().clone();
    servers.into_iter().find(|one| one["name"] == server).unwrap()
}

#[test]
fn only_the_owner_sees_the_status_of_servers() {
    let mut gate = Gate::new();
    let (token, _notes) = with_child(&gate);
    let recorder = Recorder::new(TOOLS);
    gate.policy("rules", &crate::test_gate::rules());
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
    let mode = |path: &Path| platform::private::bits(&fs::metadata(path).unwrap());
    assert_eq!(mode(&folder), 0o700);
    let named = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "sock");
    let mut files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let socket = files.find(named).unwrap();
    assert_eq!(mode(&socket), 0o600);
    gate.kill();
    assert!(!gate.cli(&["status"]).status.success());
    assert!(!socket.exists(), "the file of a killed gate is removed");
}
