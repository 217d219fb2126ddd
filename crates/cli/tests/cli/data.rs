//! The owner's data through the binary: exported, queried, deleted.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use serde_json::json;
use store::home::Home;
use store::records::{Incoming, Records};

use crate::cli_test::CliTest;

const DAY_US: i64 = 86_400_000_000;

/// Three cycles from 2026-01-01 on, the last one open.
fn with_cycles() -> CliTest {
    let test = CliTest::new();
    let home = Home::create(&test.home()).unwrap();
    let records = Records::open(&home).unwrap();
    for (n, calories) in [(0, 1900), (1, 2100), (2, 2300)] {
        let start_us = 1_767_225_600_000_000 + n * DAY_US;
        let day = n + 1;
        let (start, end) =
            (format!("2026-01-0{day}T00:00:00.000Z"), format!("2026-01-0{day}T23:00:00.000Z"));
        let end = (n < 2).then_some(end);
        let raw = json!({
            "id": day, "user_id": 1, "created_at": start, "updated_at": start, "start": start, "end": end,
            "timezone_offset": "+05:30", "score_state": "SCORED",
            "score": {"strain": 10.5, "kilojoule": f64::from(calories) / 0.239_006, "average_heart_rate": 68, "max_heart_rate": 141},
        })
        .to_string();
        let id = day.to_string();
        let incoming = Incoming {
            kind: "cycles",
            id: &id,
            start_us: Some(start_us),
            end_us: end.is_some().then_some(start_us + DAY_US / 24 * 23),
            updated: &start,
            updated_us: start_us,
            raw: &raw,
            flat: "{}",
            ..Incoming::default()
        };
        records.upsert("whoop", &[incoming]).unwrap();
    }
    test
}

#[test]
fn an_export_prints_one_line_and_writes_a_private_file() {
    let test = with_cycles();
    let printed = test.succeed(&["export", "whoop", "cycles", "--out", "~/deep/cycles.csv"]);
    let path = test.path("deep/cycles.csv");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        printed.stdout,
        format!("cycles: 3 records, {} bytes in `~/deep/cycles.csv`\n", text.len())
    );
    assert_eq!(platform::private::bits(&fs::metadata(&path).unwrap()), 0o600);
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(lines[0].starts_with("avg_hr_bpm,calories,end,"), "{text}");
    assert!(lines[1].starts_with("68,1900,"), "shaped from the raw record: {text}");
    assert_eq!(lines.len(), 5, "header, three rows, nothing");

    let again = test.run(&["export", "whoop", "cycles", "--out", "~/deep/cycles.csv"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("hint: `--overwrite` replaces it"), "{}", again.stderr);
    test.succeed(&[
        "export",
        "whoop",
        "cycles",
        "--out",
        "~/deep/cycles.csv",
        "--overwrite",
        "--safe",
    ]);
    assert!(fs::read_to_string(&path).unwrap().contains(",'+05:30"), "neutral in spreadsheets");
    let noted = test.succeed(&["audit", "tail"]).stdout;
    assert!(noted.contains("export") && noted.contains("cycles as csv, 3 records"), "{noted}");
}

#[test]
fn an_export_reports_its_files_as_json() {
    let test = with_cycles();
    let arguments = ["export", "whoop", "cycles", "--format", "jsonl", "--out", "c.jsonl"];
    let window = ["--start", "2026-01-02", "--end", "2026-01-02", "--json"];
    let printed = test.succeed(&[arguments.as_slice(), &window].concat()).json();
    assert_eq!(printed["range"], json!({"start": "2026-01-02", "end": "2026-01-02"}));
    assert_eq!(printed["files"][0]["records"], 1);
    assert_eq!(printed["files"][0]["path"], "c.jsonl");
    assert_eq!(printed["files"][0]["saved_to"], test.path("c.jsonl").display().to_string());
    let line: serde_json::Value =
        serde_json::from_str(fs::read_to_string(test.path("c.jsonl")).unwrap().trim()).unwrap();
    assert_eq!((&line["id"], &line["calories"]), (&json!(2), &json!(2100)));
}

