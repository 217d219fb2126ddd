//! Without its store a gate refuses calls: files are removed under a running gate and restored.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http_client::Client;
use crate::recorder::Recorder;
use crate::test_gate::{Gate, TOOLS, until};

/// While the store is broken no call passes; after the repair calls pass again, in the same process.
fn broken_then_mended(
    what: &str,
    gate: &Gate,
    recorder: &Recorder,
    client: &Client,
    (broken, mended): (&dyn Fn(), &dyn Fn()),
) {
    let arguments = json!({ "nonce": what });
    assert!(client.call("echo", &arguments).passed(), "{what}: before");
    broken();
    let noticed =
        until(what, Duration::from_secs(10), || !client.call("echo", &arguments).passed());
    let before = recorder.calls().len();
    let started = Instant::now();
    for _ in 0..5 {
        let answer = client.call("echo", &arguments);
        assert_eq!(answer.denial()["code"], "store_unavailable", "{what}: {}", answer.text());
        assert!(answer.took < Duration::from_secs(10));
        // While the log can be written, the refusal has its row.
        let on_record = answer.denial()["audit_id"].is_u64();
        assert!(on_record || what != "gate.db removed", "{what}: {}", answer.text());
    }
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let told = client.send(&told);
    let refused = told.json()["error"]["code"] == -31053;
    assert!(told.status == 202 || refused, "{what}: {} {}", told.status, told.text());
    let passed = recorder.calls().len() - before;
    let each = started.elapsed() / 5;
    mended();
    let again = until(what, Duration::from_secs(10), || client.call("echo", &arguments).passed());
    println!(
        "P02: {what}: refused after {noticed:.0?}, {passed} of 5 passed, {each:.0?} each, back after {again:.0?}"
    );
    assert_eq!(passed, 0, "{what}");
    assert!(!gate.log().contains("panicked"), "{}", gate.log());
}

#[test]
fn p02_without_its_store_the_gate_refuses_every_call() {
    let (gate, recorder, client) = Gate::with_recorder();
    let home = gate.home.clone();
    let aside = gate.folder.path().join("aside");
    let away = |path: &Path| fs::rename(path, &aside).unwrap();
    let back = |path: &Path| fs::rename(&aside, path).unwrap();
    let journal = home.join("audit/00000001.log");
    for (what, path) in [
        ("journal removed", journal.clone()),
        ("audit folder removed", home.join("audit")),
        ("gate.db removed", home.join("gate.db")),
        ("home removed", home.clone()),
    ] {
        broken_then_mended(what, &gate, &recorder, &client, (&|| away(&path), &|| back(&path)));
    }
    let whole = std::cell::RefCell::new(Vec::new());
    let cut = || {
        *whole.borrow_mut() = fs::read(&journal).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
        file.set_len(whole.borrow().len() as u64 / 2).unwrap();
    };
    let restore = || {
        use platform::files::AtOffset as _;
        let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
        file.write_all_at(&whole.borrow(), 0).unwrap();
    };
    broken_then_mended("journal cut", &gate, &recorder, &client, (&cut, &restore));
    assert_eq!(recorder.count("echo"), gate.admitted("echo"), "every call that left has its row");
    gate.verify();
}

/// A file system of three megabytes, if this user may mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).output();
    }
}

#[test]
fn p02_on_a_full_disk_the_gate_refuses_every_call() {
    let Some(disk) = SmallDisk::mount() else {
        println!("P02: disk full: not tried, this user may not mount a small disk");
        return;
    };
    let mut gate = Gate::at(Some(disk.0.path()));
    let recorder = Recorder::new(TOOLS);
    let token = gate.set_up(&recorder);
    gate.up();
    let client = gate.client(&token, "/mcp/rec");
    let filler = disk.0.path().join("filler");
    let fill = || {
        use std::io::Write;
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    };
    let free = || fs::remove_file(&filler).unwrap();
    broken_then_mended("disk full", &gate, &recorder, &client, (&fill, &free));
    assert_eq!(recorder.count("echo"), gate.admitted("echo"), "every call that left has its row");
    gate.verify();
    gate.stop();
}

/// A backup tool, or the owner with `sqlite3`, opens and closes the database of a running gate.
#[test]
fn another_program_that_reads_the_database_does_not_cut_the_gate_off_from_it() {
    const READ: &str = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n\
                        db.execute('SELECT count(*) FROM grants').fetchone()\ndb.close()";
    let (gate, _recorder, client) = Gate::with_recorder();
    let mut read = Command::new("python3");
    assert!(read.args(["-c", READ]).arg(gate.home.join("gate.db")).status().unwrap().success());
    assert!(gate.home.join("gate.db-wal").exists(), "the gate still uses this log");
    gate.policy("rules", &json!({ "version": "1", "default": "deny" }));
    let answer = client.call("echo", &json!({ "nonce": "later" }));
    assert_eq!(answer.denial()["code"], "denied_by_default", "{}", answer.text());
}
