//! `sync`, `import` and `events` through the binary, against the sandbox.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use sandbox::{Config, Fault, Running, Sandbox, Service, Time, What, whoop};
use serde_json::Value;
use store::home::Home;
use store::records::Records;

use crate::stage::Stage;

/// A home that is connected to a member with so many days.
fn connected(days: u32) -> (Stage, Running) {
    let now_us = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let now_us = i64::try_from(now_us).unwrap();
    let settings = whoop::Settings { limits: Vec::new(), ..whoop::Settings::default() };
    let service = Service::Whoop(settings);
    let config = Config { service, time: Time::Stands, ..Config::whoop(3, days, now_us) };
    let sandbox = Sandbox::start(config).unwrap();
    let ready = sandbox.control().ready();
    let mut stage = Stage::new();
    stage.set("WHOOP_API_BASE_URL", sandbox.url());
    stage.set("WHOOP_OAUTH_BASE_URL", sandbox.url());
    stage.set("WHOOP_CLIENT_ID", ready["client_id"].as_str().unwrap());
    stage.set("WHOOP_CLIENT_SECRET", ready["client_secret"].as_str().unwrap());
    let tokens = stage.write("tokens.json", &sandbox.control().tokens().to_string());
    stage.fine(&["connect", "whoop", "--tokens", &tokens]);
    (stage, sandbox)
}

fn records(stage: &Stage) -> Records {
    Records::open(&Home::open(&stage.home()).unwrap()).unwrap()
}

/// How many records of each list there are, here and upstream.
fn counts(stage: &Stage, sandbox: &Running) -> Vec<(u64, u64)> {
    let records = records(stage);
    [("cycle", "cycles"), ("recovery", "recoveries"), ("sleep", "sleeps"), ("workout", "workouts")]
        .map(|(theirs, ours)| {
            let upstream = sandbox.control().records(theirs).unwrap().len() as u64;
            (records.count("whoop", ours).unwrap(), upstream)
        })
        .to_vec()
}

#[test]
fn a_sync_says_in_one_line_what_came() {
    let (stage, sandbox) = connected(40);
    let said = stage.fine(&["sync", "whoop", "--full"]);
    let cycles = sandbox.control().records("cycle").unwrap().len();
    let start = format!("whoop: {cycles} cycles, ");
    assert!(said.stdout.starts_with(&start), "{}", said.stdout);
    assert!(said.stdout.contains(", up to 20"), "{}", said.stdout);
    assert!(counts(&stage, &sandbox).iter().all(|(here, there)| here == there));
    let said = stage.fine(&["sync", "whoop"]);
    assert!(said.stdout.starts_with("whoop: nothing new, up to "), "{}", said.stdout);

    let result = stage.fine(&["sync", "whoop", "--json", "--resources", "profile"]).json();
    assert_eq!(result["status"], "success");
    assert_eq!(result["resources"]["profile"]["records_fetched"], 1);

    let slip = stage.run(&["sync", "whoop", "--since", "yesterdya"]);
    assert_eq!((slip.code, slip.stdout.as_str()), (2, ""), "nothing is synced");
    assert!(slip.stderr.starts_with("error: `--since` is not a date or time"), "{}", slip.stderr);
    let slip = stage.run(&["sync", "whoop", "--since", "yesterdya", "--json"]).json();
    assert_eq!(slip["resources"]["cycles"]["status"], "error", "{slip}");

    let unknown = stage.run(&["sync", "spotter"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("hint: one of whoop"), "{}", unknown.stderr);

    let events =
        stage.fine(&["events", "whoop", "--since", "2010-01-01", "--limit", "5", "--json"]);
    let events = events.json();
    assert_eq!(events["count"], 5);
    let next = events["next_cursor"].as_str().unwrap();
    let more = stage.fine(&["events", "whoop", "--since", next, "--limit", "5", "--json"]).json();
    let ids = |events: &Value| -> Vec<String> {
        let events = events["events"].as_array().unwrap().iter();
        events.map(|event| format!("{}/{}", event["resource"], event["id"])).collect()
    };
    assert!(ids(&more).iter().all(|id| !ids(&events).contains(id)));
    let plain = stage.fine(&["events", "whoop", "--since", "2010-01-01", "--limit", "2"]);
    assert_eq!(plain.stdout.lines().count(), 3, "{}", plain.stdout);
    assert!(plain.stderr.starts_with("more: tollgate events whoop --since "), "{}", plain.stderr);
}

#[test]
fn a_sync_that_fails_says_why_and_ends_with_its_code() {
    let (stage, sandbox) = connected(30);
    let broken = What::Status { code: 418, retry_after: None, reset: None, body: None };
    sandbox.control().fault(Fault::on("/developer/v2/cycle", broken.clone()));
    let partly = stage.run(&["sync", "whoop"]);
    assert_eq!(partly.code, 1, "{}", partly.everything());
    assert!(partly.stderr.contains("warning: cycles: UPSTREAM_ERROR: "), "{}", partly.stderr);
    sandbox.control().fault(Fault::on("/developer", broken));
    assert_eq!(stage.run(&["sync", "whoop"]).code, 2);
}

/// Killed at many places, the mirror is whole each time, and in the end everything is there.
#[test]
fn a_sync_killed_in_the_middle_is_finished_later() {
    let (stage, sandbox) = connected(1_000);
    sandbox.control().fault(Fault::on("/developer", What::Delay { ms: 20 }));
    for round in 0..6 {
        let mut command = stage.command(&["sync", "whoop", "--full"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(150 + round * 90));
        // SIGKILL: nothing is tidied up.
        child.kill().unwrap();
        child.wait().unwrap();
        records(&stage).check().unwrap();
    }
    sandbox.control().clear_faults();
    let result = stage.fine(&["sync", "whoop", "--json"]).json();
    assert_eq!(result["status"], "success");
    let counts = counts(&stage, &sandbox);
    assert!(counts.iter().all(|(here, there)| here == there), "{counts:?}");
}

#[test]
fn two_processes_sync_one_home() {
    let (stage, sandbox) = connected(200);
    let start = || {
        let mut command = stage.command(&["sync", "whoop", "--full", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children = [start(), start(), start()];
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(result["status"], "success");
    }
    records(&stage).check().unwrap();
    assert!(counts(&stage, &sandbox).iter().all(|(here, there)| here == there));
    assert_eq!(sandbox.control().counters().refreshes_at_once_max, 0);
}

#[test]
fn what_cannot_be_imported_is_said() {
    let stage = Stage::new();
    let file = stage.write("notes.zip", "no zip at all");
    let said = stage.run(&["import", "whoop", &file]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("this is not a ZIP"), "{}", said.stderr);
    let empty = stage.path("nothing");
    let said = stage.run(&["import", "whoop-mcp", empty.to_str().unwrap()]);
    assert!(said.stderr.contains("nothing of whoop-mcp"), "{}", said.stderr);
}
