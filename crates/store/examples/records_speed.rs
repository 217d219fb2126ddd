//! How fast the owner's records are: ten years stored page by page, read by window, exported.
//! `cargo run --release -p store --example records_speed [FOLDER FOR THE FILES]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement for people"
)]

use std::time::Instant;

use store::export::{
    Compression, CsvSafety, ExportJob, ExportKind, ExportOptions, PathScope, ServiceExports,
};
use store::home::Home;
use store::records::{Column, Incoming, Records, View, Window};

const DAYS: i64 = 3_652;
const DAY_US: i64 = 86_400_000_000;
const PAGE: usize = 25;
const ROUNDS: u32 = 2_000;
const EXPORT_ROUNDS: usize = 21;

static VIEW: View = View {
    name: "whoop_sleeps",
    service: "whoop",
    kind: "sleeps",
    columns: &[
        Column::text("id"),
        Column::integer("cycle_id"),
        Column::text("start_utc"),
        Column::text("end_utc"),
        Column::text("start_local"),
        Column::text("end_local"),
        Column::text("timezone_offset"),
        Column::bool("nap"),
        Column::text("score_state"),
        Column::double("respiratory_rate"),
        Column::double("sleep_efficiency_pct"),
        Column::double("in_bed_seconds"),
        Column::double("light_sleep_seconds"),
        Column::double("rem_sleep_seconds"),
        Column::double("deep_sleep_seconds"),
        Column::double("awake_seconds"),
        Column::integer("sleep_cycle_count"),
        Column::integer("disturbance_count"),
        Column::doubles(
            "sleep_needed_seconds",
            &["baseline_seconds", "need_from_sleep_debt_seconds"],
        ),
        Column::text("start"),
        Column::text("end"),
        Column::text("local_date"),
    ],
    except_state: Some("INVALID"),
};

static EXPORTS: ServiceExports = ServiceExports {
    service: "whoop",
    kinds: &[ExportKind { name: "sleeps", file: "sleeps", is_snapshot: false, view: &VIEW }],
};

struct Night {
    id: String,
    start_us: i64,
    raw: String,
    flat: String,
}

fn night(day: i64) -> Night {
    let id =
        format!("{:08x}-4661-442f-a9a4-{day:012}", day.wrapping_mul(2_654_435_761) % (1 << 32));
    let date = format!("20{:02}-{:02}-{:02}", 16 + day / 336, day / 28 % 12 + 1, day % 28 + 1);
    let (start, end) =
        (format!("{date}T22:{:02}:06.740", day % 60), format!("{date}T06:{:02}:11.120", day % 60));
    let flat = format!(
        r#"{{"id":"{id}","cycle_id":{day},"start_utc":"{start}Z","end_utc":"{end}Z","start_local":"{start}+05:30","end_local":"{end}+05:30","timezone_offset":"+05:30","nap":false,"score_state":"SCORED","respiratory_rate":16.{day},"sleep_consistency_pct":90.0,"sleep_efficiency_pct":91.{day},"sleep_performance_pct":98.0,"in_bed_seconds":30272.{day},"light_sleep_seconds":14905.{day},"rem_sleep_seconds":5879.{day},"deep_sleep_seconds":6630.{day},"awake_seconds":1403.{day},"no_data_seconds":0.0,"sleep_cycle_count":3,"disturbance_count":12,"sleep_needed_seconds":{{"baseline_seconds":27395.{day},"need_from_sleep_debt_seconds":352.2}},"start":"{start}Z","end":"{end}Z","local_date":"{date}"}}"#
    );
    let raw = format!(
        r#"{{"v":2,"user_id":10129,"created_at":"2026-04-15T06:10:00.000Z",{}"#,
        &flat[1..]
    );
    Night { id, start_us: day * DAY_US, raw, flat }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    let records = Records::open(&home).unwrap();
    let exports = std::env::args_os().nth(1).map_or(folder.path().join("exports"), Into::into);
    let nights: Vec<Night> = (0..DAYS).map(night).collect();

    let begin = Instant::now();
    for page in nights.chunks(PAGE) {
        let page: Vec<Incoming<'_>> = page
            .iter()
            .map(|night| Incoming {
                kind: "sleeps",
                id: &night.id,
                start_us: Some(night.start_us),
                end_us: Some(night.start_us + DAY_US / 3),
                updated: "2026-04-15T06:10:00.000Z",
                updated_us: night.start_us,
                raw: &night.raw,
                flat: &night.flat,
                ..Incoming::default()
            })
            .collect();
        records.upsert("whoop", &page).unwrap();
    }
    let pages = nights.len().div_ceil(PAGE) as f64;
    println!("upsert: {:.2} ms a page of {PAGE}", begin.elapsed().as_secs_f64() * 1e3 / pages);

    let begin = Instant::now();
    for _ in 0..20 {
        Records::open(&home).unwrap().count("whoop", "sleeps").unwrap();
    }
    println!("open and first query: {:.2} ms", begin.elapsed().as_secs_f64() * 1e3 / 20.0);

    let window = Window {
        from_us: Some((DAYS - 30) * DAY_US),
        to_us: Some(DAYS * DAY_US),
        newest_first: true,
        overlap: true,
        ..Window::default()
    };
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        assert_eq!(records.window_flat("whoop", "sleeps", &window).unwrap().len(), 30);
    }
    println!("30 days, flat: {:.1} µs", begin.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
    let begin = Instant::now();
    for round in 0..ROUNDS {
        let night = nights.get(round as usize % nights.len()).unwrap();
        records.one("whoop", "sleeps", &night.id).unwrap().unwrap();
    }
    println!("one by id: {:.1} µs", begin.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));

    for format in ["csv", "jsonl", "parquet"] {
        let job = ExportJob::new(&EXPORTS, "sleeps", format).unwrap();
        let options = ExportOptions {
            path: &format!("sleeps.{format}"),
            from_us: None,
            to_us: None,
            now_us: 0,
            overwrite: true,
            csv: CsvSafety::AsIs,
            compression: Compression::Snappy,
            reach: PathScope::Below(&exports),
        };
        job.write(&records, &options, &mut |_| {}).unwrap();
        let mut times = Vec::new();
        let mut done = None;
        for _ in 0..EXPORT_ROUNDS {
            let begin = Instant::now();
            done = Some(job.write(&records, &options, &mut |_| {}).unwrap());
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let done = done.unwrap();
        let file = done.files.first().unwrap();
        println!(
            "{format}: {} records, {} bytes, {:.1} ms (median of {EXPORT_ROUNDS}; fastest {:.1})",
            file.records,
            file.bytes,
            times.get(times.len() / 2).unwrap(),
            times.first().unwrap()
        );
    }
}
