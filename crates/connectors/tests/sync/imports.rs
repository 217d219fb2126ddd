//! Imports into the mirror, without duplicates.

use std::io::{Cursor, Write};
use std::path::Path;

use connectors::sync::SyncRequest;
use connectors::when;
use connectors::whoop::legacy::{self, LoginImport};
use connectors::whoop::takeout::{self, TakeoutError, TakeoutReport};
use serde_json::{Value, json};
use store::records::Window;
use zip::write::SimpleFileOptions;

use crate::fixture::Fixture;

const CYCLES: &str = "Cycle start time,Cycle end time,Cycle timezone,Recovery score %,Resting heart rate (bpm),Heart rate variability (ms),Skin temp (celsius),Blood oxygen %,Day Strain,Energy burned (cal),Max HR (bpm),Average HR (bpm),Sleep onset,Wake onset\n\
2019-05-09 23:00:00,2019-05-10 23:30:00,UTC+02:00,72,52,58,33.1,96,12.5,2600,165,75,2019-05-09 23:15:00,2019-05-10 07:00:00\n\
2019-05-10 23:30:00,2019-05-11 23:10:00,UTC+02:00,,,,,,4.5,1800,120,66,,\n\
yesterday,2019-05-12 23:00:00,UTC+02:00,72,52,58,33.1,96,12.5,2600,165,75,,\n\
2019-05-12 23:00:00,,UTC+02:00,72,52,58,33.1,96,,,,,2019-05-12 23:15:00,2019-05-13 07:00:00\n";
const SLEEPS: &str = "Cycle start time,Cycle end time,Cycle timezone,Sleep onset,Wake onset,Sleep performance %,Respiratory rate (rpm),Asleep duration (min),In bed duration (min),Light sleep duration (min),Deep (SWS) duration (min),REM duration (min),Awake duration (min),Sleep need (min),Sleep debt (min),Sleep efficiency %,Sleep consistency %,Nap\n\
2019-05-09 23:00:00,2019-05-10 23:30:00,UTC+02:00,2019-05-09 23:15:00,2019-05-10 07:00:00,92,15.2,440,465,210,100,130,25,480,30,94,85,false\n\
2019-05-09 23:00:00,2019-05-10 23:30:00,UTC+02:00,2019-05-10 14:00:00,2019-05-10 14:40:00,40,16.0,35,40,20,5,10,5,0,0,88,,true\n";
const WORKOUTS: &str = "Cycle start time,Workout start time,Workout end time,Duration (min),Activity name,Activity Strain,Energy burned (cal),Max HR (bpm),Average HR (bpm),HR Zone 1 %,HR Zone 2 %,HR Zone 3 %,HR Zone 4 %,HR Zone 5 %,GPS enabled\n\
2019-05-09 23:00:00,2019-05-10 18:00:00,2019-05-10 19:00:00,60,Hiking/Rucking,9.5,520,175,142,5,15,45,30,5,true\n";
const JOURNAL: &str = "Cycle start time,Cycle end time,Cycle timezone,Question text,Answered yes,Notes\n\
2019-05-09 23:00:00,2019-05-10 23:30:00,UTC+02:00,\"Have any caffeine, today?\",true,\"two, small\"\n\
2019-05-09 23:00:00,2019-05-10 23:30:00,UTC+02:00,Felt stressed?,false,\n";

fn export(files: &[(&str, &str)]) -> Cursor<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap()
}

fn all() -> Cursor<Vec<u8>> {
    export(&[
        ("my_whoop_data/physiological_cycles.csv", CYCLES),
        ("my_whoop_data/sleeps.csv", SLEEPS),
        ("my_whoop_data/workouts.csv", WORKOUTS),
        ("my_whoop_data/journal_entries.csv", JOURNAL),
        ("my_whoop_data/readme.csv", "a,b\n1,2\n"),
        ("__MACOSX/._sleeps.csv", "\u{0}\u{1}"),
    ])
}

