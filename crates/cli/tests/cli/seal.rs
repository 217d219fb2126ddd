//! A rewritten and rechained log, with or without `gate.db` and the seal, is detected without a checkpoint;
//! kills and upgrades give no false alarm.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::cli_test::CliTest;
use crate::history::set_up;
use crate::http;

/// An attacker without the key, in another language. The action is the first argument, the home the second.
const ATTACK: &str = r#"
import glob, hashlib, json, os, re, sqlite3, sys
act, home = sys.argv[1:3]
audit = home + "/audit"
paths = sorted(glob.glob(audit + "/0*.log"))

def rows():
    return [[line.split(b" ", 1)[1] for line in open(p, "rb").read().splitlines()] for p in paths]

def rechain(segments):
    last = b"0" * 64
    for path, lines in zip(paths, segments):
        with open(path, "wb") as out:
            for js in lines:
                if js.startswith(b'{"kind":"state"'):
                    js = re.sub(rb'"previous":"[0-9a-f]{64}"', b'"previous":"' + last + b'"', js)
                last = hashlib.sha256(last + js).hexdigest().encode()
                out.write(last + b" " + js + b"\n")

def renumber(lines):
    return [re.sub(rb'"seq":\d+', b'"seq":%d' % n, js, count=1) for n, js in enumerate(lines, 1)]

def forget(*keys):
    db = sqlite3.connect(home + "/gate.db")
    for key in keys:
        db.execute("DELETE FROM settings WHERE key = ?", (key,))
    db.commit()
    db.close()

segments = rows()
if act == "edit":
    segments[0] = [js.replace(b"send_money", b"list_notes") for js in segments[0]]
elif act == "edit the last row":
    segments[-1][-1] = segments[-1][-1].replace(b'"time":"2', b'"time":"3')
elif act == "drop a row":
    del segments[0][5]
    segments[0] = renumber(segments[0])
elif act == "swap rows":
    segments[0][5], segments[0][6] = segments[0][6], segments[0][5]
    segments[0] = renumber(segments[0])
elif act == "cut":
    del segments[-1][-2:]
rechain(segments)
for name in sys.argv[3:]:
    if name == "forget":
        forget("audit-log")
    elif name == "forget all":
        forget("audit-log", "audit-sealed")
    else:
        os.remove(home + "/" + name)
"#;

fn attack(act: &str, home: &Path, more: &[&str]) {
    let script = ["-c", ATTACK, act];
    let done = Command::new("python3").args(script).arg(home).args(more).status().unwrap();
    assert!(done.success(), "{act} {more:?}");
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_rewritten_and_rechained_log_is_detected_without_a_checkpoint() {
    let test = set_up();
    let (home, kept) = (test.home(), test.path("kept"));
    let output = test.succeed(&["audit", "verify"]);
    let last = test.succeed(&["audit", "verify", "--json"]).json()["log"]["last_seq"].clone();
    let sealed = format!("sealed with the vault key up to row {last}\n");
    assert!(output.stdout.contains(&sealed), "a stop seals every row: {}", output.all_output());
    copy(&home, &kept);
    for act in ["edit", "edit the last row", "drop a row", "swap rows", "cut"] {
        for more in [
            &["audit/synced"][..],
            &["audit/synced", "forget"],
            &["audit/synced", "forget all"],
            &["audit/synced", "audit/seal"],
            &["audit/synced", "audit/seal", "forget"],
            &["audit/synced", "audit/seal", "forget all"],
            &["audit/synced", "audit/seal", "gate.db"],
            &["audit/synced", "gate.db"],
        ] {
            copy(&kept, &home);
            attack(act, &home, more);
            let output = test.run(&["audit", "verify"]);
            assert_eq!(output.code, 1, "{act} {more:?}: {}", output.all_output());
            assert!(
                output.stdout.starts_with("broken: "),
                "{act} {more:?}: {}",
                output.all_output()
            );
        }
    }
    // Without the key only the row that `gate.db` remembers is checked.
    copy(&kept, &home);
    attack("edit", &home, &["audit/synced", "vault.key"]);
    assert_eq!(test.run(&["audit", "verify"]).code, 1);
    copy(&kept, &home);
    fs::write(home.join("audit/seal"), vec![b' '; 1_024]).unwrap();
    assert_eq!(test.run(&["audit", "verify"]).code, 1, "an invalid seal");
    copy(&kept, &home);
    assert_eq!(test.run(&["audit", "verify"]).code, 0, "restored");
}

#[test]
fn a_gate_reports_a_rewritten_log_in_a_row_until_it_is_accepted() {
    let test = set_up();
    attack("edit", &test.home(), &["audit/synced"]);
    let output = test.up(&[]).stop();
    assert!(output.stderr.contains("the log was rewritten"), "{}", output.all_output());
    let row = test.run(&["audit", "search", "seal_broken", "--json"]).json();
    assert!(row["words"].as_str().unwrap().contains("the log was rewritten"), "{row}");
    for command in [&["audit", "verify"][..], &["doctor"]] {
        let output = test.run(command);
        assert_eq!(output.code, 1, "{}", output.all_output());
        assert!(output.stdout.contains("the log was rewritten"), "{}", output.all_output());
    }
    let kept = test.path("checkpoint.json").display().to_string();
    test.succeed(&["audit", "checkpoint", "--out", &kept]);
    let output = test.succeed(&["audit", "verify", "--checkpoint", &kept]);
    assert!(output.stdout.starts_with("whole: "), "{}", output.all_output());
}

/// The older seal matches the rows before it, so only `gate.db` detects the change. The next start must not
/// hide it.
#[test]
fn rows_rewritten_behind_an_older_seal_stay_doubtful_after_a_start() {
    let test = set_up();
    let seal = test.home().join("audit/seal");
    let older = fs::read(&seal).unwrap();
    test.grant("mallory");
    attack("edit the last row", &test.home(), &["audit/synced"]);
    fs::write(&seal, older).unwrap();
    assert_eq!(test.run(&["audit", "verify"]).code, 1);
    test.up(&[]).stop();
    let output = test.run(&["audit", "verify"]);
    assert_eq!(output.code, 1, "{}", output.all_output());
}

#[test]
fn a_killed_gate_leaves_a_log_that_verifies() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    for round in 0..6 {
        let up = test.up(&[]);
        let url = format!("{}/demo", up.url());
        for _ in 0..=round {
            http::call(&url, &token, "list_notes", &json!({}));
        }
        let killed = Command::new("kill").args(["-9", &up.pid().to_string()]).status().unwrap();
        assert!(killed.success());
        drop(up);
        let output = test.run(&["audit", "verify"]);
        assert_eq!(output.code, 0, "round {round}: {}", output.all_output());
        assert!(output.stdout.contains("sealed with the vault key"), "{}", output.all_output());
    }
    let notes = test.run(&["audit", "search", "--only", "notes", "--json"]).stdout;
    assert!(!notes.contains("seal_broken") && !notes.contains("log_lost"), "{notes}");
}

