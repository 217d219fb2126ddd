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
    Fahrenheit,
    Kilojoules,
    Kilocalories,
    Kilometres,
    Miles,
    /// WHOOP's strain from 0 to 21.
    Strain,
    /// Minutes weighted by heart rate zone.
    ZoneMinutes,
    Count,
}

/// The system of lengths, temperatures and energies that the owner has chosen.
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

/// Turns values of one unit into another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversion {
    factor: f64,
    offset: f64,
}

impl Conversion {
    const NONE: Conversion = Conversion { factor: 1.0, offset: 0.0 };

    pub fn apply(self, value: f64) -> f64 {
        value * self.factor + self.offset
    }
}

impl Metric {
    /// The metric as its owner measures it, and what its stored values become.
    pub fn in_units(self, units: Units) -> (Metric, Conversion) {
        let (unit, conversion) = self.unit.in_units(units);
        (Metric { unit, ..self }, conversion)
    }

    /// A value for people, such as `7 h 32 min`.
    pub(crate) fn show(&self, value: f64) -> String {
        self.unit.show(value)
    }

    /// A range for people.
    pub(crate) fn show_interval(&self, range: Interval) -> String {
        self.unit.show_range(range.low, range.high)
    }
}

impl Unit {
    fn in_units(self, units: Units) -> (Unit, Conversion) {
        let times = |factor: f64| Conversion { factor, offset: 0.0 };
        match self {
            Unit::Celsius if units.imperial => {
                (Unit::Fahrenheit, Conversion { factor: 1.8, offset: 32.0 })
            }
            Unit::Kilometres if units.imperial => (Unit::Miles, times(1.0 / KILOMETRES_PER_MILE)),
            Unit::Kilojoules if !units.kilojoules => {
                (Unit::Kilocalories, times(1.0 / KILOJOULES_PER_KILOCALORIE))
            }
            _ => (self, Conversion::NONE),
        }
    }

    /// A value for people, such as `7 h 32 min`.
    pub fn show(self, value: f64) -> String {
        let tenth = |value: f64, unit: &str| format!("{} {unit}", trimmed(value, 1));
        match self {
            Unit::Minutes => minutes(value),
            Unit::ClockMinutes => clock(value),
            Unit::Percent => format!("{} %", trimmed(value, 0)),
            Unit::Milliseconds => tenth(value, "ms"),
            Unit::BeatsPerMinute => tenth(value, "bpm"),
            Unit::BreathsPerMinute => tenth(value, "breaths/min"),
            Unit::Fahrenheit => tenth(value, "°F"),
            Unit::Celsius => tenth(value, "°C"),
            Unit::Kilojoules => format!("{} kJ", trimmed(value, 0)),
            Unit::Kilocalories => format!("{} kcal", trimmed(value, 0)),
            Unit::Miles => tenth(value, "mi"),
            Unit::Kilometres => tenth(value, "km"),
            Unit::ZoneMinutes => format!("{} zone-min", trimmed(value, 0)),
            Unit::Strain | Unit::Count => trimmed(value, 1),
        }
    }

    /// A range, with the unit only once where both ends have it.
    pub fn show_range(self, low: f64, high: f64) -> String {
        let (from, to) = (self.show(low), self.show(high));
        match (self, from.split_once(' '), to.split_once(' ')) {
            (Unit::Minutes | Unit::ClockMinutes, ..) => format!("{from} to {to}"),
            (_, Some((number, unit)), Some((_, same))) if unit == same => {
                format!("{number} to {to}")
            }
            _ => format!("{from} to {to}"),
        }
    }

    /// A difference of two values: a temperature has no offset then, and a time of day is minutes.
    pub fn show_difference(self, value: f64) -> String {
        match self {
            Unit::Fahrenheit => format!("{} °F", trimmed(value, 2)),
            Unit::Celsius => format!("{} °C", trimmed(value, 2)),
            Unit::ClockMinutes => minutes(value),
            Unit::Percent => format!("{} points", trimmed(value, 1)),
            _ => self.show(value),
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
            Unit::ClockMinutes | Unit::Celsius | Unit::Fahrenheit => UNBOUNDED,
            Unit::Percent => (0.0, 100.0),
            Unit::Strain => (0.0, STRAIN_MAX),
            _ => (0.0, f64::INFINITY),
        }
    }
}

