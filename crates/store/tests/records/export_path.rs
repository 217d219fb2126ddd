//! Where exports go: agents stay in their folder, and a file under its final name is complete
//! whatever was killed.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags};
use store::export::{
    Compression, CsvSafety, ExportError, ExportJob, ExportOptions, ExportResult, PathScope,
};
use store::home::Home;
use store::records::Records;

use super::export::filled;
use super::fixture::{Dice, EXPORTS, Fixture, NOW_US, TestRecord};

const HOME: &str = "TOLLGATE_TEST_EXPORT_HOME";
const FORMAT: &str = "TOLLGATE_TEST_EXPORT_FORMAT";

fn confined(
    records: &Records,
    kind: &str,
    format: &str,
    path: &str,
    folder: &Path,
) -> Result<ExportResult, ExportError> {
    let order = ExportOptions {
        path,
        from_us: None,
        to_us: None,
        now_us: NOW_US,
        overwrite: true,
        csv: CsvSafety::AsIs,
        compression: Compression::Zstd,
        reach: PathScope::Below(folder),
    };
    ExportJob::new(&EXPORTS, kind, format)?.write(records, &order, &mut |_| {})
}

#[test]
fn an_agent_writes_below_its_folder() {
    let fixture = filled();
    let folder = fixture.path("exports");
    let absolute = folder.join("absolute.csv").display().to_string();
    for path in ["a.csv", "./b.csv", "deep/er/c.csv", absolute.as_str(), "..d.csv", "…/e.csv"] {
        let done = confined(&fixture.records, "nights", "csv", path, &folder).unwrap();
        assert_eq!(done.files[0].path, path, "the path as given");
        let saved_to = Path::new(&done.files[0].saved_to);
        assert!(saved_to.starts_with(&folder) && saved_to.exists(), "{path}");
        assert_eq!(fs::metadata(saved_to).unwrap().mode() & 0o777, 0o600);
    }
    confined(&fixture.records, "all", "jsonl", "everything", &folder).unwrap();
    assert!(folder.join("everything/nights.jsonl").exists());
    for folder in [&folder, &folder.join("deep"), &folder.join("everything")] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    }
}

#[test]
fn an_agent_cannot_leave_its_folder() {
    let fixture = filled();
    let folder = fixture.path("exports");
    let outside = fixture.path("outside");
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file.csv"), "untouched").unwrap();
    symlink(&outside, folder.join("link")).unwrap();
    symlink(outside.join("file.csv"), folder.join("file-link")).unwrap();
    symlink(outside.join("new.csv"), folder.join("dangling")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    symlink(".", folder.join("same")).unwrap();
    fs::create_dir(folder.join("real")).unwrap();
    let sibling = format!("{}-evil/x.csv", folder.display());
    let through = format!("{}/../outside/x.csv", folder.display());
    let paths = [
        "../x.csv",
        "a/../../x.csv",
        "real/../../outside/x.csv",
        "/etc/x.csv",
        "/tmp/x.csv",
        sibling.as_str(),
        through.as_str(),
        "link/x.csv",
        "link/file.csv",
        "file-link",
        "dangling",
        "up/x.csv",
        "same/x.csv",
        "link",
        "~/x.csv",
        "~",
        "~root/x.csv",
        "",
        ".",
        "..",
        "/",
        "a\0b",
        "/proc/self/cwd/x.csv",
        ".tollgate-1-0.part",
    ];
    for kind in ["nights", "all"] {
        for path in paths {
            let fault = confined(&fixture.records, kind, "csv", path, &folder).unwrap_err();
            assert_eq!(fault.code(), "EXPORT_ERROR", "{kind} {path}");
        }
    }
    assert_eq!(fs::read_to_string(outside.join("file.csv")).unwrap(), "untouched");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_dir(fixture.folder.path()).unwrap().count(), 3, "home, exports, outside");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 6, "nothing was made on the way");
    println!("P30: {} ways out of the folder refused, 0 files outside", paths.len());
}

/// A folder that is swapped for a link again and again while exports run never leads one outside.
#[test]
fn a_folder_that_becomes_a_link_in_mid_export_leads_nowhere() {
    let fixture = filled();
    let folder = fixture.path("exports");
    let outside = fixture.path("outside");
    fs::create_dir_all(folder.join("d")).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, folder.join("link")).unwrap();
    // In one step, so that the name is never free for an export to make a folder of its own there.
    let swap = || {
        let [folder, link] = ["d", "link"].map(|name| folder.join(name));
        rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut succeeded = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                swap();
                swap();
            }
        });
        for _ in 0..200 {
            succeeded += usize::from(
                confined(&fixture.records, "nights", "csv", "d/x.csv", &folder).is_ok(),
            );
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(succeeded > 0, "none succeeded, so none could have gone astray");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "of {succeeded} none went outside");
    println!(
        "P30: 200 exports while their folder became a link and back, {succeeded} done, 0 outside"
    );
}

/// Not a test of its own: another test starts this binary again to run it as a process.
#[test]
fn a_process_that_exports_until_it_is_killed() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Home::open(Path::new(&home)).unwrap();
    let records = Records::open(&home).unwrap();
    let format = std::env::var(FORMAT).unwrap();
    for round in 0.. {
        confined(&records, "nights", &format, "nights", &home.path().join("exports")).unwrap();
        if round == 0 {
            eprintln!("READY");
        }
    }
}

#[test]
fn a_hundred_kills_leave_no_incomplete_file_under_its_name() {
    let fixture = Fixture::new();
    let kept: Vec<TestRecord> = (0..3_000)
        .map(|n| TestRecord {
            flat: format!(
                r#"{{"id":{n},"start_utc":"t{n}","nap":false,"score":1.5,"need":null,"words":"w"}}"#
            ),
            ..TestRecord::new("nights", &format!("{n}"), n, Some(n + 1))
        })
        .collect();
    let page: Vec<_> = kept.iter().map(TestRecord::incoming).collect();
    fixture.records.upsert("svc", &page).unwrap();
    let folder = fixture.home.path().join("exports");
    let (mut dice, mut drafts) = (Dice(5), 0);
    for round in 0..100 {
        let format = ["csv", "jsonl", "parquet"][round % 3];
        let whole = fixture.path(&format!("whole.{format}"));
        if !whole.exists() {
            let name = format!("whole.{format}");
            confined(&fixture.records, "nights", format, &name, fixture.folder.path()).unwrap();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "export_path::a_process_that_exports_until_it_is_killed",
                "--nocapture",
            ])
            .env(HOME, fixture.home.path())
            .env(FORMAT, format)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.map_while(Result::ok).any(|line| line.contains("READY")), "round {round}");
        std::thread::sleep(Duration::from_micros(dice.below(30_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let bytes = fs::read(folder.join("nights")).unwrap();
        assert!(bytes == fs::read(&whole).unwrap(), "round {round}: {} bytes", bytes.len());
        drafts += fs::read_dir(&folder).unwrap().count() - 1;
    }
    assert!(drafts > 10, "of 100 processes {drafts} died while they wrote");
    println!(
        "P30: 100 kills, {drafts} of them in mid-export, 0 incomplete files under a final name"
    );
    confined(&fixture.records, "nights", "csv", "nights", &folder).unwrap();
    let left: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["nights"], "what the killed ones left is swept");
}
