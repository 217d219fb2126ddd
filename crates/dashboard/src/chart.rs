//! Charts as SVG: styled by CSS classes, readable without colour, a value on every mark. Pure functions of
//! their data; the page puts a data table below each.

use serde::Serialize;

/// One bar with two stacked parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bar {
    /// What the bar is for, such as an hour.
    pub(crate) label: String,
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
}

/// A bar placed in the drawing, in its units.
pub(crate) struct Placed<'b> {
    pub(crate) bar: &'b Bar,
    pub(crate) x: u64,
    pub(crate) width: u64,
    pub(crate) allowed_y: u64,
    pub(crate) allowed_height: u64,
    pub(crate) refused_y: u64,
    pub(crate) refused_height: u64,
}

pub(crate) const HEIGHT: u64 = 120;
const STEP: u64 = 20;
const GAP: u64 = 4;

/// The width of a drawing with so many bars.
pub(crate) fn width(bars: usize) -> u64 {
    u64::try_from(bars).unwrap_or(u64::MAX).saturating_mul(STEP)
}

/// Bars of a common scale. The highest fills the drawing; a value that is not zero is at least one unit
/// high, so that it can be seen.
pub(crate) fn placed(bars: &[Bar]) -> Vec<Placed<'_>> {
    let highest = bars.iter().map(|bar| bar.allowed + bar.refused).max().unwrap_or(0).max(1);
    let height = |value: u64| match value {
        0 => 0,
        value => (value.saturating_mul(HEIGHT) / highest).max(1),
    };
    let place = |(number, bar): (usize, &'_ Bar)| {
        let (allowed_height, refused_height) = (height(bar.allowed), height(bar.refused));
        let allowed_y = HEIGHT.saturating_sub(allowed_height);
        (
            number,
            allowed_y,
            allowed_height,
            allowed_y.saturating_sub(refused_height),
            refused_height,
        )
    };
    bars.iter()
        .enumerate()
        .map(|(number, bar)| {
            let (number, allowed_y, allowed_height, refused_y, refused_height) =
                place((number, bar));
            Placed {
                bar,
                x: width(number) + GAP / 2,
                width: STEP - GAP,
                allowed_y,
                allowed_height,
                refused_y,
                refused_height,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_share_a_scale_and_small_values_stay_visible() {
        let bar = |allowed, refused| Bar { label: String::new(), allowed, refused };
        let bars = [bar(0, 0), bar(1, 0), bar(900, 100)];
        let placed = placed(&bars);
        let heights: Vec<_> =
            placed.iter().map(|bar| (bar.allowed_height, bar.refused_height)).collect();
        assert_eq!(heights, [(0, 0), (1, 0), (108, 12)]);
        assert_eq!(placed.last().map(|bar| bar.refused_y), Some(0));
    }
}
