//! `sync`, `import` and `events` through the binary, against the sandbox.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use sandbox::services::whoop;
use sandbox::{ClockMode, Config, Fault, FaultKind, Running, Sandbox, Service};
use serde_json::Value;
use store::home::Home;
use store::records::Records;

use crate::cli_test::CliTest;

/// A home connected to an account with this many days.
fn connected(days: u32) -> (CliTest, Running) {
    let now_us = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let now_us = i64::try_from(now_us).unwrap();
    let settings = whoop::WhoopSettings { limits: Vec::new(), ..whoop::WhoopSettings::default() };
    let service = Service::Whoop(settings);
    let config = Config { service, time: ClockMode::Frozen, ..Config::whoop(3, days, now_us) };
    let sandbox = Sandbox::start(config).unwrap();
    let ready = sandbox.control().ready();
    let mut test = CliTest::new();
    test.set("WHOOP_API_BASE_URL", sandbox.url());
    test.set("WHOOP_OAUTH_BASE_URL", sandbox.url());
    test.set("WHOOP_CLIENT_ID", ready["client_id"].as_str().unwrap());
    test.set("WHOOP_CLIENT_SECRET", ready["client_secret"].as_str().unwrap());
    let tokens = test.write("tokens.json", &sandbox.control().tokens().to_string());
    test.succeed(&["connect", "whoop", "--tokens", &tokens]);
    (test, sandbox)
}

fn records(test: &CliTest) -> Records {
    Records::open(&Home::open(&test.home()).unwrap()).unwrap()
}

/// The number of records of each list, here and at the service.
fn counts(test: &CliTest, sandbox: &Running) -> Vec<(u64, u64)> {
    let records = records(test);
    [("cycle", "cycles"), ("recovery", "recoveries"), ("sleep", "sleeps"), ("workout", "workouts")]
        .map(|(theirs, ours)| {
            let upstream = sandbox.control().records(theirs).unwrap().len() as u64;
            (records.count("whoop", ours).unwrap(), upstream)
        })
        .to_vec()
}

#[test]
fn a_sync_reports_changes_in_one_line() {
    let (test, sandbox) = connected(40);
    let output = test.succeed(&["sync", "whoop", "--full"]);
    let cycles = sandbox.control().records("cycle").unwrap().len();
    let start = format!("whoop: {cycles} cycles, ");
    assert!(output.stdout.starts_with(&start), "{}", output.stdout);
    assert!(output.stdout.contains(", up to 20"), "{}", output.stdout);
    assert!(counts(&test, &sandbox).iter().all(|(here, there)| here == there));
    let output = test.succeed(&["sync", "whoop"]);
    assert!(output.stdout.starts_with("whoop: nothing new, up to "), "{}", output.stdout);

    let result = test.succeed(&["sync", "whoop", "--json", "--resources", "profile"]).json();
    assert_eq!(result["status"], "success");
    assert_eq!(result["resources"]["profile"]["records_fetched"], 1);

    let slip = test.run(&["sync", "whoop", "--since", "yesterdya"]);
    assert_eq!((slip.code, slip.stdout.as_str()), (2, ""), "nothing is synced");
    assert!(slip.stderr.starts_with("error: `--since` is not a date or time"), "{}", slip.stderr);
    let slip = test.run(&["sync", "whoop", "--since", "yesterdya", "--json"]).json();
    assert_eq!(slip["resources"]["cycles"]["status"], "error", "{slip}");

    let unknown = test.run(&["sync", "spotter"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("hint: one of whoop"), "{}", unknown.stderr);

    let events =
        test.succeed(&["events", "whoop", "--since", "2010-01-01", "--limit", "5", "--json"]);
    let events = events.json();
    assert_eq!(events["count"], 5);
    let next = events["next_cursor"].as_str().unwrap();
    let more = test.succeed(&["events", "whoop", "--since", next, "--limit", "5", "--json"]).json();
    let ids = |events: &Value| -> Vec<String> {
        let events = events["events"].as_array().unwrap().iter();
        events.map(|event| format!("{}/{}", event["resource"], event["id"])).collect()
    };
    assert!(ids(&more).iter().all(|id| !ids(&events).contains(id)));
    let plain = test.succeed(&["events", "whoop", "--since", "2010-01-01", "--limit", "2"]);
    assert_eq!(plain.stdout.lines().count(), 3, "{}", plain.stdout);
    assert!(plain.stderr.starts_with("more: tollgate events whoop --since "), "{}", plain.stderr);
}

#[test]
fn a_failed_sync_reports_why_and_exits_with_its_code() {
    let (test, sandbox) = connected(30);
    let broken = FaultKind::Status { code: 418, retry_after: None, reset: None, body: None };
    sandbox.control().fault(Fault::on("/developer/v2/cycle", broken.clone()));
    let partly = test.run(&["sync", "whoop"]);
    assert_eq!(partly.code, 1, "{}", partly.all_output());
    assert!(partly.stderr.contains("warning: cycles: UPSTREAM_ERROR: "), "{}", partly.stderr);
    sandbox.control().fault(Fault::on("/developer", broken));
    assert_eq!(test.run(&["sync", "whoop"]).code, 2);
    // The log says what happened, too.
    let rows = test.succeed(&["audit", "tail", "-n", "2"]).stdout;
    assert_eq!(rows.matches("sync_failed").count(), 2, "{rows}");
    assert!(rows.contains("cycles: UPSTREAM_ERROR: "), "{rows}");
}

/// Killed at many points, the mirror is intact each time, and complete in the end.
#[test]
fn a_sync_killed_in_the_middle_is_finished_later() {
    let (test, sandbox) = connected(1_000);
    sandbox.control().fault(Fault::on("/developer", FaultKind::Delay { ms: 20 }));
    for round in 0..6 {
        let mut command = test.command(&["sync", "whoop", "--full"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(150 + round * 90));
        // SIGKILL: no cleanup runs.
        child.kill().unwrap();
        child.wait().unwrap();
        records(&test).check().unwrap();
    }
    sandbox.control().clear_faults();
    let result = test.succeed(&["sync", "whoop", "--json"]).json();
    assert_eq!(result["status"], "success");
    let counts = counts(&test, &sandbox);
    assert!(counts.iter().all(|(here, there)| here == there), "{counts:?}");
}

#[test]
fn two_processes_sync_one_home() {
    let (test, sandbox) = connected(200);
    let start = || {
        let mut command = test.command(&["sync", "whoop", "--full", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children = [start(), start(), start()];
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(result["status"], "success");
    }
    records(&test).check().unwrap();
    assert!(counts(&test, &sandbox).iter().all(|(here, there)| here == there));
    assert_eq!(sandbox.control().counters().refreshes_at_once_max, 0);
}

#[test]
fn files_that_cannot_be_imported_are_reported() {
    let test = CliTest::new();
    let file = test.write("notes.zip", "no zip at all");
    let output = test.run(&["import", "whoop", &file]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("this is not a ZIP"), "{}", output.stderr);
    let empty = test.path("nothing");
    let output = test.run(&["import", "whoop-mcp", empty.to_str().unwrap()]);
    assert!(output.stderr.contains("nothing of whoop-mcp"), "{}", output.stderr);
}