#[test]
fn a_kill_during_the_creation_of_a_home_gives_no_alarm() {
    for pause_ms in (0..60).step_by(3) {
        let test = CliTest::new();
        let policy = test.write("kept.json", crate::history::KEPT);
        let mut command = test.command(&["policy", "set", "kept", &policy]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        let _ = child.kill();
        child.wait().unwrap();
        if test.home().join("audit/00000001.log").exists() {
            let output = test.run(&["audit", "verify"]);
            assert_eq!(output.code, 0, "{pause_ms} ms: {}", output.all_output());
        }
        test.succeed(&["policy", "set", "other", &policy]);
        test.succeed(&["audit", "verify"]);
        let notes = test.succeed(&["audit", "search", "--only", "notes", "--json"]).stdout;
        assert!(!notes.contains("seal_broken"), "{pause_ms} ms: {notes}");
    }
}

#[test]
fn a_log_of_an_older_version_is_sealed_by_the_next_command() {
    let test = set_up();
    // As an older version leaves it: `gate.db` remembers the log, and there is no seal.
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
                  db.execute(\"DELETE FROM settings WHERE key = 'audit-sealed'\"); db.commit()";
    let gate_db = test.home().join("gate.db");
    assert!(Command::new("python3").args(["-c", script]).arg(gate_db).status().unwrap().success());
    fs::remove_file(test.home().join("audit/seal")).unwrap();
    let output = test.succeed(&["audit", "verify"]);
    assert!(output.stderr.contains("not sealed: an older version"), "{}", output.all_output());
    test.succeed(&["policy", "set", "other", &test.write("p.json", crate::history::KEPT)]);
    let output = test.succeed(&["audit", "verify"]);
    assert!(
        output.stdout.contains("sealed with the vault key up to row"),
        "{}",
        output.all_output()
    );
    assert!(output.stdout.contains("were not sealed when they were written"), "{}", output.stdout);
    fs::remove_file(test.home().join("audit/seal")).unwrap();
    assert_eq!(test.run(&["audit", "verify"]).code, 1, "now its absence is detected");
}

/// An older copy of `gate.db` alone revives no revoked grant, and the log records it.
#[test]
fn an_older_gate_db_revives_no_grant() {
    let test = CliTest::with_demo();
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|label| test.grant(label));
    let (db, copy) = (test.home().join("gate.db"), test.path("copy"));
    fs::copy(&db, &copy).unwrap();
    assert_eq!(test.run(&["grant", "revoke", "alice"]).code, 0);
    assert_eq!(test.run(&["grant", "rotate", "carol", "--overlap", "0s"]).code, 0);
    assert_eq!(test.run(&["audit", "verify"]).code, 0);
    fs::copy(&copy, &db).unwrap();
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    for ended in [&alice, &carol] {
        let refused = http::call(&url, ended, "list_notes", &json!({}));
        assert_eq!(refused.status, 401, "{}", refused.body);
    }
    let passed = http::call(&url, &bob, "list_notes", &json!({}));
    assert!(passed.body.contains("\"result\""), "{}", passed.body);
    let output = up.stop();
    assert!(output.stderr.contains("`gate.db` is older than the audit log"), "{}", output.stderr);
    let verified = test.run(&["audit", "verify"]);
    assert_eq!(verified.code, 1, "{}", verified.all_output());
    for words in ["revoked again: alice", "replaced tokens ended again, to be rotated: carol"] {
        assert!(verified.stdout.contains(words), "{}", verified.all_output());
    }
    let checked = test.run(&["doctor"]);
    assert!(checked.all_output().contains("older than the audit log"), "{}", checked.all_output());
    // A second start finds nothing new, and a checkpoint of a later row accepts the log.
    let output = test.up(&[]).stop();
    assert!(!output.stderr.contains("is older than"), "{}", output.stderr);
    let checkpoint = test.path("checkpoint").display().to_string();
    assert_eq!(test.run(&["audit", "checkpoint", "--out", &checkpoint]).code, 0);
    let accepted = test.run(&["audit", "verify", "--checkpoint", &checkpoint]);
    assert_eq!(accepted.code, 0, "{}", accepted.all_output());
}
