//! Stored records: the newer version wins, the same page again changes nothing, deletions leave tombstones.

use store::records::{ARCHIVED, Derived, Incoming, RunEnd, Upserted, Window};

use super::fixture::{DAY_US, Fixture, TestRecord, between};

const INSERTED: Upserted = Upserted { inserted: 1, replaced: 0, unchanged: 0 };
const REPLACED: Upserted = Upserted { inserted: 0, replaced: 1, unchanged: 0 };
const UNCHANGED: Upserted = Upserted { inserted: 0, replaced: 0, unchanged: 1 };

#[test]
fn the_newer_version_wins_and_equal_stamps_with_other_content_count_as_newer() {
    let fixture = Fixture::new();
    let record = TestRecord::new("cycles", "7", 0, Some(10));
    assert_eq!(fixture.store(&record.clone().version(5, "five")), INSERTED);
    assert_eq!(fixture.store(&record.clone().version(5, "five")), UNCHANGED);
    assert_eq!(fixture.store(&record.clone().version(4, "older")), UNCHANGED);
    assert_eq!(fixture.store(&record.clone().version(6, "six")), REPLACED);
    assert_eq!(fixture.store(&record.version(6, "six again")), REPLACED);
    let row = fixture.records.one("svc", "cycles", "7").unwrap().unwrap();
    assert_eq!(row.raw, r#"{"id":"7","at":6,"words":"six again"}"#);
    assert_eq!((row.updated.as_str(), row.updated_us, row.seq), ("at 6", 6, 3));
    assert_eq!(fixture.records.newest_updated("svc", "cycles").unwrap(), Some(("at 6".into(), 6)));
}

#[test]
fn a_new_timestamp_on_the_same_content_is_not_a_change() {
    let fixture = Fixture::new();
    let snapshot = |updated_us, raw| Incoming {
        kind: "profile",
        id: "current",
        updated: "now",
        updated_us,
        raw,
        flat: "{}",
        ..Incoming::default()
    };
    let keep = |incoming| fixture.records.upsert("svc", &[incoming]).unwrap();
    assert_eq!(keep(snapshot(1, r#"{"a":1,"b":2}"#)), INSERTED);
    assert_eq!(keep(snapshot(2, r#"{"a":1,"b":2}"#)), UNCHANGED);
    assert_eq!(keep(snapshot(3, r#"{ "b": 2, "a": 1 }"#)), UNCHANGED);
    assert_eq!(fixture.records.one("svc", "profile", "current").unwrap().unwrap().updated_us, 1);
    assert_eq!(keep(snapshot(4, r#"{"a":1,"b":2.5}"#)), REPLACED);
}

#[test]
fn another_shape_of_the_same_record_is_kept_without_counting_as_a_change() {
    let fixture = Fixture::new();
    let mut record = TestRecord::new("cycles", "7", 0, Some(10));
    fixture.store(&record);
    record.flat = r#"{"id":7}"#.into();
    record.state = Some("SCORED".into());
    assert_eq!(fixture.store(&record), UNCHANGED);
    let row = fixture.records.one("svc", "cycles", "7").unwrap().unwrap();
    assert_eq!(
        (row.flat.as_str(), row.state.as_deref(), row.seq),
        (r#"{"id":7}"#, Some("SCORED"), 1)
    );
}

#[test]
fn a_page_may_hold_several_kinds() {
    let fixture = Fixture::new();
    let cycle = TestRecord::new("cycles", "1", 0, Some(10));
    let recovery = TestRecord::following("recoveries", "1", "1");
    let page = [recovery.incoming(), cycle.incoming()];
    assert_eq!(fixture.records.upsert("svc", &page).unwrap().inserted, 2);
    assert_eq!(fixture.ids("recoveries", &between(0, 5)), ["1"], "whichever comes first");
    assert_eq!(fixture.records.count("svc", "cycles").unwrap(), 1);
    let counts = fixture.records.counts("svc").unwrap();
    assert_eq!(counts, [("cycles".into(), 1), ("recoveries".into(), 1)]);
    assert_eq!(fixture.records.services().unwrap(), ["svc"]);
    assert_eq!(fixture.records.upsert("svc", &[]).unwrap(), Upserted::default());
}

#[test]
fn records_without_times_take_those_of_their_parent_whenever_it_comes() {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::following("recoveries", "r1", "c1"));
    assert!(fixture.ids("recoveries", &between(0, DAY_US)).is_empty(), "no place in time yet");
    assert_eq!(fixture.ids("recoveries", &Window::default()), ["r1"]);

    fixture.store(&TestRecord::new("cycles", "c1", 100, None));
    assert_eq!(fixture.ids("recoveries", &between(50, 200)), ["r1"]);
    let open = Window { open_end_us: Some(60), ..between(70, 200) };
    assert!(fixture.ids("recoveries", &open).is_empty(), "as open as its cycle");

    fixture.store(&TestRecord::new("cycles", "c1", 100, Some(150)).version(2, "ended"));
    assert!(fixture.ids("recoveries", &between(150, 200)).is_empty());
    fixture.store(&TestRecord::following("recoveries", "r1", "c1").version(9, "again"));
    let row = fixture.records.one("svc", "recoveries", "r1").unwrap().unwrap();
    assert_eq!((row.start_us, row.end_us), (Some(100), Some(150)));
    fixture.store(&TestRecord::following("recoveries", "r2", "c1"));
    assert_eq!(fixture.records.by_parent("svc", "recoveries", "c1").unwrap().len(), 2);
}

#[test]
fn deletions_leave_a_note_until_the_record_comes_back() {
    let fixture = Fixture::new();
    let record = TestRecord::new("cycles", "7", 0, Some(10));
    fixture.store(&record);
    let ids = ["7".to_owned(), "unknown".to_owned()];
    assert_eq!(fixture.records.remove("svc", "cycles", &ids, 99).unwrap(), 1);
    assert_eq!(fixture.records.one("svc", "cycles", "7").unwrap(), None);
    let gone = fixture.records.deleted_since("svc", &["cycles"], 0, 10).unwrap();
    assert_eq!((gone[0].id.as_str(), gone[0].seq, gone[0].at_us, gone.len()), ("7", 2, 99, 1));
    assert_eq!(fixture.records.remove("svc", "cycles", &ids, 100).unwrap(), 0);

    assert_eq!(fixture.store(&record), INSERTED);
    assert!(fixture.records.deleted_since("svc", &["cycles"], 0, 10).unwrap().is_empty());
    let since = fixture.records.changes_since("svc", &["cycles"], 2, 10).unwrap();
    assert_eq!(since[0].seq, 3);
    assert_eq!(fixture.records.newest_seq().unwrap(), 3);
}

#[test]
fn archived_records_yield_to_synced_ones_and_restore_none() {
    let fixture = Fixture::new();
    let archived = |words| {
        let mut record = TestRecord::new("saved", "7", 0, Some(10)).version(50, words);
        record.state = Some(ARCHIVED.into());
        record
    };
    let shown = TestRecord::new("saved", "7", 0, Some(10)).version(5, "in full");
    assert_eq!(fixture.store(&archived("brief")), INSERTED);
    assert_eq!(fixture.store(&archived("less brief")), REPLACED);
    assert_eq!(fixture.store(&shown), REPLACED, "although its stamp is older");
    assert_eq!(fixture.store(&archived("brief")), UNCHANGED);
    let row = fixture.records.one("svc", "saved", "7").unwrap().unwrap();
    assert!(row.raw.contains("in full") && row.state.is_none(), "{}", row.raw);
    fixture.records.remove("svc", "saved", &["7".to_owned()], 99).unwrap();
    assert_eq!(fixture.store(&archived("brief")), UNCHANGED);
    assert_eq!(fixture.records.one("svc", "saved", "7").unwrap(), None);
    assert_eq!(fixture.store(&shown), INSERTED, "the service itself may bring it back");
}

#[test]
fn windows_that_were_fetched_are_joined_where_they_meet() {
    let fixture = Fixture::new();
    let records = &fixture.records;
    let cover = |from_us, to_us| records.cover("svc", "cycles", from_us, to_us).unwrap();
    assert!(records.coverage("svc", "cycles").unwrap().is_empty());
    cover(10, 20);
    cover(40, 50);
    cover(5, 5);
    assert_eq!(records.coverage("svc", "cycles").unwrap(), [(10, 20), (40, 50)]);
    cover(20, 30);
    assert_eq!(records.coverage("svc", "cycles").unwrap(), [(10, 30), (40, 50)]);
    assert!(records.is_covered("svc", "cycles", 10, 30).unwrap());
    assert!(!records.is_covered("svc", "cycles", 10, 31).unwrap());
    assert!(!records.is_covered("svc", "cycles", 25, 45).unwrap());
    assert!(!records.is_covered("svc", "sleeps", 10, 20).unwrap());
    cover(0, 100);
    assert_eq!(records.coverage("svc", "cycles").unwrap(), [(0, 100)]);
    cover(10, 20);
    assert_eq!(records.coverage("svc", "cycles").unwrap(), [(0, 100)]);
    records.uncover("svc", "cycles").unwrap();
    assert!(records.coverage("svc", "cycles").unwrap().is_empty());
}

#[test]
fn runs_and_small_values_are_there_for_the_next_process() {
    let fixture = Fixture::new();
    let first = fixture.records.run_begin("svc", "cycles", 1, None).unwrap();
    let second = fixture.records.run_begin("svc", "sleeps", 2, Some("2010")).unwrap();
    let end =
        RunEnd { completed_us: 5, status: "success", fetched: 9, upserted: 7, ..RunEnd::default() };
    fixture.records.run_end(first, &end).unwrap();
    let other = fixture.second();
    let runs = other.runs("svc", 10).unwrap();
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [second, first]);
    assert_eq!((runs[0].status.as_str(), runs[0].since.as_deref()), ("running", Some("2010")));
    assert_eq!((runs[1].fetched, runs[1].upserted, runs[1].completed_us), (9, 7, Some(5)));
    assert_eq!(other.runs("svc", 1).unwrap().len(), 1);
    assert!(other.runs("other", 10).unwrap().is_empty());

    fixture.records.state_put("svc", "at", "page 3").unwrap();
    fixture.records.state_put("svc", "at", "page 4").unwrap();
    assert_eq!(other.state_get("svc", "at").unwrap().as_deref(), Some("page 4"));
    fixture.records.state_drop("svc", "at").unwrap();
    assert_eq!(other.state_get("svc", "at").unwrap(), None);
}

#[test]
fn a_newer_shape_is_derived_from_what_is_here_once() {
    let fixture = Fixture::new();
    for n in 0..1200 {
        fixture.store(&TestRecord::new("cycles", &format!("c{n}"), n * 100, Some(n * 100 + 50)));
    }
    fixture.store(&TestRecord::following("recoveries", "r", "c3"));
    let shape = |kind: &str, raw: &str| {
        assert!(raw.starts_with(r#"{"id":""#));
        (kind == "cycles" && !raw.contains(r#""c5""#)).then(|| Derived {
            start_us: Some(7),
            end_us: Some(1_000_007),
            flat: r#"{"v":2}"#.into(),
            ..Derived::default()
        })
    };
    assert_eq!(fixture.records.reshape("svc", 2, shape).unwrap(), 1199);
    assert_eq!(fixture.records.reshape("svc", 2, shape).unwrap(), 0, "once is enough");
    let row = |kind, id| fixture.records.one("svc", kind, id).unwrap().unwrap();
    assert_eq!(
        (row("cycles", "c9").flat.as_str(), row("cycles", "c9").start_us),
        (r#"{"v":2}"#, Some(7))
    );
    assert_eq!(row("cycles", "c5").start_us, Some(500), "what cannot be shaped stays");
    assert_eq!(row("recoveries", "r").end_us, Some(1_000_007), "its cycle has moved");
    assert_eq!(
        fixture.ids("cycles", &between(1_000_000, 1_000_001)).len(),
        1199,
        "found at its new place"
    );
}
