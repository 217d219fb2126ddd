//! Commands that are killed: what they changed is a row of the audit log all the same, once.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stage::Stage;

/// The notes of an act: whom they are about, and their words.
fn notes(stage: &Stage, act: &str) -> Vec<(String, String)> {
    let said = stage.fine(&["audit", "search", "--only", "notes", "owner (cli)", "--json"]).stdout;
    let notes = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    notes
        .filter(|note| note["act"] == act)
        .map(|note| (text(&note["about"]), text(&note["words"])))
        .collect()
}

#[test]
fn what_a_killed_command_changed_is_recorded_by_the_next_one() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    // Whoever holds the folder keeps every row out, so the command stops between change and row.
    let folder = fs::File::open(stage.home().join("audit")).unwrap();
    folder.lock().unwrap();
    let mut command = stage.command(&["grant", "revoke", "alice"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !stage.fine(&["grant", "show", "alice"]).stdout.contains("revoked") {
        assert!(begun.elapsed() < Duration::from_secs(4), "the change does not come");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    folder.unlock().unwrap();

    let found = notes(&stage, "grant_revoked");
    let [(about, words)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(about, "alice");
    assert!(words.starts_with("done at ") && words.ends_with("before it was recorded"), "{words}");
    stage.fine(&["policy", "set", "other", &stage.write("p.json", crate::history::KEPT)]);
    assert_eq!(notes(&stage, "grant_revoked").len(), 1);
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);
}

#[test]
fn kills_at_any_moment_leave_one_row_for_each_change_and_none_for_others() {
    const ROUNDS: u32 = 24;
    let stage = Stage::with_demo();
    let took = Instant::now();
    stage.grant("whole");
    let whole = took.elapsed();
    for round in 0..ROUNDS {
        let label = format!("k{round}");
        let mut command = stage.command(&["grant", "create", &label, "--server", "demo=demo"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * round / (ROUNDS - 4));
        let _ = child.kill();
        child.wait().unwrap();
    }
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for (about, _) in notes(&stage, "grant_created") {
        *rows.entry(about).or_default() += 1;
    }
    let grants = stage.fine(&["grant", "list", "--json"]).json();
    let made: BTreeMap<String, usize> = grants
        .as_array()
        .unwrap()
        .iter()
        .map(|grant| (grant["label"].as_str().unwrap().to_owned(), 1))
        .collect();
    assert_eq!(rows, made);
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);
}

/// What is changed elsewhere than in `gate.db` cannot share its transaction.
#[test]
fn a_killed_move_of_the_vault_key_leaves_word_that_it_was_begun() {
    let stage = Stage::with_demo();
    let slow = "sleep 5; cat \"$0\"";
    let key = stage.home().join("vault.key").display().to_string();
    let words = ["vault", "move", "--to", "command", "--", "sh", "-c", slow, &key];
    let mut command = stage.command(&words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let database = stage.home().join("gate.db");
    let begun = Instant::now();
    while !store::registry::acts_wait_in(&database) {
        assert!(begun.elapsed() < Duration::from_secs(4), "the act is not kept");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(notes(&stage, "vault_moved"), [], "it may be under way");
    assert!(store::registry::acts_wait_in(&database), "a minute later it has its row");
}
