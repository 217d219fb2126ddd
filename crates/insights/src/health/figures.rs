//! Charts with their readings: what a page, a report and an app show of one metric or pair.

use serde::Serialize;

use super::HealthData;
use crate::baseline::{Baseline, baseline};
use crate::chart::{self, Frame, Mark, Part, Scatter};
use crate::correlation::correlation;
use crate::day::Day;
use crate::finding::{Finding, Interval};
use crate::metric::Metric;
use crate::series::Series;
use crate::survey::{Measured, PairLook};

/// The window of the usual range.
pub(super) const BASELINE_DAYS: i32 = 90;
/// Longer spans are shown as means of weeks, and from three years on of months.
const DAILY_DAYS_MAX: i32 = 190;
const WEEKLY_DAYS_MAX: i32 = 1100;
/// Half a year.
const CALENDAR_DAYS: i32 = 26 * 7;
const WEEK: i32 = 7;
const MONTH: i32 = 30;

/// A chart with what it shows, in words and as a table.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub title: String,
    #[serde(skip)]
    pub svg: String,
    /// Days with a value.
    pub readings: usize,
    pub note: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A number with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

impl Fact {
    pub(crate) fn new(name: &str, value: impl Into<String>) -> Fact {
        Fact { name: name.to_owned(), value: value.into() }
    }
}

/// Days of one mark for a span of so many.
fn mark_days(days: i32) -> i32 {
    if days <= DAILY_DAYS_MAX {
        1
    } else if days <= WEEKLY_DAYS_MAX {
        WEEK
    } else {
        MONTH
    }
}

/// The usual range of 90 days, or of 30 where there are too few readings.
pub(super) fn baseline_of(own: &Measured, until: Day) -> Finding<Baseline> {
    let found = baseline(&own.series, until, BASELINE_DAYS);
    match baseline(&own.series, until, 30) {
        short @ Finding::Found(_) if found.found().is_none() => short,
        _ => found,
    }
    .map(|found| found.of(&own.metric))
}

fn means_note(from: Day, to: Day) -> Option<String> {
    match mark_days(to.since(from) + 1) {
        WEEK => Some("Each point is the mean of a week.".to_owned()),
        MONTH => Some("Each point is the mean of a month.".to_owned()),
        _ => None,
    }
}

impl HealthData {
    fn frame<'a>(metric: &'a Metric, title: &'a str, from: Day, to: Day) -> Frame<'a> {
        Frame { title, metric, from, to }
    }

    /// A metric by day, over its usual range.
    pub(crate) fn line_figure(own: &Measured, from: Day, to: Day) -> Option<Figure> {
        let usual = baseline_of(own, to).into_found().filter(|found| found.spread > 0.0);
        let series = own.series.between(from, to);
        let marks = chart::marks(&series, mark_days(to.since(from) + 1));
        let title = HealthData::title(own, from, to, usual.as_ref().map(|own| own.usual));
        let frame = Self::frame(&own.metric, &title, from, to);
        let svg = chart::line(frame, &marks, usual.as_ref().map(|own| own.usual))?.svg;
        let band = usual.map(|found| {
            let range = own.metric.show_interval(found.usual);
            format!("The band is the usual range, {range} ({} readings up to {to}).", found.n)
        });
        let note = [means_note(from, to), band].into_iter().flatten();
        Some(HealthData::figure(
            &own.metric,
            &series,
            &marks,
            svg,
            &note.collect::<Vec<_>>().join(" "),
        ))
    }

    /// What a screen reader says instead of the drawing.
    fn title(own: &Measured, from: Day, to: Day, usual: Option<Interval>) -> String {
        let series = own.series.between(from, to);
        let last = series.points().next_back();
        let last = last.map(|(day, value)| format!(", {} on {day}", own.metric.show(value)));
        let usual = usual.map(|range| format!(", usual {}", own.metric.show_interval(range)));
        format!(
            "{} from {from} to {to}, {} readings{}{}",
            own.metric.title,
            series.n(),
            last.unwrap_or_default(),
            usual.unwrap_or_default()
        )
    }

    pub(super) fn figure(
        metric: &Metric,
        series: &Series,
        marks: &[Mark],
        svg: String,
        note: &str,
    ) -> Figure {
        let is_daily = marks.iter().all(|mark| mark.from == mark.to);
        let row = |mark: &Mark| {
            let mut cells = vec![mark.when(), metric.show(mark.value)];
            if !is_daily {
                cells.push(mark.n.to_string());
            }
            cells
        };
        let columns: &[&str] =
            if is_daily { &["Day", "Value"] } else { &["Days", "Mean", "Readings"] };
        Figure {
            title: metric.title.to_owned(),
            svg,
            readings: series.n(),
            note: note.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            // The newest first: that is what people look for.
            rows: marks.iter().rev().map(row).collect(),
        }
    }

