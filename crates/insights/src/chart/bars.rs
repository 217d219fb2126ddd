//! Bars by day from zero: one value with a line over it, or parts that add up.

use std::fmt::Write as _;

use super::mark::{Mark, marks};
use super::{Chart, Frame, HEIGHT, Plot, is_stop, mark_width};
use crate::sample::real;
use crate::series::Series;

/// A named series of a chart with several.
#[derive(Clone, Debug)]
pub struct Part {
    /// Written right of the plot.
    pub label: String,
    pub series: Series,
}

/// Labels below many columns at most, so that those of hours do not touch on a phone.
const LABELS_MAX: usize = 4;
/// The share of its day that a bar fills.
const FILL: f64 = 0.72;

/// Bars from zero, with a second series as a line, such as the need over the sleep.
pub fn bars(frame: Frame<'_>, marks: &[Mark], overlay: Option<&Part>) -> Option<Chart> {
    let other = overlay.map(|part| super::marks(&part.series.between(frame.from, frame.to), 1));
    let other = other.unwrap_or_default();
    marks.first()?;
    let values = marks.iter().chain(&other).map(|mark| mark.value);
    let mut plot = Plot::around(frame, values.chain([0.0]))?;
    plot.y.0 = plot.y.0.max(0.0);
    let mut svg = plot.open();
    plot.axis(&mut svg);
    let days = f64::from(frame.to.since(frame.from)) + 1.0;
    for (at, mark) in marks.iter().enumerate() {
        let text = mark.text(&plot.show(mark.value));
        let width = (f64::from(mark.to.since(mark.from)) + FILL) / days * 100.0;
        let (x, y) = (plot.x(mark.middle()), plot.y(mark.value));
        let height = plot.y(plot.y.0) - y;
        Plot::open_mark(&mut svg, is_stop(marks.len(), at, false), &text);
        let _ = write!(
            svg,
            r#"<rect class="bar" x="{:.2}%" y="{y:.1}" width="{width:.2}%" height="{height:.1}"/>"#,
            x - width / 2.0,
        );
        Plot::close_mark(&mut svg, (x, mark_width(marks.len()).min(width / FILL)), &text);
    }
    if let (Some(part), Some(last)) = (overlay, other.last()) {
        trace(&mut svg, &plot, &other);
        Plot::margin_label(&mut svg, "value other", plot.y(last.value), &part.label);
    }
    plot.dates(&mut svg);
    svg.push_str("</svg>");
    Some(Chart { svg })
}

fn trace(svg: &mut String, plot: &Plot<'_>, marks: &[Mark]) {
    let at = |mark: &Mark| format!("{:.1},{:.1}", plot.x(mark.middle()) * 10.0, plot.y(mark.value));
    let points: Vec<String> = marks.iter().map(at).collect();
    let _ = write!(
        svg,
        r#"<svg width="100%" height="{HEIGHT}" viewBox="0 0 1000 {HEIGHT}" preserveAspectRatio="none"><polyline class="trace other" points="{}"/></svg>"#,
        points.join(" ")
    );
}

/// Parts that add up, the first at the bottom. Days on which a part is missing are left out.
pub fn stacked(frame: Frame<'_>, parts: &[Part]) -> Option<Chart> {
    let first = parts.first()?;
    let of_day = |mark: &Mark| -> Option<Vec<f64>> {
        parts.iter().map(|part| part.series.get(mark.from)).collect()
    };
    let days: Vec<(Mark, Vec<f64>)> = marks(&first.series.between(frame.from, frame.to), 1)
        .into_iter()
        .filter_map(|mark| Some((mark, of_day(&mark)?)))
        .collect();
    let last = days.last()?.clone();
    let sums = days.iter().map(|(_, values)| values.iter().sum::<f64>());
    let mut plot = Plot::around(frame, sums.chain([0.0]))?;
    plot.y.0 = 0.0;
    let mut svg = plot.open();
    plot.axis(&mut svg);
    let width = FILL / (f64::from(frame.to.since(frame.from)) + 1.0) * 100.0;
    for (at, (mark, values)) in days.iter().enumerate() {
        let named = parts.iter().zip(values);
        let named: Vec<String> =
            named.map(|(part, value)| format!("{} {}", part.label, plot.show(*value))).collect();
        let text = format!("{}: {}", mark.when(), named.join(", "));
        Plot::open_mark(&mut svg, is_stop(days.len(), at, false), &text);
        let x = plot.x(mark.middle());
        for (number, (low, high)) in spans(values).into_iter().enumerate() {
            let (top, height) = (plot.y(high), plot.y(low) - plot.y(high));
            let _ = write!(
                svg,
                r#"<rect class="part part{number}" x="{:.2}%" y="{top:.1}" width="{width:.2}%" height="{height:.1}"/>"#,
                x - width / 2.0,
            );
        }
        Plot::close_mark(&mut svg, (x, width / FILL), &text);
    }
    labels(&mut svg, &plot, parts, &last.1);
    plot.dates(&mut svg);
    svg.push_str("</svg>");
    Some(Chart { svg })
}

/// The parts named right of the last bar, not closer than a line of text.
fn labels(svg: &mut String, plot: &Plot<'_>, parts: &[Part], values: &[f64]) {
    let mut below = HEIGHT;
    for (part, (low, high)) in parts.iter().zip(spans(values)) {
        let y = plot.y(f64::midpoint(low, high)).min(below - 14.0);
        below = y;
        Plot::margin_label(svg, "label", y, &part.label);
    }
}

/// From where to where each value reaches when they are put on each other.
fn spans(values: &[f64]) -> Vec<(f64, f64)> {
    let sums = values.iter().scan(0.0, |sum, value| {
        *sum += value;
        Some((*sum - value, *sum))
    });
    sums.collect()
}

/// Bars without days: one for each label, such as an hour.
pub fn columns(title: &str, values: &[(String, f64)]) -> Option<Chart> {
    let highest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let all = values.len();
    if highest <= 0.0 {
        return None;
    }
    let size = format!(r#"width="100%" height="{HEIGHT}""#);
    let mut svg = super::open("chart", &size, title);
    let (bottom, room) = (HEIGHT - super::BOTTOM, HEIGHT - super::TOP - super::BOTTOM);
    for (at, (label, value)) in values.iter().enumerate() {
        let step = 100.0 / real(all);
        let x = (real(at) + 0.5) * step;
        let height = value / highest * room;
        let text = format!("{label}: {value}");
        Plot::open_mark(&mut svg, is_stop(all, at, false), &text);
        let _ = write!(
            svg,
            r#"<rect class="bar" x="{:.2}%" y="{:.1}" width="{:.2}%" height="{height:.1}"/>"#,
            x - step * FILL / 2.0,
            bottom - height,
            step * FILL,
        );
        Plot::close_mark(&mut svg, (x, step), &text);
        if all <= 7 || at % all.div_ceil(LABELS_MAX) == 0 {
            let _ = write!(
                svg,
                r#"<text class="label" x="{x:.2}%" y="{}" text-anchor="middle">{}</text>"#,
                HEIGHT - 4.0,
                super::escaped(label)
            );
        }
    }
    let _ = write!(
        svg,
        r#"<line class="grid" x1="0" x2="100%" y1="{bottom}" y2="{bottom}"/><text class="label" x="-8" y="{:.1}" text-anchor="end">{highest}</text><text class="label" x="-8" y="{:.1}" text-anchor="end">0</text></svg>"#,
        super::TOP + 4.0,
        bottom + 4.0
    );
    Some(Chart { svg })
}