#[test]
fn exporting_all_kinds_writes_a_folder() {
    let test = with_cycles();
    test.succeed(&["export", "whoop", "--format", "parquet"]);
    let mut names: Vec<String> = fs::read_dir(test.path("whoop-all"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "body_measurements.parquet",
            "cycles.parquet",
            "profile_snapshots.parquet",
            "recoveries.parquet",
            "sleeps.parquet",
            "workouts.parquet",
        ]
    );
    for name in names {
        let bytes = fs::read(test.path("whoop-all").join(&name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
}

#[test]
fn wrong_arguments_are_answered_with_a_hint() {
    let test = with_cycles();
    for (arguments, words) in [
        (&["export", "nope"][..], "hint: known are `whoop`"),
        (
            &["export", "whoop", "nope"],
            "kind must be one of cycles, recoveries, sleeps, workouts, all",
        ),
        (&["export", "whoop", "sleeps"], "hint: `tollgate sync whoop` fetches them"),
        (&["export", "whoop", "cycles", "--start", "2026-13-01"], "is not a day"),
        (&["export", "whoop", "cycles", "--out", "-"], "hint: `--out FILE`"),
        (&["sql", "delete from record"], "only queries are possible here"),
        (&["sql", "select x from whoop_cycles"], "no such column: x"),
        (&["sql", "select 1; select 2"], "one statement at a time"),
    ] {
        let printed = test.run(arguments);
        assert_eq!(printed.code, 2, "{arguments:?}");
        assert!(printed.stderr.contains(words), "{arguments:?}: {}", printed.stderr);
    }
}

#[test]
fn queries_print_a_table_csv_or_json() {
    let test = with_cycles();
    let question = "select id, calories, end_utc is null as open from whoop_cycles order by id";
    let table = test.succeed(&["sql", question]).stdout;
    assert_eq!(table, "id  calories  open\n1   1900      0\n2   2100      0\n3   2300      1\n");
    let csv = test.succeed(&["sql", "select 'a,\"b' as x, null as y, 1.5 as z", "--csv"]).stdout;
    assert_eq!(csv, "x,y,z\r\n\"a,\"\"b\",,1.5\r\n");
    let json = test.succeed(&["sql", question, "--json", "--limit", "1"]).json();
    assert_eq!(json, json!([{"id": 1, "calories": 1900, "open": 0}]));
    let cut = test.succeed(&["sql", question, "--limit", "2"]);
    assert_eq!(cut.stdout.lines().count(), 3);
    assert!(cut.stderr.contains("the first 2 rows; `--limit 0` shows all"), "{}", cut.stderr);
    let views = test.succeed(&["sql", "--views"]).stdout;
    assert!(views.contains("whoop_sleeps\n  id, cycle_id, start_utc"), "{views}");
    assert!(views.contains("zone_durations_seconds_zone_five"), "{views}");
    let asked = test.run_with(&["sql", "-", "--csv"], "select count(*) as n from whoop_cycles;\n");
    assert_eq!(asked.stdout, "n\r\n3\r\n");
    let hostile = test.succeed(&["sql", "select '\u{1b}[2J' as \"a\u{1b}b\""]).stdout;
    assert!(!hostile.contains('\u{1b}'), "{hostile}");
}

#[test]
fn an_endless_result_is_streamed() {
    let test = with_cycles();
    let endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select n from c";
    let mut command = test.command(&["sql", endless, "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = [0; 64];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    // A closed pipe ends it.
    assert!(child.wait().is_ok());
    assert!(first.starts_with(b"[\n  {\n    \"n\": 1\n  },\n  {\n    \"n\": 2\n  },\n"));
    assert_eq!(test.succeed(&["sql", "select 1 where 0", "--json"]).stdout, "[]\n");
}

#[test]
fn a_damaged_mirror_is_reported_and_not_changed() {
    let test = with_cycles();
    let path = test.home().join("data.db");
    for name in ["data.db-wal", "data.db-shm"] {
        let _ = fs::remove_file(test.home().join(name));
    }
    fs::write(&path, "this is not a database, whatever else it may be ".repeat(200)).unwrap();
    let before = fs::read(&path).unwrap();
    for arguments in [&["export", "whoop"][..], &["sql", "select 1"]] {
        let printed = test.run(arguments);
        assert_eq!(printed.code, 2);
        assert!(printed.stderr.contains("`data.db` is damaged"), "{}", printed.stderr);
    }
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_purge_lists_asks_and_deletes_everything() {
    let test = with_cycles();
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    fs::create_dir(test.home().join("accounts")).unwrap();
    fs::write(test.home().join("accounts/whoop.json"), "{}").unwrap();
    let refused = test.run(&["purge"]);
    assert_eq!(refused.code, 2, "there is no terminal to ask on");
    assert!(refused.stderr.contains("so add `--yes`"), "{}", refused.stderr);
    for words in ["data.db", "records fetched from your accounts", "vault.key", "audit", "gate.db"]
    {
        assert!(refused.stdout.contains(words), "{}", refused.stdout);
    }
    assert!(refused.stderr.contains("disconnect"), "{}", refused.stderr);
    assert!(test.home().join("data.db").exists());

    // The files of a bundle lie as deep as its author put them.
    let deep = test.home().join("bundles/x").join("d/".repeat(60));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("index.js"), "").unwrap();
    fs::write(test.home().join("notes.txt"), "the owner's own").unwrap();
    let printed = test.succeed(&["purge", "--yes"]);
    assert!(
        printed.stderr.contains("notes.txt` is not tollgate's and stays"),
        "{}",
        printed.stderr
    );
    let left: Vec<_> =
        fs::read_dir(test.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    fs::remove_file(test.home().join("notes.txt")).unwrap();

    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    test.succeed(&["purge", "--yes", "--json"]);
    assert!(!test.home().exists(), "the folder goes with the last file");
}

#[test]
fn a_file_size_limit_is_an_error_and_not_a_crash() {
    let test = with_cycles();
    let plain = test.command(&["export", "whoop", "cycles", "--out", "cycles.csv"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(plain.get_program());
    limited.args(plain.get_args()).current_dir(test.path("")).env_clear();
    limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{:?} {words}", output.status);
    assert!(words.starts_with("error: "), "{words}");
    assert!(!test.path("cycles.csv").exists());
}

#[test]
fn a_folder_that_is_not_a_home_is_not_purged() {
    let test = CliTest::new();
    let folder = test.home();
    fs::create_dir_all(folder.join("logs")).unwrap();
    fs::write(folder.join("logs/mine.txt"), "the owner's own").unwrap();
    let before = platform::private::bits(&fs::metadata(&folder).unwrap());
    let printed = test.run(&["purge", "--yes"]);
    assert_eq!(printed.code, 2);
    assert!(
        printed.stderr.contains("is not a tollgate home; nothing was deleted"),
        "{}",
        printed.stderr
    );
    assert!(folder.join("logs/mine.txt").exists());
    assert_eq!(
        platform::private::bits(&fs::metadata(&folder).unwrap()),
        before,
        "it was not even opened"
    );
}

#[test]
fn a_report_without_records_names_the_service_to_sync() {
    let test = CliTest::new();
    test.succeed(&["server", "list"]);
    let report = test.run(&["report"]);
    assert_eq!(report.code, 2, "{}", report.all_output());
    assert!(report.stderr.contains("hint: run `tollgate sync whoop` first"), "{}", report.stderr);
}

#[test]
fn a_report_is_one_private_page_without_script_or_network() {
    let test = with_cycles();
    let path = test.path("report.html");
    let path_text = path.display().to_string();
    test.succeed(&["report", "--html", &path_text]);
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.contains("not enough data"), "three days are too few: {page}");
    for outside in ["<script", "http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(platform::private::bits(&fs::metadata(&path).unwrap()), 0o600);
    let again = test.run(&["report", "--html", &path_text]);
    assert_ne!(again.code, 0);
    assert!(again.stderr.contains("--overwrite"), "{}", again.stderr);
    test.succeed(&["report", "--html", &path_text, "--overwrite", "--imperial"]);
}
