//! Commands that are killed: their changes still get exactly one audit row.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli_test::CliTest;

/// The notes of an action: subject and text.
fn notes(test: &CliTest, act: &str) -> Vec<(String, String)> {
    let output =
        test.succeed(&["audit", "search", "--only", "notes", "owner (cli)", "--json"]).stdout;
    let notes = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    notes
        .filter(|note| note["act"] == act)
        .map(|note| (text(&note["about"]), text(&note["words"])))
        .collect()
}

#[test]
fn the_change_of_a_killed_command_is_recorded_by_the_next() {
    let test = CliTest::with_demo();
    test.grant("alice");
    // A lock on the folder blocks every row, so the command stops between change and row.
    let folder = fs::File::open(test.home().join("audit")).unwrap();
    folder.lock().unwrap();
    let mut command = test.command(&["grant", "revoke", "alice"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !test.succeed(&["grant", "show", "alice"]).stdout.contains("revoked") {
        assert!(begun.elapsed() < Duration::from_secs(4), "the change does not come");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    folder.unlock().unwrap();

    let found = notes(&test, "grant_revoked");
    let [(about, words)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(about, "alice");
    assert!(words.starts_with("done at ") && words.ends_with("before it was recorded"), "{words}");
    test.succeed(&["policy", "set", "other", &test.write("p.json", crate::history::KEPT)]);
    assert_eq!(notes(&test, "grant_revoked").len(), 1);
    assert_eq!(test.run(&["audit", "verify"]).code, 0);
}

#[test]
fn kills_at_any_moment_leave_one_row_for_each_change_and_none_for_others() {
    const ROUNDS: u32 = 24;
    let test = CliTest::with_demo();
    let took = Instant::now();
    test.grant("whole");
    let whole = took.elapsed();
    for round in 0..ROUNDS {
        let label = format!("k{round}");
        let mut command = test.command(&["grant", "create", &label, "--server", "demo=demo"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * round / (ROUNDS - 4));
        let _ = child.kill();
        child.wait().unwrap();
    }
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for (about, _) in notes(&test, "grant_created") {
        *rows.entry(about).or_default() += 1;
    }
    let grants = test.succeed(&["grant", "list", "--json"]).json();
    let made: BTreeMap<String, usize> = grants
        .as_array()
        .unwrap()
        .iter()
        .map(|grant| (grant["label"].as_str().unwrap().to_owned(), 1))
        .collect();
    assert_eq!(rows, made);
    assert_eq!(test.run(&["audit", "verify"]).code, 0);
}

/// A change outside `gate.db` cannot share its transaction.
#[test]
fn a_killed_move_of_the_vault_key_leaves_a_record() {
    let test = CliTest::with_demo();
    let slow = "sleep 5; cat \"$0\"";
    let key = test.home().join("vault.key").display().to_string();
    let words = ["vault", "move", "--to", "command", "--", "sh", "-c", slow, &key];
    let mut command = test.command(&words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let database = test.home().join("gate.db");
    let begun = Instant::now();
    while !store::registry::has_unrecorded_acts(&database) {
        assert!(begun.elapsed() < Duration::from_secs(4), "the act is not kept");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(notes(&test, "vault_moved"), [], "it may be under way");
    assert!(store::registry::has_unrecorded_acts(&database), "a minute later it has its row");
}
