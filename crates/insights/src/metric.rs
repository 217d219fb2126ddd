//! What a metric is: its name, its unit, and which direction is better. Values are shown here and
//! nowhere else, so that a number looks the same in a tool, a report and on a page.

use schemars::JsonSchema;
use serde::Serialize;

use crate::finding::Interval;

/// Which direction of a metric is better for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    Neither,
}

/// What a value is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Shown as hours and minutes.
    Minutes,
    /// A time of day in minutes after midnight.
    ClockMinutes,
    Percent,
    Milliseconds,
    BeatsPerMinute,
    BreathsPerMinute,
    Celsius,
    Kilojoules,
    Kilometres,
    Kilograms,
    /// WHOOP's strain from 0 to 21.
    Strain,
    /// Minutes weighted by heart rate zone.
    ZoneMinutes,
    Count,
}

/// The system that lengths, masses, temperatures and energies are shown in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    pub imperial: bool,
    /// Kilojoules instead of kilocalories.
    pub kilojoules: bool,
}

/// A metric by local day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
    /// Its logarithm is closer to normal, so tests use it and sizes are in percent.
    pub is_log: bool,
}

const KILOJOULES_PER_KILOCALORIE: f64 = 4.184;
const KILOMETRES_PER_MILE: f64 = 1.609_344;
const POUNDS_PER_KILOGRAM: f64 = 2.204_622_6;

impl Unit {
    /// A value for people, such as `7 h 32 min`.
    pub fn show(self, value: f64, units: Units) -> String {
        let tenth = |value: f64, unit: &str| format!("{} {unit}", trimmed(value, 1));
        match self {
            Unit::Minutes => minutes(value),
            Unit::ClockMinutes => clock(value),
            Unit::Percent => format!("{} %", trimmed(value, 0)),
            Unit::Milliseconds => tenth(value, "ms"),
            Unit::BeatsPerMinute => tenth(value, "bpm"),
            Unit::BreathsPerMinute => tenth(value, "breaths/min"),
            Unit::Celsius if units.imperial => tenth(value * 1.8 + 32.0, "°F"),
            Unit::Celsius => tenth(value, "°C"),
            Unit::Kilojoules if units.kilojoules => format!("{} kJ", trimmed(value, 0)),
            Unit::Kilojoules => format!("{} kcal", trimmed(value / KILOJOULES_PER_KILOCALORIE, 0)),
            Unit::Kilometres if units.imperial => tenth(value / KILOMETRES_PER_MILE, "mi"),
            Unit::Kilometres => tenth(value, "km"),
            Unit::Kilograms if units.imperial => tenth(value * POUNDS_PER_KILOGRAM, "lb"),
            Unit::Kilograms => tenth(value, "kg"),
            Unit::ZoneMinutes => format!("{} zone-min", trimmed(value, 0)),
            Unit::Strain | Unit::Count => trimmed(value, 1),
        }
    }

    /// A range, with the unit only once where both ends have it.
    pub fn show_range(self, low: f64, high: f64, units: Units) -> String {
        let (from, to) = (self.show(low, units), self.show(high, units));
        match (self, from.split_once(' '), to.split_once(' ')) {
            (Unit::Minutes | Unit::ClockMinutes, ..) => format!("{from} to {to}"),
            (_, Some((number, unit)), Some((_, same))) if unit == same => {
                format!("{number} to {to}")
            }
            _ => format!("{from} to {to}"),
        }
    }

    /// A difference of two values: a temperature has no offset then, and a time of day is minutes.
    pub fn show_difference(self, value: f64, units: Units) -> String {
        match self {
            Unit::Celsius if units.imperial => format!("{} °F", trimmed(value * 1.8, 2)),
            Unit::Celsius => format!("{} °C", trimmed(value, 2)),
            Unit::ClockMinutes => minutes(value),
            Unit::Percent => format!("{} points", trimmed(value, 1)),
            _ => self.show(value, units),
        }
    }
}

impl Metric {
    /// The range, cut off where this metric has no values. A usual range is computed from its middle, so it
    /// may reach beyond.
    #[must_use]
    pub fn cut(&self, range: Interval) -> Interval {
        // A logarithm may have any value, and every range of it is one of possible values.
        let (low, high) = if self.is_log { UNBOUNDED } else { self.unit.bounds() };
        Interval { low: range.low.max(low), high: range.high.min(high) }
    }
}

