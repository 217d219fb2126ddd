//! What is taken out, byte for byte, and the order in which an order is checked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parquet::basic::{Compression as Packing, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::json;
use store::export::{Compression, CsvSafety, Done, Fault, Order, Plan, Reach, day};

use super::stage::{DAY_US, NOW_US, Record, SHELF, Stage};

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

pub(crate) fn filled() -> Stage {
    let stage = Stage::new();
    for (id, start_us, end_us, flat) in NIGHTS {
        stage.keep(&Record { flat: flat.into(), ..Record::new("nights", id, start_us, end_us) });
    }
    stage.keep(&Record::new("nights", "bad", 5, Some(6)).in_state("INVALID"));
    let profile = Record::new("profile", "current", 0, None);
    stage.keep(&Record { start_us: None, flat: r#"{"email":"a@b"}"#.into(), ..profile });
    stage
}

fn order<'a>(path: &'a str, base: &'a Path) -> Order<'a> {
    Order {
        path,
        from_us: None,
        to_us: None,
        now_us: NOW_US,
        overwrite: false,
        csv: CsvSafety::AsIs,
        compression: Compression::Snappy,
        reach: Reach::Anywhere { base, tilde: Some(base) },
    }
}

fn export(stage: &Stage, kind: &str, format: &str, order: &Order<'_>) -> Result<Done, Fault> {
    Plan::new(&SHELF, kind, format)?.write(&stage.records, order, &mut |_| {})
}

fn written(stage: &Stage, format: &str, change: impl FnOnce(&mut Order<'_>)) -> Vec<u8> {
    let mut order = order("out", stage.folder.path());
    order.overwrite = true;
    change(&mut order);
    let done = export(stage, "nights", format, &order).unwrap();
    let bytes = fs::read(stage.path("out")).unwrap();
    assert_eq!(done.files[0].bytes, bytes.len() as u64);
    assert_eq!(fs::metadata(stage.path("out")).unwrap().mode() & 0o777, 0o600);
    bytes
}

#[test]
fn csv_is_written_as_documented() {
    let stage = filled();
    let expected = "id,nap,need,score,start_utc,words\r\n\
        1,True,\"{\"\"base_seconds\"\": 27120.0, \"\"debt_seconds\"\": 1e-05}\",57.0,2026-04-14T00:00:00.000Z,\"é, \"\"q\"\"\"\r\n\
        2,False,,-0.0,,\"=1+1\n@x\"\r\n\
        3,,\"{\"\"base_seconds\"\": null, \"\"debt_seconds\"\": 2.5}\",,x,\r\n";
    assert_eq!(String::from_utf8(written(&stage, "csv", |_| {})).unwrap(), expected);
    let safe =
        String::from_utf8(written(&stage, "csv", |order| order.csv = CsvSafety::Neutral)).unwrap();
    assert_eq!(safe, expected.replace("=1+1\n@x", "'=1+1\n'@x"), "numbers stay numbers");
    let empty = written(&stage, "csv", |order| order.from_us = Some(NOW_US + 1));
    assert_eq!(empty, b"id,nap,need,score,start_utc,words\r\n", "a header even without rows");
}

#[test]
fn jsonl_is_written_as_documented() {
    let stage = filled();
    let expected = concat!(
        r#"{"id": 1, "nap": true, "need": {"base_seconds": 27120.0, "debt_seconds": 1e-05}, "score": 57.0, "start_utc": "2026-04-14T00:00:00.000Z", "words": "\u00e9, \"q\""}"#,
        "\n",
        r#"{"id": 2, "nap": false, "need": null, "score": -0.0, "start_utc": null, "words": "=1+1\n@x"}"#,
        "\n",
        r#"{"id": 3, "nap": null, "need": {"base_seconds": null, "debt_seconds": 2.5}, "score": null, "start_utc": "x", "words": ""}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(written(&stage, "jsonl", |_| {})).unwrap(), expected);
    assert_eq!(written(&stage, "jsonl", |order| order.from_us = Some(NOW_US + 1)), b"");
}

#[test]
fn parquet_has_the_declared_types_whatever_the_rows_hold() {
    let stage = filled();
    for (compression, packing) in [(Compression::Snappy, "SNAPPY"), (Compression::Zstd, "ZSTD")] {
        let bytes = written(&stage, "parquet", |order| order.compression = compression);
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
    let none = written(&stage, "parquet", |order| order.from_us = Some(NOW_US + 1));
    let reader = SerializedFileReader::new(bytes::Bytes::from(none)).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    assert_eq!(schema.num_columns(), 7, "columns even without rows");
    assert_eq!(schema.column(3).physical_type(), Type::DOUBLE);
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn many_rows_become_several_groups() {
    let stage = Stage::new();
    let kept: Vec<Record> = (0..20_000)
        .map(|n| Record {
            flat: format!(r#"{{"id":{n},"start_utc":"t{n}","nap":false,"score":{n}.5,"need":null,"words":"w"}}"#),
            ..Record::new("nights", &format!("{n}"), n, Some(n + 1))
        })
        .collect();
    let page: Vec<_> = kept.iter().map(Record::incoming).collect();
    stage.records.keep("svc", &page).unwrap();
    let bytes = written(&stage, "parquet", |_| {});
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
    let stage = filled();
    let ids = |from_us, to_us| {
        let lines = written(&stage, "jsonl", |order| {
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
    let stage = filled();
    let order = order("all", stage.folder.path());
    let done = export(&stage, "all", "csv", &order).unwrap();
    let saved_to = |file: &str| stage.path("all").join(file).display().to_string();
    let bytes = |file: &str| fs::metadata(stage.path("all").join(file)).unwrap().len();
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
    assert_eq!(fs::read_to_string(stage.path("all/profiles.csv")).unwrap(), "email\r\na@b\r\n");
}

#[test]
fn days_are_whole_and_strictly_written() {
    assert_eq!(day("1970-01-02"), Some((DAY_US, 2 * DAY_US)));
    for text in ["2026-4-9", "2026-13-01", "2026-02-30", "", "20260401", "2026-04-01T00:00"] {
        assert_eq!(day(text), None, "{text}");
    }
}

#[test]
fn an_order_is_checked_in_the_documented_order() {
    let stage = filled();
    let empty = Stage::new();
    fs::write(stage.path("taken"), "x").unwrap();
    fs::write(stage.path("blank"), "").unwrap();
    fs::create_dir(stage.path("folder")).unwrap();
    fs::create_dir(stage.path("full")).unwrap();
    fs::write(stage.path("full/other"), "x").unwrap();
    let base = stage.folder.path();
    let code = |on: &Stage, kind, format, path, overwrite| {
        let order = Order { overwrite, ..order(path, base) };
        export(on, kind, format, &order).map_or_else(|fault| fault.code(), |_| "done")
    };
    let cases = [
        (&stage, "nope", "nope", "taken", false, "VALIDATION_ERROR"),
        (&stage, "nights", "nope", "taken", false, "VALIDATION_ERROR"),
        (&stage, "profile", "csv", "new", false, "VALIDATION_ERROR"),
        (&empty, "nights", "csv", "taken", false, "CACHE_EMPTY"),
        (&stage, "nights", "csv", "taken", false, "FILE_EXISTS"),
        (&stage, "nights", "csv", "taken", true, "done"),
        (&stage, "nights", "csv", "blank", false, "done"),
        (&stage, "nights", "csv", "full", false, "FILE_EXISTS"),
        (&stage, "nights", "csv", "full", true, "EXPORT_ERROR"),
        (&stage, "nights", "csv", "folder", false, "EXPORT_ERROR"),
        (&stage, "nights", "csv", "deep/er/new", false, "done"),
        (&stage, "nights", "csv", "taken/x", false, "EXPORT_ERROR"),
        (&stage, "nights", "csv", "", false, "EXPORT_ERROR"),
        (&empty, "all", "csv", "full", false, "FILE_EXISTS"),
        (&empty, "all", "csv", "none", false, "CACHE_EMPTY"),
        (&stage, "all", "csv", "taken", true, "EXPORT_ERROR"),
        (&stage, "all", "csv", "folder", false, "done"),
        (&stage, "all", "csv", "folder", false, "FILE_EXISTS"),
        (&stage, "all", "csv", "folder", true, "done"),
        (&stage, "all", "csv", "full", true, "done"),
    ];
    for (on, kind, format, path, overwrite, expected) in cases {
        assert_eq!(code(on, kind, format, path, overwrite), expected, "{kind} {format} {path}");
    }
    assert!(!stage.path("none").exists(), "nothing is left behind");
    assert_eq!(fs::read_to_string(stage.path("full/other")).unwrap(), "x");
    assert!(!Path::new("~").exists());
    let home = Order { path: "~/tilde.csv", ..order("", base) };
    export(&stage, "nights", "csv", &home).unwrap();
    assert!(stage.path("tilde.csv").exists());
}

#[test]
fn a_record_that_does_not_fit_its_column_leaves_no_file() {
    let stage = filled();
    let odd = Record::new("nights", "4", 0, Some(1));
    stage.keep(&Record { flat: r#"{"id":"four","score":1.0}"#.into(), ..odd });
    let base = stage.folder.path();
    let fault = export(&stage, "nights", "parquet", &order("out", base)).unwrap_err();
    assert_eq!(fault.code(), "EXPORT_ERROR");
    assert!(fault.to_string().contains("not a whole number"), "{fault}");
    let left: Vec<_> =
        fs::read_dir(base).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["home"]);
}
