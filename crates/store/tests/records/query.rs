//! Queries: windows by instants, changes in order, SQL.

use std::ops::ControlFlow;

use proptest::prelude::*;
use store::records::{Cell, ChangeCursor, QueryOutput, SqlError, Window};

use super::fixture::{Fixture, NIGHTS, PROFILE, TestRecord, between};

fn filled() -> Fixture {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::new("cycles", "a", 0, Some(100)));
    fixture.store(&TestRecord::new("cycles", "b", 100, Some(200)));
    fixture.store(&TestRecord::new("cycles", "long", 50, Some(5_000)));
    fixture.store(&TestRecord::new("cycles", "open", 300, None));
    fixture
}

#[test]
fn a_window_holds_what_lies_partly_inside() {
    let fixture = filled();
    assert_eq!(fixture.ids("cycles", &between(0, 1_000)), ["a", "long", "b", "open"]);
    assert_eq!(fixture.ids("cycles", &between(100, 300)), ["long", "b"], "ends are not inside");
    assert_eq!(fixture.ids("cycles", &between(4_999, 9_000)), ["long", "open"]);
    assert_eq!(
        fixture.ids("cycles", &between(5_000, 9_000)),
        ["open"],
        "without an end it never ends"
    );
    let now = Window { open_end_us: Some(4_000), ..between(5_000, 9_000) };
    assert!(fixture.ids("cycles", &now).is_empty(), "an open record ends now");
    let newest = Window { newest_first: true, limit: Some(2), ..between(0, 1_000) };
    assert_eq!(fixture.ids("cycles", &newest), ["open", "b"]);
    let none = Window { limit: Some(0), ..between(0, 1_000) };
    assert!(fixture.ids("cycles", &none).is_empty());
}

#[test]
fn a_window_without_overlap_holds_what_starts_inside() {
    let fixture = filled();
    let starts = |from_us, to_us| Window { overlap: false, ..between(from_us, to_us) };
    assert_eq!(fixture.ids("cycles", &starts(50, 300)), ["long", "b"]);
    let from = Window { from_us: Some(100), ..Window::default() };
    assert_eq!(fixture.ids("cycles", &from), ["b", "open"]);
    assert_eq!(fixture.ids("cycles", &Window::default()).len(), 4);
    assert!(fixture.ids("sleeps", &Window::default()).is_empty());
}

#[test]
fn records_in_other_states_are_found_or_left_out() {
    let fixture = Fixture::new();
    fixture.store(&TestRecord::new("cycles", "a", 1, None).in_state("SCORED"));
    fixture.store(&TestRecord::new("cycles", "b", 2, None).in_state("PENDING_SCORE"));
    fixture.store(&TestRecord::new("cycles", "c", 3, None).in_state("UNSCORABLE"));
    fixture.store(&TestRecord::new("cycles", "d", 4, None));
    let found = fixture.records.unsettled("svc", "cycles", "SCORED").unwrap();
    assert_eq!(found.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["b", "c", "d"]);
    for window in [Window::default(), between(0, 9)] {
        let except = Window { except_state: Some("UNSCORABLE"), ..window };
        assert_eq!(fixture.ids("cycles", &except), ["a", "b", "d"], "no state is not that state");
    }
}

