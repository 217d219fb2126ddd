//! Charts as SVG text: a line with its usual range, bars, stacked bars, a calendar, a scatter plot with its
//! fit. Positions along the time are percentages, so that a chart fills any width and its text keeps its
//! size. Looks come from the CSS classes of the page. A mark shows its value on hover and on focus; no script.

mod bars;
mod calendar;
mod line;
mod mark;
mod scatter;

use std::fmt::Write as _;

use jiff::ToSpan as _;
use jiff::civil::Date;

use crate::day::Day;
use crate::metric::Metric;
use crate::sample::real;

pub use bars::{Part, bars, columns, stacked};
pub use calendar::calendar;
pub use line::{line, spark};
pub use mark::{Mark, marks};
pub use scatter::{Scatter, scatter};

pub(crate) const HEIGHT: f64 = 208.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 22.0;
/// Labels below the time axis at most, so that they fit on a phone.
const DATES_MAX: i32 = 5;
/// Up to so many marks are all keyboard stops; of more only the unusual ones and the last.
const STOPS_MAX: usize = 31;

/// The styles of charts, for pages that carry their own style sheet. They use the custom properties `--fg`,
/// `--quiet`, `--line`, `--accent`, `--refused`, `--waiting` and `--bg`.
pub const STYLE: &str = include_str!("chart/chart.css");

/// A chart as SVG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    pub svg: String,
}

/// How the values of a chart are written, and the days it spans.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What a screen reader says.
    pub title: &'a str,
    pub metric: &'a Metric,
    pub from: Day,
    pub to: Day,
}

/// Maps values to positions: percent of the width, pixels of the height.
struct Plot<'a> {
    frame: Frame<'a>,
    y: (f64, f64),
}

