//! Points of two metrics with the least-squares line.

use std::fmt::Write as _;

use super::{BOTTOM, Chart, HEIGHT, TOP, escaped, is_stop, open};
use crate::metric::Metric;
use crate::sample;
use crate::series::Pair;

/// A scatter plot, with the name of each axis.
#[derive(Clone, Copy, Debug)]
pub struct Scatter<'a> {
    pub title: &'a str,
    pub pairs: &'a [Pair],
    pub x: (&'a Metric, &'a str),
    pub y: (&'a Metric, &'a str),
}

/// The range of the values, with some air.
fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    let air = ((high - low) * 0.05).max(1e-6);
    Some((low - air, high + air))
}

pub fn scatter(own: &Scatter<'_>) -> Option<Chart> {
    let xs: Vec<f64> = own.pairs.iter().map(|pair| pair.x).collect();
    let ys: Vec<f64> = own.pairs.iter().map(|pair| pair.y).collect();
    let ((low_x, high_x), (low_y, high_y)) = (range(&xs)?, range(&ys)?);
    let x = |value: f64| (value - low_x) / (high_x - low_x) * 100.0;
    let y =
        |value: f64| HEIGHT - BOTTOM - (value - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open("chart", &format!(r#"width="100%" height="{HEIGHT}""#), own.title);
    axes(&mut svg, own, ((low_x, high_x), &x), ((low_y, high_y), &y));
    for (at, pair) in own.pairs.iter().enumerate() {
        let text = format!(
            "{}: {} {}, {} {}",
            pair.day,
            own.x.1,
            own.x.0.unit.show(pair.x),
            own.y.1,
            own.y.0.unit.show(pair.y),
        );
        let text = escaped(&text);
        let stop = if is_stop(own.pairs.len(), at, false) { r#" tabindex="0""# } else { "" };
        let _ = write!(
            svg,
            r#"<g class="mark"{stop}><title>{text}</title><circle class="point" cx="{:.2}%" cy="{:.1}" r="3"/></g>"#,
            x(pair.x),
            y(pair.y)
        );
    }
    let (mean_x, mean_y) = (sample::mean(&xs)?, sample::mean(&ys)?);
    let products: f64 = own.pairs.iter().map(|pair| (pair.x - mean_x) * (pair.y - mean_y)).sum();
    let squares: f64 = xs.iter().map(|value| (value - mean_x).powi(2)).sum();
    let slope = if squares > 0.0 { products / squares } else { 0.0 };
    let on_line = |at: f64| y((mean_y + slope * (at - mean_x)).clamp(low_y, high_y));
    let _ = write!(
        svg,
        r#"<line class="fit" x1="0" y1="{:.1}" x2="100%" y2="{:.1}"/>"#,
        on_line(low_x),
        on_line(high_x)
    );
    super::Plot::margin_label(&mut svg, "value other", on_line(high_x), "fit");
    svg.push_str("</svg>");
    Some(Chart { svg })
}

type Position<'a> = ((f64, f64), &'a dyn Fn(f64) -> f64);

/// Round values on both axes, and their names at the ends.
fn axes(svg: &mut String, own: &Scatter<'_>, (of_x, x): Position<'_>, (of_y, y): Position<'_>) {
    for (value, label) in own.y.0.unit.ticks(of_y) {
        let at = y(value);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="0" x2="100%" y1="{at:.1}" y2="{at:.1}"/><text class="label" x="-8" y="{:.1}" text-anchor="end">{}</text>"#,
            at + 4.0,
            escaped(&label)
        );
    }
    for (value, label) in own.x.0.unit.ticks(of_x) {
        let _ = write!(
            svg,
            r#"<text class="label" x="{:.2}%" y="{}" text-anchor="middle">{}</text>"#,
            x(value),
            HEIGHT - 4.0,
            escaped(&label)
        );
    }
    let _ = write!(
        svg,
        r#"<text class="label" x="0" y="12">{}</text><text class="label" x="100%" y="{}" text-anchor="end">{} →</text>"#,
        escaped(&format!("↑ {}", own.y.1)),
        HEIGHT - BOTTOM - 6.0,
        escaped(own.x.1)
    );
}
