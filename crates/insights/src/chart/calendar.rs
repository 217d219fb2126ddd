//! A calendar: one cell per day, a column per week, Monday on top.

use std::fmt::Write as _;

use super::{Chart, Frame, escaped, open};
use crate::day::Day;
use crate::sample::real;
use crate::series::Series;

const CELL: f64 = 16.0;
const LEFT: f64 = 34.0;
const TOP: f64 = 18.0;
/// Weeks that fit on a phone.
const WEEKS_MAX: i32 = 26;

/// Five steps from the lowest to the highest fifth; at most half a year.
pub fn calendar(frame: Frame<'_>, series: &Series) -> Option<Chart> {
    let from = frame.from.max(frame.to.plus(1 - WEEKS_MAX * 7));
    let series = series.between(from, frame.to);
    series.first_day()?;
    let monday = from.plus(-i32::try_from(from.weekday()).unwrap_or(0));
    let weeks = f64::from(frame.to.since(monday).div_euclid(7)) + 1.0;
    let (width, height) = (LEFT + weeks * CELL, TOP + 7.0 * CELL + 24.0);
    let size = format!(r#"width="{width}" height="{height}" viewBox="0 0 {width} {height}""#);
    let mut svg = open("calendar", &size, frame.title);
    months(&mut svg, monday, frame.to);
    for (row, name) in [(0.0, "Mon"), (3.0, "Thu"), (6.0, "Sun")] {
        let y = TOP + row * CELL + 11.0;
        let _ = write!(
            svg,
            r#"<text class="label" x="{}" y="{y:.1}" text-anchor="end">{name}</text>"#,
            LEFT - 6.0
        );
    }
    let mut sorted = series.values();
    sorted.sort_by(f64::total_cmp);
    let step = |value: f64| {
        let below = sorted.iter().filter(|other| **other < value).count();
        (5.0 * real(below) / real(sorted.len().max(1))).floor()
    };
    for number in from.number()..=frame.to.number() {
        let day = Day::from_number(number);
        let (class, value) = match series.get(day) {
            Some(value) => (format!("step step{}", step(value)), frame.metric.unit.show(value)),
            None => ("step none".to_owned(), "no reading".to_owned()),
        };
        let week = f64::from(day.since(monday).div_euclid(7));
        let _ = write!(
            svg,
            r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{side}" height="{side}" rx="2"><title>{day}: {}</title></rect>"#,
            LEFT + week * CELL,
            TOP + real(day.weekday()) * CELL,
            escaped(&value),
            side = CELL - 2.0,
        );
    }
    key(&mut svg, height);
    svg.push_str("</svg>");
    Some(Chart { svg })
}

/// The name of a month above the week in which it begins.
fn months(svg: &mut String, monday: Day, to: Day) {
    let mut free = 0.0;
    for week in 0..=to.since(monday).div_euclid(7) {
        let begins =
            (0..7).map(|day| monday.plus(week * 7 + day)).find(|day| day.date().day() == 1);
        let x = LEFT + f64::from(week) * CELL;
        if let Some(day) = begins.filter(|day| *day <= to && x >= free) {
            let name = day.date().strftime("%b");
            let _ = write!(svg, r#"<text class="label" x="{x:.1}" y="11">{name}</text>"#);
            free = x + 2.0 * CELL;
        }
    }
}

fn key(svg: &mut String, height: f64) {
    let y = height - 15.0;
    let _ = write!(svg, r#"<text class="label" x="{LEFT}" y="{:.1}">lower</text>"#, y + 11.0);
    for step in 0..5 {
        let x = LEFT + 36.0 + f64::from(step) * CELL;
        let side = CELL - 2.0;
        let _ = write!(
            svg,
            r#"<rect class="step step{step}" x="{x}" y="{y}" width="{side}" height="{side}" rx="2"/>"#
        );
    }
    let x = LEFT + 36.0 + 5.0 * CELL + 4.0;
    let _ = write!(svg, r#"<text class="label" x="{x}" y="{:.1}">higher</text>"#, y + 11.0);
}
