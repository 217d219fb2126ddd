//! A line by day over its usual range, large for reading and small for comparing at a glance.

use std::fmt::Write as _;

use super::mark::Mark;
use super::{Chart, Frame, HEIGHT, Plot, is_stop, mark_width, open};
use crate::finding::Interval;

/// Up to so many marks each have a visible dot.
const DOTS_MAX: usize = 62;
/// The distance of two texts right of the plot, in pixels.
const TEXT_DISTANCE: f64 = 15.0;

/// A line over its usual range. A missing day is a gap.
pub fn line(frame: Frame<'_>, marks: &[Mark], usual: Option<Interval>) -> Option<Chart> {
    let range = usual.iter().flat_map(|range| [range.low, range.high]);
    let values = marks.iter().map(|mark| mark.value);
    marks.first()?;
    let plot = Plot::around(frame, values.chain(range))?;
    let mut svg = plot.open();
    if let Some(range) = usual {
        let (top, bottom) = (plot.y(range.high), plot.y(range.low));
        let height = bottom - top;
        let _ = write!(
            svg,
            r#"<rect class="band" x="0" y="{top:.1}" width="100%" height="{height:.1}"/>"#
        );
    }
    plot.axis(&mut svg);
    polylines(&mut svg, &plot, marks);
    for (at, mark) in marks.iter().enumerate() {
        dot(&mut svg, &plot, mark, (at, marks.len()), usual);
    }
    plot.dates(&mut svg);
    end_labels(&mut svg, &plot, marks, usual);
    svg.push_str("</svg>");
    Some(Chart { svg })
}

/// The runs of marks without a gap, in a drawing of its own that is stretched to the width.
fn polylines(svg: &mut String, plot: &Plot<'_>, marks: &[Mark]) {
    let _ = write!(
        svg,
        r#"<svg width="100%" height="{HEIGHT}" viewBox="0 0 1000 {HEIGHT}" preserveAspectRatio="none">"#
    );
    for run in marks.chunk_by(|a, b| b.from.since(a.to) <= gap(a)) {
        let at =
            |mark: &Mark| format!("{:.1},{:.1}", plot.x(mark.middle()) * 10.0, plot.y(mark.value));
        let points: Vec<String> = run.iter().map(at).collect();
        let _ = write!(svg, r#"<polyline class="trace" points="{}"/>"#, points.join(" "));
    }
    svg.push_str("</svg>");
}

/// Days between two marks that are still one line. A week may begin without its first days.
fn gap(mark: &Mark) -> i32 {
    if mark.from == mark.to { 1 } else { 7 }
}

fn dot(
    svg: &mut String,
    plot: &Plot<'_>,
    mark: &Mark,
    (at, all): (usize, usize),
    usual: Option<Interval>,
) {
    // A mean of many days leaves the range of single days rarely, and means little there.
    let is_out = mark.n == 1 && usual.is_some_and(|range| !range.contains(mark.value));
    let class = match (is_out, all <= DOTS_MAX || at + 1 == all) {
        (true, _) => "dot out",
        (false, true) => "dot",
        (false, false) => "dot faint",
    };
    let (x, y) = (plot.x(mark.middle()), plot.y(mark.value));
    let text = mark.text(&plot.show(mark.value));
    Plot::open_mark(svg, is_stop(all, at, is_out), &text);
    if is_out {
        // A diamond, so that it is not the color alone that says it.
        let _ = write!(
            svg,
            r#"<svg class="pin" x="{x:.2}%" y="{y:.1}"><path class="{class}" d="M0-4.5L4.5 0L0 4.5L-4.5 0Z"/></svg>"#
        );
    } else {
        let _ = write!(svg, r#"<circle class="{class}" cx="{x:.2}%" cy="{y:.1}" r="2.5"/>"#);
    }
    Plot::close_mark(svg, (x, mark_width(all)), &text);
}

/// The last value, and which range the band is, without a legend.
fn end_labels(svg: &mut String, plot: &Plot<'_>, marks: &[Mark], usual: Option<Interval>) {
    let Some(last) = marks.last() else { return };
    let y = plot.y(last.value);
    let text = plot.frame.metric.unit.show_short(last.value);
    Plot::margin_label(svg, "value", y, &text);
    if let Some(range) = usual {
        let middle = plot.y(f64::midpoint(range.low, range.high));
        let away = middle - y;
        let free =
            if away.abs() >= TEXT_DISTANCE { middle } else { y + TEXT_DISTANCE.copysign(away) };
        Plot::margin_label(svg, "label", free, "usual");
    }
}

/// The same without axes, as high as a line of text, for a list of metrics.
pub fn spark(frame: Frame<'_>, marks: &[Mark], usual: Option<Interval>) -> Option<Chart> {
    const WIDTH: f64 = 160.0;
    const LOW: f64 = 36.0;
    let range = usual.iter().flat_map(|range| [range.low, range.high]);
    let last = marks.last()?;
    let plot = Plot::around(frame, marks.iter().map(|mark| mark.value).chain(range))?;
    let x = |mark: &Mark| plot.x(mark.middle()) * (WIDTH - 8.0) / 100.0 + 4.0;
    let y = |value: f64| LOW - 4.0 - (value - plot.y.0) / (plot.y.1 - plot.y.0) * (LOW - 8.0);
    let size = format!(r#"width="{WIDTH}" height="{LOW}" viewBox="0 0 {WIDTH} {LOW}""#);
    let mut svg = open("spark", &size, frame.title);
    if let Some(range) = usual {
        let (top, height) = (y(range.high), y(range.low) - y(range.high));
        let _ = write!(
            svg,
            r#"<rect class="band" x="0" y="{top:.1}" width="{WIDTH}" height="{height:.1}"/>"#
        );
    }
    for run in marks.chunk_by(|a, b| b.from.since(a.to) <= gap(a)) {
        let at = |mark: &Mark| format!("{:.1},{:.1}", x(mark), y(mark.value));
        let points: Vec<String> = run.iter().map(at).collect();
        let _ = write!(svg, r#"<polyline class="trace" points="{}"/>"#, points.join(" "));
    }
    let _ = write!(
        svg,
        r#"<circle class="dot" cx="{:.1}" cy="{:.1}" r="2.5"/></svg>"#,
        x(last),
        y(last.value)
    );
    Some(Chart { svg })
}