impl<'a> Plot<'a> {
    /// A plot around the values, with some air above and below.
    fn around(frame: Frame<'a>, values: impl Iterator<Item = f64>) -> Option<Plot<'a>> {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
        let air = ((high - low) * 0.08).max(high.abs() * 0.01).max(1e-6);
        low.is_finite().then_some(Plot { frame, y: (low - air, high + air) })
    }

    /// The middle of a day, in percent.
    fn x(&self, day: f64) -> f64 {
        let days = f64::from(self.frame.to.since(self.frame.from).max(0)) + 1.0;
        (day - f64::from(self.frame.from.number()) + 0.5) / days * 100.0
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn show(&self, value: f64) -> String {
        self.frame.metric.unit.show(value)
    }

    fn open(&self) -> String {
        open("chart", &format!(r#"width="100%" height="{HEIGHT}""#), self.frame.title)
    }

    /// Lines and labels at a few round values.
    fn axis(&self, svg: &mut String) {
        for (value, label) in self.frame.metric.unit.ticks(self.y) {
            let y = self.y(value);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="0" x2="100%" y1="{y:.1}" y2="{y:.1}"/><text class="label" x="-8" y="{:.1}" text-anchor="end">{}</text>"#,
                y + 4.0,
                escaped(&label),
            );
        }
    }

    /// Up to five dates below.
    fn dates(&self, svg: &mut String) {
        let y = HEIGHT - 4.0;
        for (day, label) in dates(self.frame.from, self.frame.to) {
            let x = self.x(f64::from(day.number()));
            let _ = write!(
                svg,
                r#"<text class="label" x="{x:.2}%" y="{y}" text-anchor="middle">{label}</text>"#
            );
        }
    }

    /// A text right of the plot.
    fn margin_label(svg: &mut String, class: &str, y: f64, text: &str) {
        let _ = write!(
            svg,
            r#"<text class="{class}" x="100%" dx="8" y="{:.1}">{}</text>"#,
            y + 4.0,
            escaped(text)
        );
    }

    /// A group that shows its value while the pointer or the focus is on it, opened with its title.
    fn open_mark(svg: &mut String, is_stop: bool, text: &str) {
        let stop = if is_stop { r#" tabindex="0""# } else { "" };
        let _ = write!(svg, r#"<g class="mark"{stop}><title>{}</title>"#, escaped(text));
    }

    /// The area that reacts to the pointer, and the value above the plot.
    fn close_mark(svg: &mut String, (x, width): (f64, f64), text: &str) {
        let _ = write!(
            svg,
            r#"<rect class="hit" x="{:.2}%" y="{TOP}" width="{width:.2}%" height="{}"/><text class="tip" x="100%" y="12" text-anchor="end">{}</text></g>"#,
            x - width / 2.0,
            HEIGHT - TOP - BOTTOM,
            escaped(text),
        );
    }
}

fn open(class: &str, size: &str, title: &str) -> String {
    let title = escaped(title);
    format!(r#"<svg class="{class}" {size} role="img" aria-label="{title}"><title>{title}</title>"#)
}

/// Text for SVG and HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Round dates of a range: days, Mondays, or first days of months.
fn dates(from: Day, to: Day) -> Vec<(Day, String)> {
    let days = to.since(from) + 1;
    let short = |day: Day| (day, day.date().strftime("%-d %b").to_string());
    if days <= 14 {
        let step = (days + DATES_MAX - 1) / DATES_MAX;
        let last = (0..).map(|at| to.plus(-at * step)).take_while(|day| *day >= from);
        return last.map(short).collect();
    }
    if days <= 120 {
        let step = (days / 7 + 3) / 4 * 7;
        let monday = from.plus((7 - i32::try_from(from.weekday()).unwrap_or(0)) % 7);
        let mondays = (0..).map(|at| monday.plus(at * step)).take_while(|day| *day <= to);
        return mondays.map(short).collect();
    }
    months(from, to, days)
}

fn months(from: Day, to: Day, days: i32) -> Vec<(Day, String)> {
    let steps = [1, 2, 3, 6, 12, 24, 60];
    let step = steps.into_iter().find(|step| days / 30 / step <= DATES_MAX).unwrap_or(120);
    let start = from.date();
    let mut month = Date::new(start.year(), 1, 1).unwrap_or(start);
    let mut dates = Vec::new();
    while let Ok(next) = month.checked_add(step.months()) {
        let day = Day::from_date(month);
        if day > to {
            break;
        }
        if day >= from {
            let format = if month.month() == 1 || step >= 12 { "%Y" } else { "%b" };
            dates.push((day, month.strftime(format).to_string()));
        }
        month = next;
    }
    dates
}

/// A share of the marks, for keyboard stops.
fn is_stop(all: usize, at: usize, is_unusual: bool) -> bool {
    all <= STOPS_MAX || is_unusual || at + 1 == all
}

/// The width of one of so many marks, in percent.
fn mark_width(all: usize) -> f64 {
    (100.0 / real(all.max(1))).min(25.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::metric::{Better, Unit};
    use crate::series::{Pair, Series};
    use crate::{Interval, sample};

    const METRIC: Metric = Metric {
        name: "x",
        title: "<b>\"",
        unit: Unit::Percent,
        better: Better::Higher,
        is_log: false,
    };

    fn frame() -> Frame<'static> {
        Frame {
            title: "<b>\"&",
            metric: &METRIC,
            from: Day::from_number(20_000),
            to: Day::from_number(20_039),
        }
    }

    fn series() -> Series {
        let days = (20_000..20_040).filter(|n| n % 9 != 0);
        Series::from_points(days.map(|n| (Day::from_number(n), f64::from(n % 13))))
    }

    #[test]
    fn text_from_outside_cannot_leave_its_element() {
        let range = Some(Interval { low: 2.0, high: 9.0 });
        let pairs: Vec<Pair> = series().pairs(&series(), 1);
        let part = |label: &'static str| Part { label: label.to_owned(), series: series() };
        let charts = [
            line(frame(), &marks(&series(), 1), range),
            spark(frame(), &marks(&series(), 1), range),
            bars(frame(), &marks(&series(), 1), Some(&part("<script>"))),
            stacked(frame(), &[part("<script>"), part("\"")]),
            calendar(frame(), &series()),
            scatter(&Scatter {
                title: "<b>\"",
                pairs: &pairs,
                x: (&METRIC, "<script>"),
                y: (&METRIC, "<script>"),
            }),
        ];
        for chart in charts {
            let svg = chart.unwrap().svg;
            let hostile = ["<script>", "<b>", "NaN", "inf", "style=", "&\""];
            assert!(hostile.iter().all(|text| !svg.contains(text)), "{svg}");
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
            assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count(), "{svg}");
        }
    }

    #[test]
    fn a_missing_day_is_a_gap_and_nothing_is_no_chart() {
        let svg = line(frame(), &marks(&series(), 1), None).unwrap().svg;
        assert_eq!(svg.matches("<polyline").count(), 5, "{svg}");
        assert_eq!(line(frame(), &[], None), None);
    }

    #[test]
    fn many_marks_have_few_keyboard_stops() {
        let range = Some(Interval { low: 0.5, high: 13.0 });
        let svg = line(frame(), &marks(&series(), 1), range).unwrap().svg;
        let unusual = series().values().iter().filter(|value| **value < 0.5).count();
        assert_eq!(svg.matches("tabindex").count(), unusual + 1);
        let short = marks(&series().last_days(frame().to, 20), 1);
        let svg = line(frame(), &short, range).unwrap().svg;
        assert_eq!(svg.matches("tabindex").count(), short.len());
    }

    #[test]
    fn dates_are_round_and_few() {
        let day = |text: &str| text.parse::<Day>().unwrap();
        let table = [
            ("2026-11-12", "2026-11-18", "18 Nov|16 Nov|14 Nov|12 Nov"),
            ("2026-10-20", "2026-11-18", "26 Oct|2 Nov|9 Nov|16 Nov"),
            ("2026-05-20", "2026-11-18", "Jul|Sep|Nov"),
            ("2016-11-19", "2026-11-18", "2018|2020|2022|2024|2026"),
        ];
        for (from, to, expected) in table {
            let labels: Vec<String> =
                dates(day(from), day(to)).into_iter().map(|(_, label)| label).collect();
            assert_eq!(labels.join("|"), expected);
        }
    }

    #[test]
    fn marks_over_weeks_are_means_with_their_days() {
        let all = marks(&series(), 7);
        assert!(all.iter().all(|mark| mark.to.since(mark.from) <= 6 && mark.n <= 7));
        assert_eq!(all.iter().map(|mark| mark.n).sum::<usize>(), series().n());
        let first = all.first().unwrap();
        let values = series().between(first.from, first.to).values();
        assert_eq!(Some(first.value), sample::mean(&values));
    }
}
