//! `tollgate audit`: what is shown, found, verified and taken out.

use std::fs;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};
use store::clock::Clock;
use store::ledger::{Ledger, Note, Options, Retention, SealKey, Sealing};
use store::vault::{Vault, ask_nobody};

use crate::http;
use crate::stage::Stage;

/// A stage with a few calls behind it.
pub(crate) fn stage() -> Stage {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    http::call(&url, &token, "list_notes", &json!({}));
    http::call(&url, &token, "send_money", &json!({ "to": "Ada", "amount": 5000 }));
    http::call(&url, &token, "empty_fridge", &json!({}));
    assert_eq!(up.stop().code, 0);
    stage
}

#[test]
fn the_newest_entries_are_shown_and_found() {
    let stage = stage();
    let story = stage.story(&[
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
fn a_decision_that_no_row_can_hold_is_not_searched_for() {
    let said = Stage::new().run(&["audit", "search", "--decision", "deny"]);
    assert_eq!(said.code, 2, "{}", said.everything());
    assert!(said.stderr.contains("denied"), "{}", said.stderr);
}

#[test]
fn a_log_that_was_taken_away_or_put_back_older_is_missed() {
    let stage = Stage::with_demo();
    let audit = stage.home().join("audit");
    let log = audit.join("00000001.log");
    stage.fine(&["policy", "set", "kept", &stage.write("kept.json", KEPT)]);
    let older = fs::read(&log).unwrap();
    let synced = fs::read(audit.join("synced")).ok();
    stage.grant("alice");
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);

    fs::write(&log, older).unwrap();
    match synced {
        Some(bytes) => fs::write(audit.join("synced"), bytes).unwrap(),
        None => drop(fs::remove_file(audit.join("synced"))),
    }
    for command in [&["audit", "verify"][..], &["doctor"]] {
        let said = stage.run(command);
        assert_eq!(said.code, 1, "{}", said.everything());
        assert!(said.stdout.contains("its end was cut off"), "{}", said.everything());
    }

    fs::remove_dir_all(&audit).unwrap();
    let said = stage.run(&["doctor"]);
    assert!(said.stdout.contains("is gone"), "{}", said.everything());
    assert!(!log.exists(), "looking begins no new chain");
    let up = stage.up(&[]);
    assert_eq!(up.stop().code, 0);
    let row = stage.run(&["audit", "search", "log_lost", "--json"]).json();
    assert!(
        row["words"].as_str().unwrap().contains("is gone and another is in its place"),
        "{row}"
    );
    assert_eq!(stage.run(&["audit", "verify"]).code, 1, "doubtful until the owner accepts it");
    let accepted = stage.path("accepted.json").display().to_string();
    stage.fine(&["audit", "checkpoint", "--out", &accepted]);
    assert_eq!(stage.run(&["audit", "verify", "--checkpoint", &accepted]).code, 0);
}

/// A copy of the log alone, as a backup may be.
#[test]
fn a_log_is_read_where_nothing_else_of_its_home_is_left() {
    let stage = stage();
    for name in ["gate.db", "gate.db-wal", "gate.db-shm", "vault.key"] {
        let _ = fs::remove_file(stage.home().join(name));
    }
    for command in [
        &["audit", "tail"][..],
        &["audit", "search", "list_notes"],
        &["audit", "export", "--format", "jsonl"],
    ] {
        let said = stage.run(command);
        assert_eq!(said.code, 0, "{}", said.everything());
        assert!(said.stdout.contains("list_notes"), "{}", said.everything());
    }
    assert!(!stage.home().join("gate.db").exists(), "looking makes nothing");
    let said = stage.run(&["audit", "export", "--format", "jsonl", "--out", "/dev/full/x"]);
    assert_eq!(said.code, 2, "{}", said.everything());
}

pub(crate) const KEPT: &str = r#"{ "version": "1", "default": "deny" }"#;

#[test]
fn followers_see_entries_as_they_come() {
    use std::io::{BufRead as _, BufReader};
    let stage = Stage::with_demo();
    let mut command = stage.command(&["audit", "tail", "-f", "-n", "1", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["act"], "policy_saved");
    stage.grant("alice");
    let next: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next["act"], "grant_created");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn every_act_of_the_owner_is_a_row_with_his_name() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    stage.fine(&["grant", "rotate", "alice"]);
    stage.fine(&["grant", "policy", "alice", "demo", "demo"]);
    stage.fine(&["grant", "revoke", "alice"]);
    stage.fine(&["server", "remove", "demo"]);
    let notes = stage.fine(&["audit", "search", "--only", "notes", "owner (cli)", "--json"]).stdout;
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
    let stage = stage();
    for file in ["vault.key", "gate.db"] {
        fs::remove_file(stage.home().join(file)).unwrap();
    }
    fs::write(stage.home().join("tollgate.toml"), "listn = 1\n").unwrap();
    let said = stage.run(&["audit", "verify"]);
    assert_eq!(said.code, 0, "{}", said.everything());
    assert!(!stage.home().join("gate.db").exists(), "looking makes nothing");
}

#[test]
fn an_edited_log_is_found_and_a_cut_off_end_with_a_checkpoint() {
    let stage = stage();
    let kept = stage.path("checkpoint.json").display().to_string();
    stage.fine(&["audit", "checkpoint", "--out", &kept]);
    assert_eq!(stage.run(&["audit", "verify", "--checkpoint", &kept]).code, 0);
    let log = fs::read_dir(stage.home().join("audit"))
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
    let story = stage.story(&[&["audit", "verify"], &["audit", "verify", "--json"]]);
    let story = regex::Regex::new(r"row \d+|line \d+|\d{8}\.log|[\d]+\.log|: \d+,")
        .unwrap()
        .replace_all(&story, "[PLACE]")
        .into_owned();
    assert_snapshot!(story);

    let short: Vec<&str> = whole.lines().collect();
    let short = short[..short.len() - 2].join("\n") + "\n";
    fs::write(&log, short).unwrap();
    let said = stage.run(&["audit", "verify", "--checkpoint", &kept]);
    assert_eq!(said.code, 1, "{}", said.everything());
    assert!(said.stdout.contains("missing"), "{}", said.stdout);
}

/// Lets all rows go that are not in the newest segments.
fn retire(stage: &Stage) {
    let vault = Vault::look(&stage.home(), ask_nobody).unwrap().unwrap();
    let key = SealKey::of(&vault).unwrap();
    let options = Options {
        segment_bytes_max: 4_000,
        retention: Retention { age_seconds_max: None, bytes_max: Some(1) },
        seal: Some(Sealing { key, expected: true }),
        ..Options::default()
    };
    let ledger = Ledger::open(&stage.home().join("audit"), Clock::System, options).unwrap();
    let first = stage.home().join("audit/00000001.log");
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
    let stage = stage();
    let kept = stage.path("checkpoint.json").display().to_string();
    stage.fine(&["audit", "checkpoint", "--out", &kept]);
    retire(&stage);
    assert_eq!(stage.run(&["audit", "verify"]).code, 0);
    let said = stage.run(&["audit", "verify", "--checkpoint", &kept]);
    assert_eq!(said.code, 1, "{}", said.everything());
    assert!(said.stdout.starts_with("unproven: row "), "{}", said.everything());
    assert!(said.stdout.contains("hold together") && said.stdout.contains("retired at 20"));
    assert!(said.stderr.contains("a newer checkpoint"), "{}", said.stderr);
    let told = stage.run(&["audit", "verify", "--checkpoint", &kept, "--json"]);
    assert_eq!((told.code, &told.json()["whole"]), (1, &json!(false)));
    assert_eq!(told.json()["unproven"], true);
    // The last row that went is told by the first that is left.
    let retired = &stage.fine(&["audit", "verify", "--json"]).json()["log"]["retired"]["last_seq"];
    let chain = stage.fine(&["audit", "export", "--format", "chain"]).stdout;
    let (_, after) = chain.split_once("\"previous\":\"").unwrap();
    let mut checkpoint: Value = serde_json::from_str(&fs::read_to_string(&kept).unwrap()).unwrap();
    checkpoint["seq"] = retired.clone();
    checkpoint["hash"] = after[..64].into();
    fs::write(&kept, checkpoint.to_string()).unwrap();
    let said = stage.fine(&["audit", "verify", "--checkpoint", &kept]);
    assert!(said.stdout.contains(", which was retired"), "{}", said.everything());
    checkpoint["hash"] = "0".repeat(64).into();
    fs::write(&kept, checkpoint.to_string()).unwrap();
    let said = stage.run(&["audit", "verify", "--checkpoint", &kept]);
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("rewritten"), "{}", said.everything());
}

#[test]
fn exports_are_whole_private_and_neutral_in_a_spreadsheet() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = stage();
    for (format, first) in [("jsonl", "{"), ("csv", "seq,time,kind,"), ("chain", "")] {
        let path = stage.path(&format!("log.{format}"));
        let shown = path.display().to_string();
        stage.fine(&["audit", "export", "--format", format, "--out", &shown]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(first) && text.lines().count() > 5, "{format}: {text}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let printed = stage.fine(&["audit", "export", "--format", format]).stdout;
        assert_eq!(printed, text, "{format} is the same on stdout");
    }
    let said = stage.run(&["audit", "export", "--format", "csv", "--out", "/no/such/folder/x.csv"]);
    assert_eq!(said.code, 2);
}
