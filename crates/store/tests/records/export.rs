//! Exported files byte for byte, and the order in which a request is checked.

use std::fs;
use std::path::Path;

use parquet::basic::{Compression as Packing, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::json;
use store::export::{
    Compression, CsvSafety, ExportError, ExportJob, ExportOptions, ExportResult, PathScope, day,
};

use super::fixture::{DAY_US, EXPORTS, Fixture, NOW_US, TestRecord};

const NIGHTS: [(&str, i64, Option<i64>, &str); 3] = [
    (
        "1",
        0,
        Some(100),
        r#"{"id":1,"start_utc":"2026-04-14T00:00:00.000Z","nap":true,"score":57.0,"need":{"debt_seconds":1e-5,"base_seconds":27120.0},"words":"é, \"q\""}"#,
    ),
    (
        "2",
        DAY_US,
        Some(DAY_US + 9),
        r#"{"id":2,"start_utc":null,"nap":false,"score":-0.0,"need":null,"words":"=1+1\n@x"}"#,
    ),
    (
        "3",
        2 * DAY_US,
        None,
        r#"{"id":3,"start_utc":"x","nap":null,"score":null,"need":{"base_seconds":null,"debt_seconds":2.5},"words":""}"#,
    ),
];

pub(crate) fn filled() -> Fixture {
    let fixture = Fixture::new();
    for (id, start_us, end_us, flat) in NIGHTS {
        fixture.store(&TestRecord {
            flat: flat.into(),
            ..TestRecord::new("nights", id, start_us, end_us)
        });
    }
    fixture.store(&TestRecord::new("nights", "bad", 5, Some(6)).in_state("INVALID"));
    let profile = TestRecord::new("profile", "current", 0, None);
    fixture.store(&TestRecord { start_us: None, flat: r#"{"email":"a@b"}"#.into(), ..profile });
    fixture
}

fn order<'a>(path: &'a str, base: &'a Path) -> ExportOptions<'a> {
    ExportOptions {
        path,
        from_us: None,
        to_us: None,
        now_us: NOW_US,
        overwrite: false,
        csv: CsvSafety::AsIs,
        compression: Compression::Snappy,
        reach: PathScope::Anywhere { base, tilde: Some(base) },
    }
}

fn export(
    fixture: &Fixture,
    kind: &str,
    format: &str,
    order: &ExportOptions<'_>,
) -> Result<ExportResult, ExportError> {
    ExportJob::new(&EXPORTS, kind, format)?.write(&fixture.records, order, &mut |_| {})
}

fn written(
    fixture: &Fixture,
    format: &str,
    change: impl FnOnce(&mut ExportOptions<'_>),
) -> Vec<u8> {
    let mut order = order("out", fixture.folder.path());
    order.overwrite = true;
    change(&mut order);
    let done = export(fixture, "nights", format, &order).unwrap();
    let bytes = fs::read(fixture.path("out")).unwrap();
    assert_eq!(done.files[0].bytes, bytes.len() as u64);
    assert_eq!(platform::private::bits(&fs::metadata(fixture.path("out")).unwrap()), 0o600);
    bytes
}

#[test]
fn csv_is_written_as_documented() {
    let fixture = filled();
    let expected = "id,nap,need,score,start_utc,words\r\n\
        1,True,\"{\"\"base_seconds\"\": 27120.0, \"\"debt_seconds\"\": 1e-05}\",57.0,2026-04-14T00:00:00.000Z,\"é, \"\"q\"\"\"\r\n\
        2,False,,-0.0,,\"=1+1\n@x\"\r\n\
        3,,\"{\"\"base_seconds\"\": null, \"\"debt_seconds\"\": 2.5}\",,x,\r\n";
    assert_eq!(String::from_utf8(written(&fixture, "csv", |_| {})).unwrap(), expected);
    let safe = String::from_utf8(written(&fixture, "csv", |order| order.csv = CsvSafety::Neutral))
        .unwrap();
    assert_eq!(safe, expected.replace("=1+1\n@x", "'=1+1\n'@x"), "numbers stay numbers");
    let empty = written(&fixture, "csv", |order| order.from_us = Some(NOW_US + 1));
    assert_eq!(empty, b"id,nap,need,score,start_utc,words\r\n", "a header even without rows");
}

#[test]
fn jsonl_is_written_as_documented() {
    let fixture = filled();
    let expected = concat!(
        r#"{"id": 1, "nap": true, "need": {"base_seconds": 27120.0, "debt_seconds": 1e-05}, "score": 57.0, "start_utc": "2026-04-14T00:00:00.000Z", "words": "\u00e9, \"q\""}"#,
        "\n",
        r#"{"id": 2, "nap": false, "need": null, "score": -0.0, "start_utc": null, "words": "=1+1\n@x"}"#,
        "\n",
        r#"{"id": 3, "nap": null, "need": {"base_seconds": null, "debt_seconds": 2.5}, "score": null, "start_utc": "x", "words": ""}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(written(&fixture, "jsonl", |_| {})).unwrap(), expected);
    assert_eq!(written(&fixture, "jsonl", |order| order.from_us = Some(NOW_US + 1)), b"");
}

#[test]
fn parquet_has_the_declared_types_whatever_the_rows_hold() {
    let fixture = filled();
    for (compression, packing) in [(Compression::Snappy, "SNAPPY"), (Compression::Zstd, "ZSTD")] {
        let bytes = written(&fixture, "parquet", |order| order.compression = compression);
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let meta = reader.metadata();
        assert_eq!(meta.file_metadata().num_rows(), 3);
        let column = meta.row_group(0).column(0);
        assert!(
            format!("{:?}", column.compression()).starts_with(packing),
            "{:?}",
            column.compression()
        );
        assert_ne!(column.compression(), Packing::UNCOMPRESSED);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let row = |at: usize| {
            rows[at]
                .get_column_iter()
                .map(|(name, field)| (name.clone(), field.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(row(0)[0], ("id".into(), Field::Long(1)));
        assert_eq!(row(0)[1], ("start_utc".into(), Field::Str("2026-04-14T00:00:00.000Z".into())));
        assert_eq!(row(0)[2].1, Field::Bool(true));
        assert_eq!(row(0)[3].1, Field::Double(57.0));
        assert_eq!(row(0)[4].1.to_string(), "{base_seconds: 27120.0, debt_seconds: 0.00001}");
        assert_eq!(row(0)[5].1, Field::Str("é, \"q\"".into()));
        assert_eq!(row(1)[4].1, Field::Null);
        assert_eq!(row(2)[4].1.to_string(), "{base_seconds: null, debt_seconds: 2.5}");
        assert_eq!(row(2)[5].1, Field::Str(String::new()));
    }
    let none = written(&fixture, "parquet", |order| order.from_us = Some(NOW_US + 1));
    let reader = SerializedFileReader::new(bytes::Bytes::from(none)).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    assert_eq!(schema.num_columns(), 7, "columns even without rows");
    assert_eq!(schema.column(3).physical_type(), Type::DOUBLE);
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn many_rows_become_several_groups() {
    let fixture = Fixture::new();
    let kept: Vec<TestRecord> = (0..20_000)
        .map(|n| TestRecord {
            flat: format!(r#"{{"id":{n},"start_utc":"t{n}","nap":false,"score":{n}.5,"need":null,"words":"w"}}"#),
            ..TestRecord::new("nights", &format!("{n}"), n, Some(n + 1))
        })
        .collect();
    let page: Vec<_> = kept.iter().map(TestRecord::incoming).collect();
    fixture.records.upsert("svc", &page).unwrap();
    let bytes = written(&fixture, "parquet", |_| {});
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    assert_eq!(reader.num_row_groups(), 3);
    let ids: Vec<i64> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| match row.unwrap().get_column_iter().next().unwrap().1 {
            Field::Long(id) => *id,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(ids, (0..20_000).collect::<Vec<_>>());
}

#[test]
fn a_window_counts_both_its_ends() {
    let fixture = filled();
    let ids = |from_us, to_us| {
        let lines = written(&fixture, "jsonl", |order| {
            (order.from_us, order.to_us) = (Some(from_us), Some(to_us));
        });
        String::from_utf8(lines)
            .unwrap()
            .lines()
            .map(|line| line[7..8].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(100, DAY_US), ["1"], "it ends at the first instant");
    assert_eq!(ids(101, DAY_US), [""; 0]);
    assert_eq!(ids(101, DAY_US + 1), ["2"]);
    assert_eq!(ids(DAY_US + 10, NOW_US), ["3"], "an open record reaches to now");
    assert_eq!(ids(NOW_US + 2, NOW_US + DAY_US), [""; 0], "and not further");
}

#[test]
fn the_answer_has_the_documented_shape() {
    let fixture = filled();
    let order = order("all", fixture.folder.path());
    let done = export(&fixture, "all", "csv", &order).unwrap();
    let saved_to = |file: &str| fixture.path("all").join(file).display().to_string();
    let bytes = |file: &str| fs::metadata(fixture.path("all").join(file)).unwrap().len();
    assert_eq!(
        done.value(Some("2026-04-01"), None),
        json!({
            "status": "success", "kind": "all", "format": "csv",
            "files": [
                {"resource": "nights", "path": "all/nights.csv", "records": 3, "bytes": bytes("nights.csv"), "saved_to": saved_to("nights.csv")},
                {"resource": "profiles", "path": "all/profiles.csv", "records": 1, "bytes": bytes("profiles.csv"), "saved_to": saved_to("profiles.csv")},
            ],
            "range": {"start": "2026-04-01", "end": null}, "warnings": [],
        })
    );
    assert_eq!(fs::read_to_string(fixture.path("all/profiles.csv")).unwrap(), "email\r\na@b\r\n");
}

#[test]
fn days_are_whole_and_strictly_written() {
    assert_eq!(day("1970-01-02"), Some((DAY_US, 2 * DAY_US)));
    for text in ["2026-4-9", "2026-13-01", "2026-02-30", "", "20260401", "2026-04-01T00:00"] {
        assert_eq!(day(text), None, "{text}");
    }
}

#[test]
fn a_request_is_checked_in_the_documented_order() {
    let fixture = filled();
    let empty = Fixture::new();
    fs::write(fixture.path("taken"), "x").unwrap();
    fs::write(fixture.path("blank"), "").unwrap();
    fs::create_dir(fixture.path("folder")).unwrap();
    fs::create_dir(fixture.path("full")).unwrap();
    fs::write(fixture.path("full/other"), "x").unwrap();
    let base = fixture.folder.path();
    let code = |on: &Fixture, kind, format, path, overwrite| {
        let order = ExportOptions { overwrite, ..order(path, base) };
        export(on, kind, format, &order).map_or_else(|fault| fault.code(), |_| "done")
    };
    let cases = [
        (&fixture, "nope", "nope", "taken", false, "VALIDATION_ERROR"),
        (&fixture, "nights", "nope", "taken", false, "VALIDATION_ERROR"),
        (&fixture, "profile", "csv", "new", false, "VALIDATION_ERROR"),
        (&empty, "nights", "csv", "taken", false, "CACHE_EMPTY"),
        (&fixture, "nights", "csv", "taken", false, "FILE_EXISTS"),
        (&fixture, "nights", "csv", "taken", true, "done"),
        (&fixture, "nights", "csv", "blank", false, "done"),
        (&fixture, "nights", "csv", "full", false, "FILE_EXISTS"),
        (&fixture, "nights", "csv", "full", true, "EXPORT_ERROR"),
        (&fixture, "nights", "csv", "folder", false, "EXPORT_ERROR"),
        (&fixture, "nights", "csv", "deep/er/new", false, "done"),
        (&fixture, "nights", "csv", "taken/x", false, "EXPORT_ERROR"),
        (&fixture, "nights", "csv", "", false, "EXPORT_ERROR"),
        (&empty, "all", "csv", "full", false, "FILE_EXISTS"),
        (&empty, "all", "csv", "none", false, "CACHE_EMPTY"),
        (&fixture, "all", "csv", "taken", true, "EXPORT_ERROR"),
        (&fixture, "all", "csv", "folder", false, "done"),
        (&fixture, "all", "csv", "folder", false, "FILE_EXISTS"),
        (&fixture, "all", "csv", "folder", true, "done"),
        (&fixture, "all", "csv", "full", true, "done"),
    ];
    for (on, kind, format, path, overwrite, expected) in cases {
        assert_eq!(code(on, kind, format, path, overwrite), expected, "{kind} {format} {path}");
    }
    assert!(!fixture.path("none").exists(), "nothing is left behind");
    assert_eq!(fs::read_to_string(fixture.path("full/other")).unwrap(), "x");
    assert!(!Path::new("~").exists());
    let home = ExportOptions { path: "~/tilde.csv", ..order("", base) };
    export(&fixture, "nights", "csv", &home).unwrap();
    assert!(fixture.path("tilde.csv").exists());
}

#[test]
fn a_record_that_does_not_fit_its_column_leaves_no_file() {
    let fixture = filled();
    let odd = TestRecord::new("nights", "4", 0, Some(1));
    fixture.store(&TestRecord { flat: r#"{"id":"four","score":1.0}"#.into(), ..odd });
    let base = fixture.folder.path();
    let fault = export(&fixture, "nights", "parquet", &order("out", base)).unwrap_err();
    assert_eq!(fault.code(), "EXPORT_ERROR");
    assert!(fault.to_string().contains("not a whole number"), "{fault}");
    let left: Vec<_> =
        fs::read_dir(base).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["home"]);
}