impl Unit {
    /// What follows a number of this unit, where it fits on an axis.
    fn symbol(self) -> &'static str {
        match self {
            Unit::Minutes => " min",
            Unit::Percent => " %",
            Unit::Milliseconds => " ms",
            Unit::BeatsPerMinute => " bpm",
            Unit::BreathsPerMinute => "/min",
            Unit::Fahrenheit => " °F",
            Unit::Celsius => " °C",
            Unit::Kilojoules => " kJ",
            Unit::Kilocalories => " kcal",
            Unit::Miles => " mi",
            Unit::Kilometres => " km",
            Unit::ClockMinutes | Unit::Strain | Unit::ZoneMinutes | Unit::Count => "",
        }
    }

    /// A value next to a chart, where there is little room.
    pub fn show_short(self, value: f64) -> String {
        match self {
            Unit::Minutes => minutes(value),
            Unit::ClockMinutes => clock(value),
            _ => {
                let decimals = usize::from(value.abs() < 100.0 && self != Unit::Percent);
                format!("{}{}", trimmed(value, decimals), self.symbol())
            }
        }
    }

    /// Three to six round values of a range, with their labels.
    pub(crate) fn ticks(self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        let step = self.step((high - low) / 5.0);
        let first = (low / step).ceil();
        let values = (0..8).map(|at| (first + f64::from(at)) * step);
        let values = values.take_while(|value| *value <= high + step * 1e-9);
        let decimals = usize::from(step < 1.0) + usize::from(step < 0.1);
        values
            .map(|value| {
                let label = match self {
                    Unit::Minutes if step >= 60.0 => format!("{} h", trimmed(value / 60.0, 0)),
                    Unit::Minutes => minutes(value),
                    Unit::ClockMinutes => clock(value),
                    _ => trimmed(value, decimals),
                };
                (value, label)
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
        let table = [
            (Unit::Minutes, 452.0, "7 h 32 min"),
            (Unit::Minutes, -31.4, "−31 min"),
            (Unit::Minutes, 59.6, "1 h 00 min"),
            (Unit::ClockMinutes, 1439.8, "00:00"),
            (Unit::Percent, 67.4, "67 %"),
            (Unit::Milliseconds, 61.04, "61 ms"),
            (Unit::Kilocalories, 2000.0, "2000 kcal"),
            (Unit::Kilojoules, 8368.0, "8368 kJ"),
            (Unit::Fahrenheit, 92.3, "92.3 °F"),
            (Unit::Miles, 10.0, "10 mi"),
            (Unit::Strain, -0.04, "0"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.show(value), text, "{unit:?} {value}");
        }
        assert_eq!(Unit::Fahrenheit.show_difference(0.9), "0.9 °F");
        assert_eq!(Unit::Percent.show_range(49.0, 100.0), "49 to 100 %");
        assert_eq!(Unit::Minutes.show_range(50.0, 450.0), "50 min to 7 h 30 min");
    }

    #[test]
    fn a_metric_is_measured_in_the_units_of_its_owner() {
        let metric = Units::default();
        let imperial = Units { imperial: true, kilojoules: true };
        let table = [
            (Unit::Celsius, 33.5, metric, Unit::Celsius, 33.5),
            (Unit::Celsius, 33.5, imperial, Unit::Fahrenheit, 92.3),
            (Unit::Kilojoules, 8368.0, metric, Unit::Kilocalories, 2000.0),
            (Unit::Kilojoules, 8368.0, imperial, Unit::Kilojoules, 8368.0),
            (Unit::Kilometres, 16.093_44, metric, Unit::Kilometres, 16.093_44),
            (Unit::Kilometres, 16.093_44, imperial, Unit::Miles, 10.0),
            (Unit::Minutes, 452.0, imperial, Unit::Minutes, 452.0),
        ];
        for (unit, value, units, own, converted) in table {
            let (found, conversion) = unit.in_units(units);
            assert_eq!(found, own, "{unit:?}");
            assert!((conversion.apply(value) - converted).abs() < 1e-9, "{unit:?}");
        }
    }

    #[test]
    fn ticks_are_round_and_inside_the_range() {
        let table = [
            (Unit::Percent, (0.0, 100.0), vec!["0", "20", "40", "60", "80", "100"]),
            (Unit::BeatsPerMinute, (41.0, 68.0), vec!["50", "60"]),
            (Unit::Minutes, (300.0, 560.0), vec!["5 h", "6 h", "7 h", "8 h", "9 h"]),
            (
                Unit::Minutes,
                (410.0, 440.0),
                vec!["6 h 50 min", "7 h 00 min", "7 h 10 min", "7 h 20 min"],
            ),
            (Unit::ClockMinutes, (-120.0, 60.0), vec!["22:00", "23:00", "00:00", "01:00"]),
            (Unit::Kilocalories, (0.0, 1000.0), vec!["0", "200", "400", "600", "800", "1000"]),
            (Unit::Fahrenheit, (91.4, 95.0), vec!["92", "93", "94", "95"]),
        ];
        for (unit, range, labels) in table {
            let ticks = unit.ticks(range);
            assert!(ticks.iter().all(|(at, _)| (range.0 - 0.01..=range.1 + 0.01).contains(at)));
            assert_eq!(ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>(), labels);
        }
    }
}
