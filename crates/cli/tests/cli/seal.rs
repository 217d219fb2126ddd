//! A log that somebody rewrote and chained again, with or without `gate.db` and the seal, is found
//! without a checkpoint; kills and upgrades are not taken for that.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::history::stage;
use crate::http;
use crate::stage::Stage;

/// What an attacker without the key does, in another language. `act` is the first argument, the home the
/// second.
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
fn a_log_that_was_rewritten_and_chained_again_is_found_without_a_checkpoint() {
    let stage = stage();
    let (home, kept) = (stage.home(), stage.path("kept"));
    let said = stage.fine(&["audit", "verify"]);
    let last = stage.fine(&["audit", "verify", "--json"]).json()["log"]["last_seq"].clone();
    let sealed = format!("sealed with the vault key up to row {last}\n");
    assert!(said.stdout.contains(&sealed), "a stop seals every row: {}", said.everything());
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
            let said = stage.run(&["audit", "verify"]);
            assert_eq!(said.code, 1, "{act} {more:?}: {}", said.everything());
            assert!(said.stdout.starts_with("broken: "), "{act} {more:?}: {}", said.everything());
        }
    }
    // Without the key the row that `gate.db` remembers is left.
    copy(&kept, &home);
    attack("edit", &home, &["audit/synced", "vault.key"]);
    assert_eq!(stage.run(&["audit", "verify"]).code, 1);
    copy(&kept, &home);
    fs::write(home.join("audit/seal"), vec![b' '; 1_024]).unwrap();
    assert_eq!(stage.run(&["audit", "verify"]).code, 1, "a seal that is none");
    copy(&kept, &home);
    assert_eq!(stage.run(&["audit", "verify"]).code, 0, "put back as it was");
}

#[test]
fn a_gate_that_opens_a_rewritten_log_says_so_in_a_row_until_it_is_accepted() {
    let stage = stage();
    attack("edit", &stage.home(), &["audit/synced"]);
    let said = stage.up(&[]).stop();
    assert!(said.stderr.contains("the log was rewritten"), "{}", said.everything());
    let row = stage.run(&["audit", "search", "seal_broken", "--json"]).json();
    assert!(row["words"].as_str().unwrap().contains("the log was rewritten"), "{row}");
    for command in [&["audit", "verify"][..], &["doctor"]] {
        let said = stage.run(command);
        assert_eq!(said.code, 1, "{}", said.everything());
        assert!(said.stdout.contains("the log was rewritten"), "{}", said.everything());
    }
    let kept = stage.path("checkpoint.json").display().to_string();
    stage.fine(&["audit", "checkpoint", "--out", &kept]);
    let said = stage.fine(&["audit", "verify", "--checkpoint", &kept]);
    assert!(said.stdout.starts_with("whole: "), "{}", said.everything());
}

/// The older seal fits the rows before it, so only `gate.db` refutes the log. The next start must not make it
/// whole again.
#[test]
fn rows_rewritten_behind_an_older_seal_stay_doubtful_after_a_start() {
    let stage = stage();
    let seal = stage.home().join("audit/seal");
    let older = fs::read(&seal).unwrap();
    stage.grant("mallory");
    attack("edit the last row", &stage.home(), &["audit/synced"]);
    fs::write(&seal, older).unwrap();
    assert_eq!(stage.run(&["audit", "verify"]).code, 1);
    stage.up(&[]).stop();
    let said = stage.run(&["audit", "verify"]);
    assert_eq!(said.code, 1, "{}", said.everything());
}

#[test]
fn a_killed_gate_leaves_a_log_that_verifies() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    for round in 0..6 {
        let up = stage.up(&[]);
        let url = format!("{}/demo", up.url());
        for _ in 0..=round {
            http::call(&url, &token, "list_notes", &json!({}));
        }
        let killed = Command::new("kill").args(["-9", &up.pid().to_string()]).status().unwrap();
        assert!(killed.success());
        drop(up);
        let said = stage.run(&["audit", "verify"]);
        assert_eq!(said.code, 0, "round {round}: {}", said.everything());
        assert!(said.stdout.contains("sealed with the vault key"), "{}", said.everything());
    }
    let notes = stage.run(&["audit", "search", "--only", "notes", "--json"]).stdout;
    assert!(!notes.contains("seal_broken") && !notes.contains("log_lost"), "{notes}");
}

#[test]
fn a_home_that_is_killed_while_it_is_made_draws_no_alarm() {
    for pause_ms in (0..60).step_by(3) {
        let stage = Stage::new();
        let policy = stage.write("kept.json", crate::history::KEPT);
        let mut command = stage.command(&["policy", "set", "kept", &policy]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        let _ = child.kill();
        child.wait().unwrap();
        if stage.home().join("audit/00000001.log").exists() {
            let said = stage.run(&["audit", "verify"]);
            assert_eq!(said.code, 0, "{pause_ms} ms: {}", said.everything());
        }
        stage.fine(&["policy", "set", "other", &policy]);
        stage.fine(&["audit", "verify"]);
        let notes = stage.fine(&["audit", "search", "--only", "notes", "--json"]).stdout;
        assert!(!notes.contains("seal_broken"), "{pause_ms} ms: {notes}");
    }
}

#[test]
fn a_log_of_an_older_version_is_sealed_by_the_next_command() {
    let stage = stage();
    // As an older version leaves it: it remembers its log and knows no seal.
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
                  db.execute(\"DELETE FROM settings WHERE key = 'audit-sealed'\"); db.commit()";
    let gate_db = stage.home().join("gate.db");
    assert!(Command::new("python3").args(["-c", script]).arg(gate_db).status().unwrap().success());
    fs::remove_file(stage.home().join("audit/seal")).unwrap();
    let said = stage.fine(&["audit", "verify"]);
    assert!(said.stderr.contains("not sealed: an older version"), "{}", said.everything());
    stage.fine(&["policy", "set", "other", &stage.write("p.json", crate::history::KEPT)]);
    let said = stage.fine(&["audit", "verify"]);
    assert!(said.stdout.contains("sealed with the vault key up to row"), "{}", said.everything());
    assert!(said.stdout.contains("were not sealed when they were written"), "{}", said.stdout);
    fs::remove_file(stage.home().join("audit/seal")).unwrap();
    assert_eq!(stage.run(&["audit", "verify"]).code, 1, "now it is missed");
}