/// What a window should hold, said plainly.
fn expected(records: &[(i64, Option<i64>)], window: &Window) -> Vec<String> {
    let (from_us, to_us) = (window.from_us.unwrap(), window.to_us.unwrap());
    let mut inside: Vec<(i64, String)> = Vec::new();
    for (at, (start_us, end_us)) in records.iter().enumerate() {
        let ends_after = match end_us {
            Some(end_us) => *end_us > from_us,
            None => window.open_end_us.is_none_or(|open_end_us| open_end_us > from_us),
        };
        if ends_after && *start_us < to_us {
            inside.push((*start_us, format!("{at:03}")));
        }
    }
    inside.sort();
    if window.newest_first {
        inside.reverse();
    }
    inside.truncate(window.limit.unwrap_or(usize::MAX));
    inside.into_iter().map(|(_, id)| id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_window_by_index_finds_what_a_plain_walk_finds(
        records in prop::collection::vec((0_i64..500, prop::option::weighted(0.9, 0_i64..200)), 0..40),
        windows in prop::collection::vec((-50_i64..700, 0_i64..300, prop::option::of(0_usize..10),
            any::<bool>(), prop::option::of(0_i64..700)), 20),
    ) {
        let fixture = Fixture::new();
        let records: Vec<(i64, Option<i64>)> =
            records.into_iter().map(|(start, lasts)| (start, lasts.map(|us| start + us))).collect();
        let kept: Vec<TestRecord> = records.iter().enumerate()
            .map(|(at, (start, end))| TestRecord::new("cycles", &format!("{at:03}"), *start, *end)).collect();
        let page: Vec<_> = kept.iter().map(TestRecord::incoming).collect();
        fixture.records.upsert("svc", &page).unwrap();
        for (from_us, width, limit, newest_first, open_end_us) in windows {
            let window = Window { limit, newest_first, open_end_us, ..between(from_us, from_us + width) };
            prop_assert_eq!(fixture.ids("cycles", &window), expected(&records, &window));
        }
    }
}

#[test]
fn changes_come_in_order_and_ties_are_neither_lost_nor_repeated() {
    let fixture = Fixture::new();
    for (kind, id, at) in [
        ("sleeps", "s1", 5),
        ("cycles", "c2", 5),
        ("cycles", "c1", 5),
        ("cycles", "c3", 4),
        ("workouts", "w", 6),
        ("sleeps", "s0", 7),
    ] {
        fixture.store(&TestRecord::new(kind, id, 0, None).version(at, "x"));
    }
    let kinds = ["workouts", "sleeps", "cycles", "cycles", "unknown"];
    let mut seen = Vec::new();
    let mut after = (i64::MIN, String::new(), String::new());
    loop {
        let place = ChangeCursor { updated_us: after.0, kind: &after.1, id: &after.2 };
        let rows = fixture.records.changes("svc", &kinds, place, 7, 2).unwrap();
        let Some(last) = rows.last() else { break };
        after = (last.updated_us, last.kind.clone(), last.id.clone());
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(seen, ["c3", "c1", "c2", "s1", "w"], "before 7 is not at 7");
    let ids = |after| {
        let rows = fixture.records.changes("svc", &kinds, after, 99, 10).unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(ChangeCursor::instant(5)), ["w", "s0"]);
    assert_eq!(
        ids(ChangeCursor { updated_us: 5, kind: "cycles", id: "c1" }),
        ["c2", "s1", "w", "s0"]
    );
    assert_eq!(ids(ChangeCursor { updated_us: 5, kind: "d", id: "" }), ["s1", "w", "s0"]);
}

fn run_sql(fixture: &Fixture, query: &str) -> Result<(Vec<String>, Vec<Vec<Cell>>), SqlError> {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    fixture.records.sql(query, |output| {
        match output {
            QueryOutput::Columns(names) => columns = names.to_vec(),
            QueryOutput::Row(cells) => rows.push(cells.to_vec()),
        }
        Ok::<_, SqlError>(ControlFlow::Continue(()))
    })?;
    Ok((columns, rows))
}

fn with_nights() -> Fixture {
    let fixture = Fixture::new();
    let mut night = TestRecord::new("nights", "1", 0, Some(10));
    night.flat = r#"{"id":1,"start_utc":"2026","nap":true,"score":57.0,"need":{"base_seconds":1.5,"debt_seconds":null},"words":"é"}"#.into();
    fixture.store(&night);
    fixture.store(&TestRecord::new("nights", "2", 5, Some(10)).in_state("INVALID"));
    fixture.records.declare(&[&NIGHTS, &PROFILE]).unwrap();
    fixture
}

#[test]
fn views_show_typed_columns_and_the_members_of_objects() {
    let fixture = with_nights();
    let (columns, rows) = run_sql(&fixture, "select * from svc_nights").unwrap();
    assert_eq!(
        columns,
        [
            "id",
            "start_utc",
            "nap",
            "score",
            "need",
            "need_base_seconds",
            "need_debt_seconds",
            "words"
        ]
    );
    assert_eq!(columns, NIGHTS.sql_columns());
    let text = |text: &str| Cell::Text(text.into());
    assert_eq!(
        rows,
        [[
            Cell::Integer(1),
            text("2026"),
            Cell::Integer(1),
            Cell::Real(57.0),
            text(r#"{"base_seconds":1.5,"debt_seconds":null}"#),
            Cell::Real(1.5),
            Cell::Null,
            text("é"),
        ]]
    );
    let views = fixture.records.views().unwrap();
    assert_eq!(views[0], ("svc_nights".into(), NIGHTS.sql_columns()));
    assert_eq!(views[1], ("svc_profile".into(), vec!["email".into()]));
    fixture.records.declare(&[&NIGHTS, &PROFILE]).unwrap();
    let before = super::fixture::lasting_bytes_of(fixture.home.path());
    fixture.second().declare(&[&NIGHTS, &PROFILE]).unwrap();
    assert!(
        before == super::fixture::lasting_bytes_of(fixture.home.path()),
        "declared alike: nothing is written"
    );
}

#[test]
fn sql_can_only_read() {
    let fixture = with_nights();
    let before = super::fixture::lasting_bytes_of(fixture.home.path());
    for query in [
        "delete from record",
        "update record set raw = ''",
        "insert into meta values (2, 2)",
        "drop view svc_nights",
        "create table t (x)",
        "attach database 'x.db' as x",
        "attach database ':memory:' as x",
        "pragma user_version = 9",
        "pragma query_only = 0",
        "vacuum",
        "vacuum into 'copy.db'",
        "begin",
        "reindex",
        "analyze",
        "pragma journal_mode = delete",
        "with x as (select 1) delete from record",
        "select load_extension('x')",
        "",
    ] {
        let error = run_sql(&fixture, query).unwrap_err();
        assert!(!matches!(error, SqlError::Records(_)), "{query}: {error}");
        assert!(error.to_string().contains("hint: "), "{query}: {error}");
    }
    assert!(matches!(
        run_sql(&fixture, "select 1; delete from record"),
        Err(SqlError::MultipleStatements)
    ));
    let error = run_sql(&fixture, "select nope from svc_nights").unwrap_err().to_string();
    assert!(error.contains("no such column: nope"), "{error}");
    assert!(
        before == super::fixture::lasting_bytes_of(fixture.home.path()),
        "not a byte was changed"
    );
    let (_, rows) = run_sql(&fixture, "with recursive n(x) as (select 1 union all select x + 1 from n where x < 5) select sum(x) from n").unwrap();
    assert_eq!(rows, [[Cell::Integer(15)]]);
}

#[test]
fn a_query_stops_when_the_caller_stops() {
    let fixture = with_nights();
    let mut rows = 0;
    let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n";
    fixture
        .records
        .sql(endless, |output| {
            rows += usize::from(matches!(output, QueryOutput::Row(_)));
            Ok::<_, SqlError>(if rows < 3 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })
        .unwrap();
    assert_eq!(rows, 3);
}