const UNBOUNDED: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const STRAIN_MAX: f64 = 21.0;

impl Unit {
    /// The least and the greatest value.
    fn bounds(self) -> (f64, f64) {
        match self {
            // A time of day may be before midnight, which is negative.
            Unit::ClockMinutes | Unit::Celsius => UNBOUNDED,
            Unit::Percent => (0.0, 100.0),
            Unit::Strain => (0.0, STRAIN_MAX),
            _ => (0.0, f64::INFINITY),
        }
    }
}

impl Unit {
    /// What follows a number of this unit, where it fits on an axis.
    fn symbol(self, units: Units) -> &'static str {
        match self {
            Unit::Minutes => " min",
            Unit::Percent => " %",
            Unit::Milliseconds => " ms",
            Unit::BeatsPerMinute => " bpm",
            Unit::BreathsPerMinute => "/min",
            Unit::Celsius if units.imperial => " °F",
            Unit::Celsius => " °C",
            Unit::Kilojoules if units.kilojoules => " kJ",
            Unit::Kilojoules => " kcal",
            Unit::Kilometres if units.imperial => " mi",
            Unit::Kilometres => " km",
            Unit::Kilograms if units.imperial => " lb",
            Unit::Kilograms => " kg",
            Unit::ClockMinutes | Unit::Strain | Unit::ZoneMinutes | Unit::Count => "",
        }
    }

    /// Factor and offset from the stored value to the one that is shown.
    fn scale(self, units: Units) -> (f64, f64) {
        match self {
            Unit::Celsius if units.imperial => (1.8, 32.0),
            Unit::Kilojoules if !units.kilojoules => (1.0 / KILOJOULES_PER_KILOCALORIE, 0.0),
            Unit::Kilometres if units.imperial => (1.0 / KILOMETRES_PER_MILE, 0.0),
            Unit::Kilograms if units.imperial => (POUNDS_PER_KILOGRAM, 0.0),
            _ => (1.0, 0.0),
        }
    }

    /// A value next to a chart, where there is little room.
    pub fn show_short(self, value: f64, units: Units) -> String {
        match self {
            Unit::Minutes => minutes(value),
            Unit::ClockMinutes => clock(value),
            _ => {
                let (factor, offset) = self.scale(units);
                let shown = value * factor + offset;
                let decimals = usize::from(shown.abs() < 100.0 && self != Unit::Percent);
                format!("{}{}", trimmed(shown, decimals), self.symbol(units))
            }
        }
    }

    /// Three to six values of a range that are round as they are shown, with their labels.
    pub(crate) fn ticks(self, (low, high): (f64, f64), units: Units) -> Vec<(f64, String)> {
        let (factor, offset) = self.scale(units);
        let (shown_low, shown_high) = (low * factor + offset, high * factor + offset);
        let step = self.step((shown_high - shown_low) / 5.0);
        let first = (shown_low / step).ceil();
        let values = (0..8).map(|at| (first + f64::from(at)) * step);
        let values = values.take_while(|value| *value <= shown_high + step * 1e-9);
        let decimals = usize::from(step < 1.0) + usize::from(step < 0.1);
        values
            .map(|shown| {
                let label = match self {
                    Unit::Minutes if step >= 60.0 => format!("{} h", trimmed(shown / 60.0, 0)),
                    Unit::Minutes => minutes(shown),
                    Unit::ClockMinutes => clock(shown),
                    _ => trimmed(shown, decimals),
                };
                ((shown - offset) / factor, label)
            })
            .collect()
    }

    /// The smallest round step that is not below `raw`.
    fn step(self, raw: f64) -> f64 {
        const OF_TIME: [f64; 9] = [5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 240.0, 480.0];
        let is_time = matches!(self, Unit::Minutes | Unit::ClockMinutes);
        if let Some(step) = OF_TIME.into_iter().find(|step| is_time && *step >= raw) {
            return step;
        }
        let power = 10_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        steps.into_iter().find(|step| *step >= raw).unwrap_or(raw)
    }
}

/// With at most this many decimals, and no sign for zero.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let zero = text.strip_prefix('-').filter(|rest| rest.chars().all(|c| c == '0'));
    zero.unwrap_or(text).replace('-', "−")
}

