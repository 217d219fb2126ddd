//! Charts as SVG text: a line with its usual range, bars, a calendar, a scatter plot with its fit. Colors are
//! CSS variables of the page, so that one chart fits light, dark and paper. No script.

use std::fmt::Write as _;

use crate::day::Day;
use crate::finding::Interval;
use crate::sample::{self, real};
use crate::series::{Pair, Series};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
const CELL: f64 = 14.0;

/// A chart as SVG, with the text that a screen reader says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    pub svg: String,
}

/// Maps values to positions.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    /// A frame around the values, with some air above and below.
    fn around(x: (f64, f64), y: impl Iterator<Item = f64>) -> Frame {
        let (low, high) =
            y.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
        let air = ((high - low) * 0.08).max(1e-6);
        let x = if x.1 > x.0 { x } else { (x.0 - 1.0, x.0 + 1.0) };
        Frame { x, y: (low - air, high + air) }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// Lines and labels at a few round values.
    fn axis(&self, svg: &mut String, label: &dyn Fn(f64) -> String) {
        for value in ticks(self.y) {
            let y = self.y(value);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="label" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                escaped(&label(value)),
            );
        }
    }
}

/// The first and last day, below the horizontal axis.
fn dates(svg: &mut String, first: Day, last: Day) {
    let y = HEIGHT - 6.0;
    let _ = write!(
        svg,
        r#"<text class="label" x="{LEFT}" y="{y}">{first}</text><text class="label" x="{:.1}" y="{y}" text-anchor="end">{last}</text>"#,
        WIDTH - RIGHT,
    );
}

/// Three to six round values inside a range.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let raw = (high - low) / 4.0;
    let power = 10_f64.powf(raw.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= raw).unwrap_or(raw);
    let first = (low / step).ceil();
    (0..8).map(|at| (first + f64::from(at)) * step).take_while(|value| *value <= high).collect()
}

fn open(title: &str, height: f64) -> String {
    let title = escaped(title);
    format!(
        r#"<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"><title>{title}</title>"#
    )
}

