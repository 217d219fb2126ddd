//! One row of an export table, read cell by cell. An empty cell is `None`, never zero; an error names
//! the column, so that the owner can find the cell.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::columns::{Column, Decimals, Header};

/// A row under its header.
pub(super) struct ExportRow<'a> {
    pub(super) header: &'a Header,
    pub(super) row: &'a csv::StringRecord,
}

/// An instant with the owner's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) at: Timestamp,
    pub(super) offset: Offset,
}

impl ExportRow<'_> {
    pub(super) fn text(&self, column: Column) -> Option<&str> {
        let text = self.row.get(self.header.position(column)?)?.trim();
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn number(&self, column: Column) -> Result<Option<f64>, String> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let parsed = match self.header.decimals {
            Decimals::Comma => text.replacen(',', ".", 1).parse::<f64>(),
            Decimals::Unclear if text.contains(',') => {
                let why = "has a comma that may be of decimals or of thousands";
                return Err(format!("{column} {why}"));
            }
            Decimals::Point | Decimals::Unclear => text.parse::<f64>(),
        };
        match parsed {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(format!("{column} is no number")),
        }
    }

    pub(super) fn truth(&self, column: Column) -> Result<Option<bool>, String> {
        match self.text(column).map(str::to_lowercase).as_deref() {
            None => Ok(None),
            Some("true" | "yes" | "1" | "verdadero" | "sí" | "si") => Ok(Some(true)),
            Some("false" | "no" | "0" | "falso") => Ok(Some(false)),
            Some(_) => Err(format!("{column} is neither true nor false")),
        }
    }

    /// The offset of the row; tables that lack the column take it from the cycle of the row.
    pub(super) fn offset(&self) -> Result<Option<Offset>, String> {
        let Some(text) = self.text(Column::Zone) else { return Ok(None) };
        offset(text).map(Some).ok_or_else(|| "the time zone is not an offset".to_owned())
    }

    pub(super) fn moment(&self, column: Column, offset: Offset) -> Result<Option<Moment>, String> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let at = instant(text, offset).ok_or_else(|| format!("{column} is not a time"))?;
        Ok(Some(Moment { at, offset }))
    }
}

impl Moment {
    pub(super) fn us(self) -> i64 {
        self.at.as_microsecond()
    }

    /// In the API's form.
    pub(super) fn utc(self) -> String {
        format!("{:.3}", self.at)
    }

    pub(super) fn offset_text(self) -> String {
        let seconds = self.offset.seconds();
        let sign = if seconds < 0 { '-' } else { '+' };
        let minutes = seconds.unsigned_abs() / 60;
        format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// A wall-clock time in the offset of its row, or an instant that names its own.
fn instant(text: &str, offset: Offset) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let civil = text.parse::<DateTime>().ok()?;
    Some(civil.to_zoned(TimeZone::fixed(offset)).ok()?.timestamp())
}

/// `UTC+02:00`, `UTCZ`, `GMT-5`, `-05:00`, `+0530`, `Z`.
fn offset(text: &str) -> Option<Offset> {
    let upper = text.trim().to_ascii_uppercase();
    let rest = upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT")).unwrap_or(&upper);
    let rest = rest.trim();
    if rest.is_empty() || rest == "Z" {
        return Some(Offset::UTC);
    }
    let (sign, digits) = match rest.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-" | "−", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let (hours, minutes) = (hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?);
    if !(0..=14).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn offsets_are_read_in_every_form_seen() {
        for (text, seconds) in [
            ("UTC+02:00", Some(7200)),
            ("UTCZ", Some(0)),
            ("UTC", Some(0)),
            ("GMT-5", Some(-18_000)),
            ("-05:00", Some(-18_000)),
            ("+0530", Some(19_800)),
            ("Z", Some(0)),
            ("Europe/Berlin", None),
            ("UTC+25:00", None),
            ("", Some(0)),
        ] {
            assert_eq!(offset(text).map(Offset::seconds), seconds, "{text}");
        }
    }

    #[test]
    fn a_wall_clock_time_becomes_the_instant_it_was() {
        let two = offset("UTC+02:00").unwrap();
        let expected: Timestamp = "2026-05-09T21:15:00Z".parse().unwrap();
        for text in ["2026-05-09 23:15:00", "2026-05-09T23:15", "2026-05-09T21:15:00Z"] {
            assert_eq!(instant(text, two), Some(expected), "{text}");
        }
        assert_eq!(instant("yesterday", two), None);
        let moment = Moment { at: expected, offset: two };
        assert_eq!(
            (moment.utc().as_str(), moment.offset_text().as_str()),
            ("2026-05-09T21:15:00.000Z", "+02:00")
        );
    }
}