    /// Half a year of one metric, a cell for each day.
    pub(crate) fn calendar_figure(own: &Measured, to: Day) -> Option<Figure> {
        let series = own.series.between(to.plus(1 - CALENDAR_DAYS), to);
        let from = series.first_day()?;
        let title = format!("{}, a cell for each day from {from} to {to}", own.metric.title);
        let svg = chart::calendar(Self::frame(&own.metric, &title, from, to), &series)?.svg;
        let note =
            "A cell is a day, a column a week; darker is higher, in five groups of the same size.";
        Some(HealthData::figure(&own.metric, &series, &chart::marks(&series, 1), svg, note))
    }

    /// Two metrics against each other.
    pub(crate) fn scatter_figure(&self, pair: &PairLook, from: Day, to: Day) -> Option<Figure> {
        let (x, y) = (self.measured(pair.x)?, self.measured(pair.y)?);
        let inside = |own: &Measured| own.series.between(from, to);
        let pairs = inside(x).pairs(&inside(y), pair.lag_days);
        let when = match pair.lag_days {
            0 => String::new(),
            1 => " of the next day".to_owned(),
            days => format!(" {days} days later"),
        };
        let title = format!("{} and {}{when}", x.metric.title, y.metric.title);
        let of_y = format!("{}{when}", y.metric.title);
        let tested = |own: &Measured| own.tested().between(from, to);
        let note = match correlation(&tested(x), &tested(y), pair.lag_days) {
            Finding::Found(found) => format!(
                "r {:.2} (95 % interval {:.2} to {:.2}) without the weekly rhythm; {} days, worth {:.0} independent ones.",
                found.r, found.r_interval.low, found.r_interval.high, found.n, found.n_eff
            )
            .replace('-', "−"),
            Finding::NotEnoughData(short) => crate::sentences::shortfall(&short),
        };
        let label = format!("{title}, {} pairs. {note}", pairs.len());
        let svg = chart::scatter(&Scatter {
            title: &label,
            pairs: &pairs,
            x: (&x.metric, x.metric.title),
            y: (&y.metric, &of_y),
        })?
        .svg;
        let row = |pair: &crate::series::Pair| {
            vec![pair.day.to_string(), x.metric.show(pair.x), y.metric.show(pair.y)]
        };
        Some(Figure {
            title,
            svg,
            readings: pairs.len(),
            note,
            columns: vec!["Day".to_owned(), x.metric.title.to_owned(), of_y.clone()],
            rows: pairs.iter().rev().map(row).collect(),
        })
    }

    /// Bars by day, with another series as a line.
    pub(super) fn bars_figure(
        own: &Measured,
        overlay: Option<&Part>,
        (from, to): (Day, Day),
        note: &str,
    ) -> Option<Figure> {
        let series = own.series.between(from, to);
        let marks = chart::marks(&series, 1);
        let title = HealthData::title(own, from, to, None);
        let frame = Self::frame(&own.metric, &title, from, to);
        let svg = chart::bars(frame, &marks, overlay)?.svg;
        let mut figure = HealthData::figure(&own.metric, &series, &marks, svg, note);
        if let Some(part) = overlay {
            figure.columns.push(part.label.clone());
            for (row, mark) in figure.rows.iter_mut().zip(marks.iter().rev()) {
                let value = part.series.get(mark.from);
                row.push(value.map_or_else(String::new, |value| own.metric.show(value)));
            }
        }
        Some(figure)
    }

    /// Parts of a day that add up, such as the stages of a night.
    pub(super) fn stacked_figure(
        metric: &Metric,
        title: &str,
        parts: &[Part],
        (from, to): (Day, Day),
    ) -> Option<Figure> {
        let svg = chart::stacked(Self::frame(metric, title, from, to), parts)?.svg;
        let first = parts.first()?.series.between(from, to);
        let row = |day: Day| -> Option<Vec<String>> {
            let values: Option<Vec<f64>> = parts.iter().map(|part| part.series.get(day)).collect();
            let cells = values?.into_iter().map(|value| metric.show(value));
            Some([day.to_string()].into_iter().chain(cells).collect())
        };
        let rows: Vec<Vec<String>> = first.points().rev().filter_map(|(day, _)| row(day)).collect();
        let names = parts.iter().map(|part| part.label.clone());
        Some(Figure {
            title: title.to_owned(),
            svg,
            readings: rows.len(),
            note: String::new(),
            columns: ["Day".to_owned()].into_iter().chain(names).collect(),
            rows,
        })
    }
}
