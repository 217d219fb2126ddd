//! What a metric is: its name, its unit, and which direction is better. Values are shown here and
//! nowhere else, so that a number looks the same in a tool, a report and on a page.

use schemars::JsonSchema;
use serde::Serialize;

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
    }
}