fn flats(fixture: &Fixture, kind: &str) -> Vec<Value> {
    let texts = fixture.ctx.records.window_flat("whoop", kind, &Window::default()).unwrap();
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn import(fixture: &Fixture) -> TakeoutReport {
    takeout::import(&fixture.ctx, all()).unwrap()
}

#[tokio::test]
async fn an_export_joins_the_mirror_with_units_and_zones_of_the_api() {
    let fixture = Fixture::new(30);
    let imported = import(&fixture);
    assert_eq!(imported.skipped, ["my_whoop_data/readme.csv"]);
    let odd: Vec<(u64, &str)> =
        imported.odd.iter().map(|odd| (odd.line, odd.why.as_str())).collect();
    let open = "the cycle was open when the export was made; a sync brings it";
    assert_eq!(odd, [(4, "`Cycle start time` is not a time"), (5, open)]);
    let cycles = flats(&fixture, "cycles");
    assert_eq!(cycles.len(), 2, "the open one is left to the API");
    let cycle = &cycles[0];
    assert_eq!(cycle["start_utc"], "2019-05-09T21:00:00.000Z");
    assert_eq!(cycle["start_local"], "2019-05-09T23:00:00+02:00");
    assert_eq!((&cycle["calories"], &cycle["strain"]), (&json!(2600), &json!(12.5)));
    let recovery = &flats(&fixture, "recoveries")[0];
    assert_eq!(recovery["cycle_id"], cycle["id"]);
    assert_eq!(recovery["recovery_score"], json!(72.0));
    let sleeps = flats(&fixture, "sleeps");
    assert_eq!(sleeps.len(), 2);
    let night = sleeps.iter().find(|sleep| sleep["nap"] == false).unwrap();
    assert_eq!((&night["cycle_id"], &night["deep_sleep_seconds"]), (&cycle["id"], &json!(6000.0)));
    assert_eq!(night["no_data_seconds"], Value::Null, "what it does not say is not zero");
    let workout = &flats(&fixture, "workouts")[0];
    assert_eq!(workout["sport_name"], "hiking-rucking");
    assert_eq!(workout["start_utc"], "2019-05-10T16:00:00.000Z", "the zone comes from the cycle");
    assert_eq!(workout["zone_durations_seconds"]["zone_three"], json!(1620.0));
    let journal = flats(&fixture, takeout::JOURNAL);
    assert_eq!(journal.len(), 2);
    assert!(journal.iter().any(|answer| answer["question"] == "Have any caffeine, today?"
        && answer["answered_yes"] == true
        && answer["notes"] == "two, small"
        && answer["date"] == "2019-05-10"));
    // Again: nothing new.
    let seq = fixture.ctx.records.newest_seq().unwrap();
    let again = import(&fixture);
    assert!(again.kinds.values().all(|tally| tally.written == 0), "{:?}", again.kinds);
    assert_eq!(fixture.ctx.records.newest_seq().unwrap(), seq);
}

#[tokio::test]
async fn tables_with_semicolons_and_decimal_commas_are_the_same_export() {
    let plain = Fixture::new(30);
    import(&plain);
    // The same table from a spreadsheet with decimal commas.
    let with_semicolons = |text: &str| text.replace(',', ";").replace('.', ",");
    let cycles = with_semicolons(CYCLES);
    let sleeps = with_semicolons(SLEEPS);
    let workouts = with_semicolons(WORKOUTS).replace(';', "\t");
    // Cells with decimal commas are quoted.
    let quoted =
        CYCLES.replace("33.1", "\"33,1\"").replace("12.5", "\"12,5\"").replace("4.5", "\"4,5\"");
    for cycles in [cycles, quoted] {
        let fixture = Fixture::new(30);
        let files = [
            ("c.csv", cycles.as_str()),
            ("s.csv", &sleeps),
            ("w.csv", &workouts),
            ("j.csv", JOURNAL),
        ];
        let imported = takeout::import(&fixture.ctx, export(&files)).unwrap();
        assert_eq!(imported.odd_count, 2, "{:?}", imported.odd);
        for kind in ["cycles", "recoveries", "sleeps", "workouts", takeout::JOURNAL] {
            assert_eq!(flats(&fixture, kind), flats(&plain, kind), "{kind}");
        }
    }
}

#[tokio::test]
async fn an_ambiguous_comma_is_refused_with_a_hint() {
    let fixture = Fixture::new(30);
    let header = CYCLES.lines().next().unwrap();
    let row = |energy: &str, strain: &str| {
        format!(
            "{header}\n2019-05-09 23:00:00,2019-05-10 23:30:00,UTC+02:00,72,52,58,33,96,{strain},{energy},165,75,,\n"
        )
    };
    for (energy, strain, why) in [
        (
            "\"2,600\"",
            "12",
            "`Energy burned (cal)` has a comma that may be of decimals or of thousands",
        ),
        // With a decimal point in the table a comma is not a decimal.
        ("\"2,600\"", "12.5", "`Energy burned (cal)` is no number"),
        ("2.600", "\"12,5\"", "`Day Strain` is no number"),
    ] {
        let files = [("c.csv", row(energy, strain))];
        let imported = takeout::import(&fixture.ctx, export(&[(files[0].0, &files[0].1)])).unwrap();
        assert_eq!(imported.odd[0].why, why);
        assert!(imported.took_nothing());
    }
    let good = [("c.csv", row("2600", "12"))];
    let good = || takeout::import(&fixture.ctx, export(&[(good[0].0, &good[0].1)])).unwrap();
    assert!(!good().took_nothing());
    assert!(!good().took_nothing(), "what is here already was taken before");
}

/// The export's row for a cycle of the API.
fn row_of(cycle: &Value) -> String {
    let civil = |key: &str| {
        let us = when::instant_us(cycle[key].as_str().unwrap()).unwrap();
        when::utc_millis(us).replace('T', " ")[..19].to_owned()
    };
    format!("{},{},UTC,50,55,60,33,96,9.9,2000,150,70,,\n", civil("start"), civil("end"))
}

/// An export of the oldest twenty cycles, which the API also has.
fn known_to_both(fixture: &Fixture) -> Cursor<Vec<u8>> {
    let upstream = fixture.upstream("cycle");
    let mut closed: Vec<&Value> =
        upstream.values().filter(|cycle| !cycle["end"].is_null()).collect();
    closed.sort_by_key(|cycle| cycle["start"].as_str().unwrap().to_owned());
    let header = CYCLES.lines().next().unwrap();
    let rows: String = closed.iter().take(20).map(|cycle| row_of(cycle)).collect();
    export(&[("physiological_cycles.csv", &format!("{header}\n{rows}"))])
}

fn imported(fixture: &Fixture, kind: &str) -> usize {
    fixture.mirrored(kind).keys().filter(|id| takeout::is_imported(id)).count()
}

#[tokio::test]
async fn records_of_the_api_win_in_any_order() {
    let fixture = Fixture::new(40);
    let first = takeout::import(&fixture.ctx, known_to_both(&fixture)).unwrap();
    assert_eq!(first.kinds["cycles"].written, 20);
    assert_eq!(first.kinds["recoveries"].written, 20);
    fixture.full().await;
    fixture.assert_equal();

    let second = takeout::import(&fixture.ctx, known_to_both(&fixture)).unwrap();
    assert_eq!((second.kinds["cycles"].written, second.kinds["cycles"].known), (0, 20));
    fixture.assert_equal();
}

#[tokio::test]
async fn recoveries_that_come_before_their_cycles_replace_the_exports_as_well() {
    let fixture = Fixture::new(40);
    takeout::import(&fixture.ctx, known_to_both(&fixture)).unwrap();
    for resource in ["recoveries", "cycles"] {
        let resources = Some(vec![resource.to_owned()]);
        fixture.sync(&SyncRequest { full: true, resources, ..SyncRequest::default() }).await;
    }
    assert_eq!((imported(&fixture, "cycles"), imported(&fixture, "recoveries")), (0, 0));
}

#[test]
fn a_line_is_counted_as_an_editor_does_whatever_ends_it() {
    let fixture = Fixture::new(1);
    for end in ["\n", "\r\n"] {
        let file = CYCLES.replace('\n', end);
        let imported = takeout::import(&fixture.ctx, export(&[("c.csv", &file)])).unwrap();
        let lines: Vec<u64> = imported.odd.iter().map(|odd| odd.line).collect();
        assert_eq!(lines, [4, 5], "{end:?}");
    }
}

#[tokio::test]
async fn a_sync_leaves_what_only_the_export_has() {
    let fixture = Fixture::new(30);
    import(&fixture);
    fixture.full().await;
    fixture.full().await;
    assert_eq!(fixture.mirrored("cycles").len(), fixture.upstream("cycle").len() + 2);
    assert_eq!(fixture.mirrored("workouts").len(), fixture.upstream("workout").len() + 1);
}

#[test]
fn files_that_are_no_export_are_refused() {
    let fixture = Fixture::new(10);
    let refused = |bytes: Cursor<Vec<u8>>| takeout::import(&fixture.ctx, bytes).unwrap_err();
    assert!(matches!(refused(Cursor::new(b"PK nonsense".to_vec())), TakeoutError::NotAZip(_)));
    assert!(matches!(refused(export(&[("a.csv", "x,y\n")])), TakeoutError::NothingKnown));
    // Seventy megabytes of one letter are some seventy kilobytes in the ZIP.
    let bomb = format!("{CYCLES}{}", "a".repeat(70 << 20));
    assert!(matches!(refused(export(&[("b.csv", &bomb)])), TakeoutError::TooMuch));
    assert!(fixture.mirrored("cycles").is_empty());
}

const KEY: &str = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";
const HELLO: &str = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";

/// A folder of the Python server, with rows that are still in its WAL.
fn python_home(fixture: &Fixture, folder: &Path) -> rusqlite::Connection {
    std::fs::create_dir_all(folder).unwrap();
    let tokens = json!({
        "access_token": HELLO, "refresh_token": HELLO, "token_type": "bearer",
        "expires_at": "2026-11-16T10:00:00", "created_at": "2026-11-16T09:00:00",
    });
    std::fs::write(folder.join("tokens.json"), tokens.to_string()).unwrap();
    std::fs::write(folder.join(".encryption_key"), KEY).unwrap();
    let db = rusqlite::Connection::open(folder.join("whoop.db")).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch(
        "CREATE TABLE cycles (id TEXT PRIMARY KEY, updated_at TEXT, raw_json TEXT, flat_json TEXT);
         CREATE TABLE profile_snapshots (id TEXT PRIMARY KEY, raw_json TEXT, flat_json TEXT);",
    )
    .unwrap();
    for (id, raw) in fixture.upstream("cycle") {
        let flat = json!({"id": id, "start": "an old shape"}).to_string();
        db.execute(
            "INSERT INTO cycles VALUES (?1, ?2, ?3, ?4)",
            (&id, raw["updated_at"].as_str(), raw.to_string(), flat),
        )
        .unwrap();
    }
    let profile = json!({"user_id": 1, "email": "a@b.c", "first_name": "A", "last_name": "B"});
    db.execute("INSERT INTO profile_snapshots VALUES ('current', ?1, '{}')", [profile.to_string()])
        .unwrap();
    db
}

fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_python_servers_home_is_taken_over_and_not_touched() {
    let fixture = Fixture::new(30);
    let folder = fixture.folder.path().join("python");
    let open = python_home(&fixture, &folder);
    let before = contents(&folder);
    let local = |text: &str| when::instant_us(text);
    // A connected account is not replaced: its token may have been refreshed since.
    let taken = legacy::import(&fixture.ctx, &folder, None, &local).unwrap();
    assert_eq!(taken.login, LoginImport::KeptOurs);
    assert_eq!(contents(&folder), before, "not a byte of it changed");
    assert_eq!(taken.kinds["cycles"].written, fixture.upstream("cycle").len());
    assert_eq!(fixture.mirrored("cycles"), fixture.upstream("cycle"));
    let flat = &flats(&fixture, "cycles")[0];
    assert!(flat["start_utc"].is_string() && flat["start"] != "an old shape", "{flat}");
    assert_eq!(fixture.mirrored("profile")["current"]["first_name"], "A");

    fixture.ctx.accounts.lock("whoop").unwrap().wipe().unwrap();
    let taken = legacy::import(&fixture.ctx, &folder, None, &local).unwrap();
    assert_eq!(taken.login, LoginImport::Imported);
    let account = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    assert_eq!(account.refresh.unwrap().expose(), "hello");
    assert_eq!(account.expires_us, when::instant_us("2026-11-16T10:00:00Z"));
    assert_eq!(taken.kinds["cycles"].written, 0, "the records were here before");
    assert_eq!(contents(&folder), before);
    let left = || -> Vec<String> {
        std::fs::read_dir(fixture.folder.path().join("home"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains("import"))
            .collect()
    };
    assert_eq!(left(), [""; 0], "copies of health data stay nowhere");
    // A closed database has no WAL file.
    drop(open);
    legacy::import(&fixture.ctx, &folder, None, &local).unwrap();
    assert_eq!(left(), [""; 0], "nor SQLite's side files");
    let nothing = legacy::import(&fixture.ctx, &fixture.folder.path().join("empty"), None, &local);
    assert!(nothing.unwrap_err().to_string().contains("nothing of whoop-mcp"));
}

#[tokio::test]
async fn the_records_of_another_person_are_not_taken_in() {
    let fixture = Fixture::new(10);
    fixture.good().await;
    let before = fixture.ctx.records.newest_seq().unwrap();
    let folder = fixture.folder.path().join("python");
    let _open = python_home(&fixture, &folder);
    let refused = legacy::import(&fixture.ctx, &folder, None, &|text| when::instant_us(text));
    assert!(refused.unwrap_err().to_string().contains("another person"));
    assert_eq!(fixture.ctx.records.newest_seq().unwrap(), before);
}
