//! How fast the owner's records are: ten years kept page by page, read by window, taken out.
//! `cargo run --release -p store --example records_speed [FOLDER FOR THE FILES]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement for people"
)]

use std::time::Instant;

use store::export::{Compression, CsvSafety, Kind, Order, Plan, Reach, Shelf};
use store::home::Home;
use store::records::{Column, Incoming, Records, View, Window};

const DAYS: i64 = 3_652;
const DAY_US: i64 = 86_400_000_000;
const PAGE: usize = 25;
const ROUNDS: u32 = 2_000;

static VIEW: View = View {
    name: "whoop_sleeps",
    service: "whoop",
    kind: "sleeps",
    columns: &[
        Column::text("id"),
        Column::integer("cycle_id"),
        Column::text("start_utc"),
        Column::text("end_utc"),
        Column::bool("nap"),
        Column::text("score_state"),
        Column::double("respiratory_rate"),
        Column::double("in_bed_seconds"),
        Column::double("light_sleep_seconds"),
        Column::double("rem_sleep_seconds"),
        Column::double("deep_sleep_seconds"),
        Column::integer("disturbance_count"),
        Column::doubles(
            "sleep_needed_seconds",
            &["baseline_seconds", "need_from_sleep_debt_seconds"],
        ),
    ],
    except_state: Some("INVALID"),
};

static SHELF: Shelf = Shelf {
    service: "whoop",
    kinds: &[Kind { name: "sleeps", file: "sleeps", is_snapshot: false, view: &VIEW }],
};

struct Night {
    id: String,
    start_us: i64,
    raw: String,
    flat: String,
}

fn night(day: i64) -> Night {
    let id = format!("ecfc6a15-4661-442f-a9a4-{day:012}");
    let flat = format!(
        r#"{{"id":"{id}","cycle_id":{day},"start_utc":"2026-04-14T22:10:06.740Z","end_utc":"2026-04-15T06:02:11.120Z","start_local":"2026-04-15T03:40:06.740000+05:30","end_local":"2026-04-15T11:32:11.120000+05:30","timezone_offset":"+05:30","nap":false,"score_state":"SCORED","respiratory_rate":16.113,"sleep_consistency_pct":90.0,"sleep_efficiency_pct":91.69,"sleep_performance_pct":98.0,"in_bed_seconds":30272.7,"light_sleep_seconds":14905.9,"rem_sleep_seconds":5879.6,"deep_sleep_seconds":6630.4,"awake_seconds":1403.5,"no_data_seconds":0.0,"sleep_cycle_count":3,"disturbance_count":12,"sleep_needed_seconds":{{"baseline_seconds":27395.7,"need_from_sleep_debt_seconds":352.2}}}}"#
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
        records.keep("whoop", &page).unwrap();
    }
    let pages = nights.len().div_ceil(PAGE) as f64;
    println!("keep: {:.2} ms a page of {PAGE}", begin.elapsed().as_secs_f64() * 1e3 / pages);

    let begin = Instant::now();
    for _ in 0..20 {
        Records::open(&home).unwrap().count("whoop", "sleeps").unwrap();
    }
    println!("open and first question: {:.2} ms", begin.elapsed().as_secs_f64() * 1e3 / 20.0);

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
        let plan = Plan::new(&SHELF, "sleeps", format).unwrap();
        let order = Order {
            path: &format!("sleeps.{format}"),
            from_us: None,
            to_us: None,
            now_us: 0,
            overwrite: true,
            csv: CsvSafety::AsIs,
            compression: Compression::Snappy,
            reach: Reach::Below(&exports),
        };
        plan.write(&records, &order, &mut |_| {}).unwrap();
        let begin = Instant::now();
        let done = plan.write(&records, &order, &mut |_| {}).unwrap();
        let file = done.files.first().unwrap();
        println!(
            "{format}: {} records, {} bytes, {:.1} ms",
            file.records,
            file.bytes,
            begin.elapsed().as_secs_f64() * 1e3
        );
    }
}
