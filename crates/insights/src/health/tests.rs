//! The views of one made-up person.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::baseline::Position;
use crate::metric::Unit;
use crate::testing::noise;

const fn metric(name: &'static str, title: &'static str, unit: Unit, better: Better) -> Metric {
    Metric { name, title, unit, better, is_log: false }
}

const METRICS: [Metric; 6] = [
    metric("recovery", "Recovery", Unit::Percent, Better::Higher),
    metric("pulse", "Resting heart rate", Unit::BeatsPerMinute, Better::Lower),
    metric("asleep", "Time asleep", Unit::Minutes, Better::Higher),
    metric("need", "Sleep need", Unit::Minutes, Better::Neither),
    metric("bedtime", "Bedtime", Unit::ClockMinutes, Better::Neither),
    metric("load", "Workout energy", Unit::Kilojoules, Better::Neither),
];

const ROLES: Roles = Roles {
    main: &["recovery", "pulse", "asleep"],
    lines: &["recovery", "asleep"],
    calendar: "recovery",
    asleep: "asleep",
    sleep_need: "need",
    bedtime: "bedtime",
    stages: &[],
    load: "load",
    outcomes: &["recovery"],
    vitals: &["pulse"],
    pairs: &[PairLook { x: "asleep", y: "recovery", lag_days: 0 }],
};

const TODAY: i32 = 20_800;

/// So many days up to today. The pulse is high on the last three of them.
fn person(days: i32) -> HealthData {
    let base = [60.0, 52.0, 450.0, 480.0, -60.0, 1500.0];
    let spread = [12.0, 1.0, 40.0, 10.0, 30.0, 900.0];
    let series = |at: usize| {
        let seed = u64::try_from(at).unwrap();
        let value = move |n: i32| {
            let fever = if at == 1 && n > TODAY - 3 { 12.0 } else { 0.0 };
            let sleep = if at == 0 { 8.0 * noise(2, n) } else { 0.0 };
            base[at] + spread[at] * noise(seed, n) + fever + sleep
        };
        Series::from_points((TODAY + 1 - days..=TODAY).map(|n| (Day::from_number(n), value(n))))
    };
    let measured = |(at, metric): (usize, Metric)| Measured { metric, series: series(at) };
    HealthData {
        source: "WHOOP",
        today: Day::from_number(TODAY),
        measured: METRICS.into_iter().enumerate().map(measured).collect(),
        sleeps: Vec::new(),
        behaviours: Vec::new(),
        roles: &ROLES,
    }
}

#[test]
fn today_says_what_is_unusual_and_since_when() {
    let view = person(120).today_view();
    let pulse = view.cards.iter().find(|card| card.metric.name == "pulse").unwrap();
    assert_eq!(pulse.position, Some(Position::Above));
    assert_eq!((pulse.is_better, pulse.since), (Some(false), Some(Day::from_number(TODAY - 2))));
    assert!(view.state.contains("Resting heart rate is above usual"), "{}", view.state);
    assert!(pulse.usual.ends_with(" bpm (30 days)"), "{}", pulse.usual);
}

#[test]
fn too_little_data_reports_what_is_missing() {
    let view = person(4).today_view();
    assert_eq!(view.state, "Not enough data to say what is usual.");
    assert!(view.cards[0].usual.contains("12 more needed"), "{}", view.cards[0].usual);
    let view = person(4).explore_view("recovery", Span::Week).unwrap();
    assert!(view.trend.contains("17 more needed"), "{}", view.trend);
    assert_eq!(view.figure.unwrap().readings, 4);
}

#[test]
fn a_sparse_span_is_widened_and_says_so() {
    let mut data = person(100);
    let own = &mut data.measured[0].series;
    *own = own.between(Day::from_number(0), Day::from_number(TODAY - 40));
    let view = data.explore_view("recovery", Span::Week).unwrap();
    assert_eq!(
        view.widened.as_deref(),
        Some("Recovery has 0 readings in a week, so this shows 3 months.")
    );
    let current: Vec<&str> =
        view.spans.iter().filter(|span| span.is_current).map(|span| span.label).collect();
    assert_eq!(current, ["3M"]);
    assert!(person(100).explore_view("recovery", Span::Week).unwrap().widened.is_none());
}

#[test]
fn a_trend_in_words_has_its_interval_its_size_and_its_direction() {
    let mut data = person(120);
    let rising = |n: i32| 40.0 + f64::from(n - TODAY) * 0.2 + noise(9, n);
    let days = (TODAY - 119..=TODAY).map(|n| (Day::from_number(n), rising(n)));
    data.measured[0].series = Series::from_points(days);
    let text = data.explore_view("recovery", Span::ThreeMonths).unwrap().trend;
    assert!(text.starts_with("Recovery rises by 5."), "{text}");
    for part in ["95 % interval +", "readings, worth", "That is the better direction."] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn ten_years_stay_small() {
    let data = person(3650);
    let view = data.explore_view("recovery", Span::All).unwrap();
    let figure = view.figure.unwrap();
    assert_eq!(figure.readings, 3650);
    assert!(figure.rows.len() <= 122 && figure.svg.len() < 60_000, "{}", figure.svg.len());
    assert!(figure.note.contains("mean of a month"), "{}", figure.note);
    let daily = data.explore_view("recovery", Span::SixMonths).unwrap().figure.unwrap();
    assert!(daily.rows.len() == 182 && daily.svg.len() < 80_000, "{}", daily.svg.len());
}

#[test]
fn a_planted_pair_is_a_claim_with_its_scatter_plot() {
    let view = person(365).drivers_view();
    assert!(view.claims.iter().any(|line| line.contains("Recovery goes with Time asleep")));
    assert_eq!(view.scatters[0].title, "Time asleep and Recovery");
    assert!(view.scatters[0].note.contains("95 % interval"), "{}", view.scatters[0].note);
}

#[test]
fn two_periods_are_compared_with_an_interval() {
    let day = Day::from_number;
    let data = person(120);
    let view = data.periods_view((day(TODAY - 2), day(TODAY)), (day(TODAY - 40), day(TODAY - 3)));
    assert!(view.rows.iter().all(|row| row.difference.contains("more needed")));
    let view =
        data.periods_view((day(TODAY - 40), day(TODAY - 20)), (day(TODAY - 80), day(TODAY - 41)));
    let pulse = view.rows.iter().find(|row| row.metric.name == "pulse").unwrap();
    assert_eq!((pulse.n_first, pulse.n_second), (21, 40));
    assert!(pulse.difference.contains("95 % interval"), "{}", pulse.difference);
}

#[test]
fn fragments_of_apps_have_the_drawings_and_no_script() {
    let data = person(120);
    let today = data.today_fragment().unwrap();
    assert_eq!(today.matches("<svg class=\"spark\"").count(), 3, "{today}");
    let trend = data.trend_fragment("recovery", 30).unwrap();
    assert!(trend.contains("30 readings") && trend.contains("<svg class=\"chart\""), "{trend}");
    assert!(!today.contains("<script") && !trend.contains("<script"));
    assert_eq!(data.trend_fragment("no such metric", 30), None);
}

#[test]
fn the_report_is_one_file_without_script_or_network() {
    let page = crate::report::html(&person(200), 30).unwrap();
    for part in ["<script", "http://", "https://", "url(", "NaN"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("<svg") && page.contains("What the data says"));
}
