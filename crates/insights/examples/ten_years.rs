//! The time that each insight takes over ten years of data: the median of 15 runs. Ends with 1 if one
//! takes longer than 50 ms, or a whole survey longer than 2 s.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use insights::metric::Better;
use insights::sleep::SleepSpan;
use insights::survey::{Measured, PairLook, Survey};
use insights::{Day, Metric, Series, Unit};
use insights::{
    anomaly, baseline, change_point, correlation, difference, load, records, sleep, trend,
};

const DAYS: i32 = 3_653;
const RUNS: usize = 15;
const INSIGHT_MS_MAX: f64 = 50.0;
const SURVEY_MS_MAX: f64 = 2_000.0;

fn main() -> ExitCode {
    let person = sandbox::planted::person(1, 17_000, DAYS);
    let of = |value: fn(&sandbox::planted::PlantedDay) -> f64| {
        Series::from_points(
            person.days.iter().map(|day| (Day::from_number(day.number), value(day))),
        )
    };
    let (hrv, rest) = (of(|day| day.hrv_ms), of(|day| day.resting_hr_bpm));
    let (energy, answers) = (of(|day| day.load_kj), of(|day| f64::from(u8::from(day.alcohol))));
    let (first, last) = (Day::from_number(17_000), Day::from_number(17_000 + DAYS - 1));
    let span = |day: i32| SleepSpan {
        start_min: i64::from(day) * 1440 - 60,
        end_min: i64::from(day) * 1440 + 420,
        offset_min: 0,
        is_nap: false,
    };
    let spans: Vec<SleepSpan> = (0..DAYS).map(span).collect();
    let runs: Vec<(&str, f64)> = vec![
        ("baseline of 90 days", median_ms(|| baseline::baseline(&hrv, last, 90))),
        ("HRV status", median_ms(|| baseline::hrv_status(&hrv, last))),
        ("anomalies", median_ms(|| anomaly::anomalies(&rest, first, last))),
        ("trend", median_ms(|| trend::trend(&hrv))),
        ("correlation", median_ms(|| correlation::correlation(&energy, &hrv, 1))),
        ("behaviour", median_ms(|| difference::behaviour_effect(&hrv, &answers, 1))),
        ("change points", median_ms(|| change_point::changes(&rest))),
        ("training load", median_ms(|| load::training_load(&energy, last))),
        ("sleep regularity", median_ms(|| sleep::regularity(&spans, first, last))),
        ("records", median_ms(|| records::records(&hrv, Better::Higher))),
    ];
    let metric = |name| Metric {
        name,
        title: name,
        unit: Unit::Count,
        better: Better::Neither,
        is_log: false,
    };
    let measured =
        |name, series: &Series| Measured { metric: metric(name), series: series.clone() };
    let survey = Survey {
        measured: vec![measured("hrv", &hrv), measured("rest", &rest), measured("energy", &energy)],
        pairs: vec![PairLook { x: "energy", y: "hrv", lag_days: 1 }; 10],
        vitals: vec!["hrv", "rest"],
        ..Survey::default()
    };
    let whole = median_ms(|| survey.claims(first, last));
    for (name, ms) in &runs {
        println!("{name}: {ms:.2} ms");
    }
    println!("survey: {whole:.1} ms");
    let slow = runs.iter().any(|(_, ms)| *ms > INSIGHT_MS_MAX) || whole > SURVEY_MS_MAX;
    ExitCode::from(u8::from(slow))
}

fn median_ms<T>(run: impl Fn() -> T) -> f64 {
    let one = |_| {
        let started = Instant::now();
        black_box(run());
        started.elapsed().as_secs_f64() * 1000.0
    };
    insights::sample::median(&(0..RUNS).map(one).collect::<Vec<f64>>()).unwrap()
}
