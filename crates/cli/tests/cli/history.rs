//! `tollgate audit`: tail, search, verify, checkpoint and export.

use std::fs;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};
use store::clock::Clock;
use store::ledger::{Ledger, Note, Options, Retention, SealKey, Sealing};
use store::vault::{Vault, run_no_program};

use crate::cli_test::CliTest;
use crate::http;

/// A home with a few recorded calls.
pub(crate) fn set_up() -> CliTest {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    http::call(&url, &token, "list_notes", &json!({}));
    http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 5000 }));
    http::call(&url, &token, "empty_fridge", &json!({}));
    assert_eq!(up.stop().code, 0);
    test
}

#[test]
fn the_newest_entries_are_shown_and_found() {
    let test = set_up();
    let story = test.transcripts(&[
        &["audit", "tail", "-n", "5"],
        &["audit", "search", "--decision", "denied"],
        &["audit", "search", "--tool", "list_notes", "--grant", "alice"],
        &["audit", "search", "--only", "notes", "GRANT_CREATED"],
        &["audit", "search", "--since", "2h", "--until", "1h"],
        &["audit", "search", "--since", "yesterday-ish"],
        &["audit", "verify"],
    ]);
    assert_snapshot!(story);
}

#[test]
fn an_unknown_decision_is_refused_as_a_filter() {
    let output = CliTest::new().run(&["audit", "search", "--decision", "deny"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
    assert!(output.stderr.contains("denied"), "{}", output.stderr);
}

#[test]
fn a_removed_or_older_log_is_detected() {
    let test = CliTest::with_demo();
    let audit = test.home().join("audit");
    let log = audit.join("00000001.log");
    test.succeed(&["policy", "set", "kept", &test.write("kept.json", KEPT)]);
    let older = fs::read(&log).unwrap();
    let synced = fs::read(audit.join("synced")).ok();
    test.grant("alice");
    assert_eq!(test.run(&["audit", "verify"]).code, 0);

    fs::write(&log, older).unwrap();
    match synced {
        Some(bytes) => fs::write(audit.join("synced"), bytes).unwrap(),
        None => drop(fs::remove_file(audit.join("synced"))),
    }
    for command in [&["audit", "verify"][..], &["doctor"]] {
        let output = test.run(command);
        assert_eq!(output.code, 1, "{}", output.all_output());
        assert!(output.stdout.contains("its end was cut off"), "{}", output.all_output());
    }

    fs::remove_dir_all(&audit).unwrap();
    let output = test.run(&["doctor"]);
    assert!(output.stdout.contains("is gone"), "{}", output.all_output());
    assert!(!log.exists(), "a check starts no new chain");
    let up = test.up(&[]);
    assert_eq!(up.stop().code, 0);
    let row = test.run(&["audit", "search", "log_lost", "--json"]).json();
    assert!(
        row["words"].as_str().unwrap().contains("is gone and was replaced by another"),
        "{row}"
    );
    assert_eq!(test.run(&["audit", "verify"]).code, 1, "doubtful until the owner accepts it");
    let accepted = test.path("accepted.json").display().to_string();
    test.succeed(&["audit", "checkpoint", "--out", &accepted]);
    assert_eq!(test.run(&["audit", "verify", "--checkpoint", &accepted]).code, 0);
}

/// A copy of the log alone, as in a backup.
#[test]
fn a_log_is_readable_without_the_rest_of_its_home() {
    let test = set_up();
    for name in ["gate.db", "gate.db-wal", "gate.db-shm", "vault.key"] {
        let _ = fs::remove_file(test.home().join(name));
    }
    for command in [
        &["audit", "tail"][..],
        &["audit", "search", "list_notes"],
        &["audit", "export", "--format", "jsonl"],
    ] {
        let output = test.run(command);
        assert_eq!(output.code, 0, "{}", output.all_output());
        assert!(output.stdout.contains("list_notes"), "{}", output.all_output());
    }
    assert!(!test.home().join("gate.db").exists(), "a check creates nothing");
    let output = test.run(&["audit", "export", "--format", "jsonl", "--out", "/dev/full/x"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
}

pub(crate) const KEPT: &str = r#"{ "version": "1", "default": "deny" }"#;

#[test]
fn followers_see_entries_as_they_come() {
    use std::io::{BufRead as _, BufReader};
    let test = CliTest::with_demo();
    let mut command = test.command(&["audit", "tail", "-f", "-n", "1", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["act"], "policy_saved");
    test.grant("alice");
    let next: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next["act"], "grant_created");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn every_action_of_the_owner_is_a_row_with_their_name() {
    let test = CliTest::with_demo();
    test.grant("alice");
    test.succeed(&["grant", "rotate", "alice"]);
    test.succeed(&["grant", "policy", "alice", "demo", "demo"]);
    test.succeed(&["grant", "revoke", "alice"]);
    test.succeed(&["server", "remove", "demo"]);
    let notes =
        test.succeed(&["audit", "search", "--only", "notes", "owner (cli)", "--json"]).stdout;
    let acts: Vec<String> = notes
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["act"].as_str().unwrap().to_owned()
        })
        .collect();
    let wanted = [
        "server_added",
        "policy_saved",
        "grant_created",
        "grant_rotated",
        "grant_policy",
        "grant_revoked",
        "server_removed",
    ];
    assert_eq!(acts, wanted);
}

#[test]
fn a_log_is_verified_without_the_key_the_settings_and_the_database() {
    let test = set_up();
    for file in ["vault.key", "gate.db"] {
        fs::remove_file(test.home().join(file)).unwrap();
    }
    fs::write(test.home().join("tollgate.toml"), "listn = 1\n").unwrap();
    let output = test.run(&["audit", "verify"]);
    assert_eq!(output.code, 0, "{}", output.all_output());
    assert!(!test.home().join("gate.db").exists(), "a check creates nothing");
}

#[test]
fn an_edited_log_is_detected_and_a_truncated_one_with_a_checkpoint() {
    let test = set_up();
    let kept = test.path("checkpoint.json").display().to_string();
    test.succeed(&["audit", "checkpoint", "--out", &kept]);
    assert_eq!(test.run(&["audit", "verify", "--checkpoint", &kept]).code, 0);
    let log = fs::read_dir(test.home().join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "log"))
        .unwrap();
    let whole = fs::read_to_string(&log).unwrap();
    fs::write(
        &log,
        whole
            .replacen("5000", "0005", 1)
            .replacen("delete", "DELETE", 1)
            .replacen("denied", "deniet", 1),
    )
    .unwrap();
    let story = test.transcripts(&[&["audit", "verify"], &["audit", "verify", "--json"]]);
    let story = regex::Regex::new(r"row \d+|line \d+|\d{8}\.log|[\d]+\.log|: \d+,")
        .unwrap()
        .replace_all(&story, "[PLACE]")
        .into_owned();
    assert_snapshot!(story);

    let short: Vec<&str> = whole.lines().collect();
    let short = short[..short.len() - 2].join("\n") + "\n";
    fs::write(&log, short).unwrap();
    let output = test.run(&["audit", "verify", "--checkpoint", &kept]);
    assert_eq!(output.code, 1, "{}", output.all_output());
    assert!(output.stdout.contains("missing"), "{}", output.stdout);
}

/// Retires all rows that are not in the newest segments.
fn retire(test: &CliTest) {
    let vault = Vault::open_read_only(&test.home(), run_no_program).unwrap().unwrap();
    let key = SealKey::of(&vault).unwrap();
    let options = Options {
        segment_bytes_max: 4_000,
        retention: Retention { age_seconds_max: None, bytes_max: Some(1) },
        seal: Some(Sealing { key, expected: true }),
        ..Options::default()
    };
    let ledger = Ledger::open(&test.home().join("audit"), Clock::System, options).unwrap();
    let first = test.home().join("audit/00000001.log");
    for _ in 0..2_000 {
        let note = Note { act: "fill", by: "test", about: "", words: "a row like any other" };
        ledger.note(&note).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        if !first.exists() {
            return;
        }
    }
    panic!("no row was retired");
}

#[test]
fn a_checkpoint_of_a_retired_row_is_neither_broken_nor_proven() {
    let test = set_up();
    let kept = test.path("checkpoint.json").display().to_string();
    test.succeed(&["audit", "checkpoint", "--out", &kept]);
    retire(&test);
    assert_eq!(test.run(&["audit", "verify"]).code, 0);
    let output = test.run(&["audit", "verify", "--checkpoint", &kept]);
    assert_eq!(output.code, 1, "{}", output.all_output());
    assert!(output.stdout.starts_with("unproven: row "), "{}", output.all_output());
    assert!(output.stdout.contains("are intact") && output.stdout.contains("retired at 20"));
    assert!(output.stderr.contains("a newer checkpoint"), "{}", output.stderr);
    let told = test.run(&["audit", "verify", "--checkpoint", &kept, "--json"]);
    assert_eq!((told.code, &told.json()["whole"]), (1, &json!(false)));
    assert_eq!(told.json()["unproven"], true);
    // The hash of the last retired row is in the first remaining one.
    let retired =
        &test.succeed(&["audit", "verify", "--json"]).json()["log"]["retired"]["last_seq"];
    let chain = test.succeed(&["audit", "export", "--format", "chain"]).stdout;
    let (_, after) = chain.split_once("\"previous\":\"").unwrap();
    let mut checkpoint: Value = serde_json::from_str(&fs::read_to_string(&kept).unwrap()).unwrap();
    checkpoint["seq"] = retired.clone();
    checkpoint["hash"] = after[..64].into();
    fs::write(&kept, checkpoint.to_string()).unwrap();
    let output = test.succeed(&["audit", "verify", "--checkpoint", &kept]);
    assert!(output.stdout.contains(", which was retired"), "{}", output.all_output());
    checkpoint["hash"] = "0".repeat(64).into();
    fs::write(&kept, checkpoint.to_string()).unwrap();
    let output = test.run(&["audit", "verify", "--checkpoint", &kept]);
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains("rewritten"), "{}", output.all_output());
}

#[test]
fn exports_are_complete_private_and_safe_in_a_spreadsheet() {
    let test = set_up();
    for (format, first) in [("jsonl", "{"), ("csv", "seq,time,kind,"), ("chain", "")] {
        let path = test.path(&format!("log.{format}"));
        let shown = path.display().to_string();
        test.succeed(&["audit", "export", "--format", format, "--out", &shown]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(first) && text.lines().count() > 5, "{format}: {text}");
        assert_eq!(platform::private::bits(&fs::metadata(&path).unwrap()), 0o600);
        let printed = test.succeed(&["audit", "export", "--format", format]).stdout;
        assert_eq!(printed, text, "{format} is the same on stdout");
    }
    let output =
        test.run(&["audit", "export", "--format", "csv", "--out", "/no/such/folder/x.csv"]);
    assert_eq!(output.code, 2);
}