/// Text for SVG and HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A line by day over its usual range. A missing day is a gap.
pub fn line(
    title: &str,
    series: &Series,
    usual: Option<Interval>,
    label: &dyn Fn(f64) -> String,
) -> Option<Chart> {
    let (first, last) = (series.first_day()?, series.last_day()?);
    let x = |day: Day| f64::from(day.number());
    let range = usual.iter().flat_map(|range| [range.low, range.high]);
    let frame = Frame::around((x(first), x(last)), series.values().into_iter().chain(range));
    let mut svg = open(title, HEIGHT);
    frame.axis(&mut svg, label);
    if let Some(range) = usual {
        let (top, bottom) = (frame.y(range.high), frame.y(range.low));
        let (width, height) = (WIDTH - LEFT - RIGHT, bottom - top);
        let _ = write!(
            svg,
            r#"<rect class="band" x="{LEFT}" y="{top:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }
    let points: Vec<(Day, f64)> = series.points().collect();
    for run in points.chunk_by(|a, b| b.0.since(a.0) == 1) {
        let at =
            |(day, value): &(Day, f64)| format!("{:.1},{:.1}", frame.x(x(*day)), frame.y(*value));
        let line: Vec<String> = run.iter().map(at).collect();
        let _ = write!(svg, r#"<polyline class="line" points="{}"/>"#, line.join(" "));
    }
    for (day, value) in &points {
        let is_out = usual.is_some_and(|range| !range.contains(*value));
        let class = if is_out { "dot out" } else { "dot" };
        let (x, y) = (frame.x(x(*day)), frame.y(*value));
        let _ = write!(
            svg,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="2.2"><title>{day}: {}</title></circle>"#,
            escaped(&label(*value)),
        );
    }
    dates(&mut svg, first, last);
    svg.push_str("</svg>");
    Some(Chart { svg })
}

/// Bars by day from zero, with a second series as a line, such as the need beside the sleep.
pub fn bars(
    title: &str,
    series: &Series,
    beside: Option<&Series>,
    label: &dyn Fn(f64) -> String,
) -> Option<Chart> {
    let (first, last) = (series.first_day()?, series.last_day()?);
    let other = beside.map(|beside| beside.between(first, last));
    let values =
        series.values().into_iter().chain(other.iter().flat_map(Series::values)).chain([0.0]);
    let days = f64::from(last.since(first)) + 1.0;
    let start = f64::from(first.number());
    let mut frame = Frame::around((start - 0.5, start + days - 0.5), values);
    frame.y.0 = frame.y.0.max(0.0);
    let mut svg = open(title, HEIGHT);
    frame.axis(&mut svg, label);
    let width = ((WIDTH - LEFT - RIGHT) / days * 0.7).max(1.0);
    for (day, value) in series.points() {
        let (x, y) = (frame.x(f64::from(day.number())), frame.y(value));
        let _ = write!(
            svg,
            r#"<rect class="bar" x="{:.1}" y="{y:.1}" width="{width:.1}" height="{:.1}"><title>{day}: {}</title></rect>"#,
            x - width / 2.0,
            frame.y(frame.y.0) - y,
            escaped(&label(value)),
        );
    }
    let line = |(day, value): (Day, f64)| {
        format!("{:.1},{:.1}", frame.x(f64::from(day.number())), frame.y(value))
    };
    let line: Vec<String> = other.iter().flat_map(Series::points).map(line).collect();
    if !line.is_empty() {
        let _ = write!(svg, r#"<polyline class="beside" points="{}"/>"#, line.join(" "));
    }
    dates(&mut svg, first, last);
    svg.push_str("</svg>");
    Some(Chart { svg })
}

/// One cell per day, a column per week, Monday on top. Five steps from the lowest to the highest fifth.
pub fn calendar(title: &str, series: &Series, label: &dyn Fn(f64) -> String) -> Option<Chart> {
    let first = series.first_day()?;
    let monday = first.plus(-i32::try_from(first.weekday()).unwrap_or(0));
    let mut sorted = series.values();
    sorted.sort_by(f64::total_cmp);
    let step = |value: f64| {
        let below = sorted.iter().filter(|other| **other < value).count();
        (5.0 * real(below) / real(sorted.len().max(1))).floor()
    };
    let mut svg = open(title, CELL * 7.0 + 4.0);
    for (day, value) in series.points() {
        let week = f64::from(day.since(monday).div_euclid(7));
        let row = real(day.weekday());
        let _ = write!(
            svg,
            r#"<rect class="step{}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="2"><title>{day}: {}</title></rect>"#,
            step(value),
            LEFT + week * CELL,
            row * CELL + 2.0,
            CELL - 2.0,
            CELL - 2.0,
            escaped(&label(value)),
        );
    }
    for (row, name) in [(0.0, "Mon"), (3.0, "Thu"), (6.0, "Sun")] {
        let y = row * CELL + 12.0;
        let _ = write!(
            svg,
            r#"<text class="label" x="{:.1}" y="{y:.1}" text-anchor="end">{name}</text>"#,
            LEFT - 6.0
        );
    }
    svg.push_str("</svg>");
    Some(Chart { svg })
}

/// Points of two metrics with the least-squares line.
pub fn scatter(
    title: &str,
    pairs: &[Pair],
    label_x: &dyn Fn(f64) -> String,
    label_y: &dyn Fn(f64) -> String,
) -> Option<Chart> {
    let xs: Vec<f64> = pairs.iter().map(|pair| pair.x).collect();
    let ys: Vec<f64> = pairs.iter().map(|pair| pair.y).collect();
    let (mean_x, mean_y) = (sample::mean(&xs)?, sample::mean(&ys)?);
    let low = xs.iter().copied().min_by(f64::total_cmp)?;
    let high = xs.iter().copied().max_by(f64::total_cmp)?;
    let frame = Frame::around((low, high), ys.iter().copied());
    let mut svg = open(title, HEIGHT);
    frame.axis(&mut svg, label_y);
    for pair in pairs {
        let (x, y) = (frame.x(pair.x), frame.y(pair.y));
        let _ = write!(svg, r#"<circle class="point" cx="{x:.1}" cy="{y:.1}" r="2.6"/>"#);
    }
    let products: f64 = pairs.iter().map(|pair| (pair.x - mean_x) * (pair.y - mean_y)).sum();
    let squares: f64 = pairs.iter().map(|pair| (pair.x - mean_x).powi(2)).sum();
    let slope = if squares > 0.0 { products / squares } else { 0.0 };
    let on_line = |x: f64| (mean_y + slope * (x - mean_x)).clamp(frame.y.0, frame.y.1);
    let _ = write!(
        svg,
        r#"<line class="fit" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/><text class="label" x="{LEFT}" y="{:.1}">{}</text><text class="label" x="{:.1}" y="{:.1}" text-anchor="end">{}</text></svg>"#,
        frame.x(low),
        frame.y(on_line(low)),
        frame.x(high),
        frame.y(on_line(high)),
        HEIGHT - 6.0,
        escaped(&label_x(low)),
        WIDTH - RIGHT,
        HEIGHT - 6.0,
        escaped(&label_x(high)),
    );
    Some(Chart { svg })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn series() -> Series {
        let days = (20_000..20_040).filter(|n| n % 9 != 0);
        Series::from_points(days.map(|n| (Day::from_number(n), f64::from(n % 13))))
    }

    #[test]
    fn text_from_outside_cannot_leave_its_element() {
        let label = |value: f64| format!("<script>{value}\"&");
        let range = Interval { low: 2.0, high: 9.0 };
        let pairs = series().pairs(&series(), 1);
        let charts = [
            line("<b>\"", &series(), Some(range), &label),
            bars("<b>\"", &series(), Some(&series()), &label),
            calendar("<b>\"", &series(), &label),
            scatter("<b>\"", &pairs, &label, &label),
        ];
        for chart in charts {
            let svg = chart.unwrap().svg;
            assert!(
                !svg.contains("<script>") && !svg.contains("<b>") && !svg.contains("NaN"),
                "{svg}"
            );
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
        }
    }

    #[test]
    fn a_missing_day_is_a_gap_and_nothing_is_no_chart() {
        let svg = line("x", &series(), None, &|value| value.to_string()).unwrap().svg;
        assert_eq!(svg.matches("<polyline").count(), 5, "{svg}");
        assert_eq!(line("x", &Series::default(), None, &|_| String::new()), None);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks((0.0, 100.0)), [0.0, 50.0, 100.0]);
        assert_eq!(ticks((41.0, 68.0)), [50.0, 60.0]);
    }
}