fn minutes(value: f64) -> String {
    let sign = if value <= -0.5 { "−" } else { "" };
    let whole = value.abs().round();
    let (hours, rest) = ((whole / 60.0).floor(), whole % 60.0);
    if hours < 1.0 {
        format!("{sign}{rest:.0} min")
    } else {
        format!("{sign}{hours:.0} h {rest:02.0} min")
    }
}

fn clock(value: f64) -> String {
    let whole = value.round().rem_euclid(1440.0);
    format!("{:02.0}:{:02.0}", (whole / 60.0).floor(), whole % 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_off_where_a_metric_has_no_values() {
        let metric =
            |unit, is_log| Metric { name: "x", title: "X", unit, better: Better::Neither, is_log };
        let table = [
            (Unit::Percent, false, (3.6, 110.4), (3.6, 100.0)),
            (Unit::Percent, false, (-12.0, 80.0), (0.0, 80.0)),
            (Unit::Strain, false, (-2.0, 23.0), (0.0, 21.0)),
            (Unit::Minutes, false, (-20.0, 90.0), (0.0, 90.0)),
            (Unit::ClockMinutes, false, (-90.0, 30.0), (-90.0, 30.0)),
            (Unit::Celsius, false, (-1.0, 1.0), (-1.0, 1.0)),
            (Unit::Count, true, (-1.0, 2.0), (-1.0, 2.0)),
        ];
        for (unit, is_log, (low, high), expected) in table {
            let cut = metric(unit, is_log).cut(Interval { low, high });
            assert_eq!((cut.low, cut.high), expected, "{unit:?}");
        }
    }

    #[test]
    fn values_are_shown_as_people_say_them() {
        let metric = Units::default();
        let imperial = Units { imperial: true, kilojoules: true };
        let table = [
            (Unit::Minutes, 452.0, metric, "7 h 32 min"),
            (Unit::Minutes, -31.4, metric, "−31 min"),
            (Unit::Minutes, 59.6, metric, "1 h 00 min"),
            (Unit::ClockMinutes, 1439.8, metric, "00:00"),
            (Unit::Percent, 67.4, metric, "67 %"),
            (Unit::Milliseconds, 61.04, metric, "61 ms"),
            (Unit::Kilojoules, 8368.0, metric, "2000 kcal"),
            (Unit::Kilojoules, 8368.0, imperial, "8368 kJ"),
            (Unit::Celsius, 33.5, imperial, "92.3 °F"),
            (Unit::Kilometres, 16.093_44, imperial, "10 mi"),
            (Unit::Strain, -0.04, metric, "0"),
        ];
        for (unit, value, units, text) in table {
            assert_eq!(unit.show(value, units), text, "{unit:?} {value}");
        }
        assert_eq!(Unit::Celsius.show_difference(0.5, imperial), "0.9 °F");
        assert_eq!(Unit::Percent.show_range(49.0, 100.0, metric), "49 to 100 %");
        assert_eq!(Unit::Minutes.show_range(50.0, 450.0, metric), "50 min to 7 h 30 min");
    }

    #[test]
    fn ticks_are_round_as_shown_and_inside_the_range() {
        let (metric, imperial) = (Units::default(), Units { imperial: true, kilojoules: false });
        let table = [
            (Unit::Percent, (0.0, 100.0), metric, vec!["0", "20", "40", "60", "80", "100"]),
            (Unit::BeatsPerMinute, (41.0, 68.0), metric, vec!["50", "60"]),
            (Unit::Minutes, (300.0, 560.0), metric, vec!["5 h", "6 h", "7 h", "8 h", "9 h"]),
            (
                Unit::Minutes,
                (410.0, 440.0),
                metric,
                vec!["6 h 50 min", "7 h 00 min", "7 h 10 min", "7 h 20 min"],
            ),
            (Unit::ClockMinutes, (-120.0, 60.0), metric, vec!["22:00", "23:00", "00:00", "01:00"]),
            (
                Unit::Kilojoules,
                (0.0, 4184.0),
                metric,
                vec!["0", "200", "400", "600", "800", "1000"],
            ),
            (Unit::Celsius, (33.0, 35.0), imperial, vec!["92", "93", "94", "95"]),
        ];
        for (unit, range, units, labels) in table {
            let ticks = unit.ticks(range, units);
            assert!(ticks.iter().all(|(at, _)| (range.0 - 0.01..=range.1 + 0.01).contains(at)));
            assert_eq!(ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>(), labels);
        }
    }
}
