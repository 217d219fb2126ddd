//! Exact decimals. An [`Amount`] counts what a limit counts; [`compare_numbers`] orders two JSON numbers
//! of any size by their written value. Neither ever passes through a float.

use std::cmp::Ordering;
use std::fmt;

use decimal::Decimal;

mod decimal;

/// Digits after the point that an amount keeps.
const FRACTION_DIGITS: i128 = 18;
const SCALE: i128 = 1_000_000_000_000_000_000;
/// No amount has more digits before the point than this.
const WHOLE_DIGITS_MAX: i128 = 21;

/// A non-negative decimal with 18 digits after the point, kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(i128);

impl Amount {
    pub const ZERO: Amount = Amount(0);
    pub const ONE: Amount = Amount(SCALE);
    pub const MAX: Amount = Amount(i128::MAX);

    /// Reads the text of a JSON number. `None` for a negative number, for one that needs more than 18
    /// digits after the point, for one that is too large, and for a text that is not a JSON number.
    pub fn parse(number: &str) -> Option<Amount> {
        let decimal = Decimal::of(number)?;
        if decimal.is_zero() {
            return Some(Amount::ZERO);
        }
        let lowest_place = decimal.lowest_place() + FRACTION_DIGITS;
        let fits = !decimal.negative && decimal.magnitude <= WHOLE_DIGITS_MAX && lowest_place >= 0;
        if !fits {
            return None;
        }
        let mut units: i128 = 0;
        for digit in decimal.digits() {
            units = units.checked_mul(10)?.checked_add(i128::from(digit))?;
        }
        let zeros = u32::try_from(lowest_place).ok()?;
        units.checked_mul(10_i128.checked_pow(zeros)?).map(Amount)
    }

    #[must_use]
    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        self.0.checked_add(other.0).map(Amount)
    }

    /// `None` when the result would be negative.
    #[must_use]
    pub fn checked_sub(self, other: Amount) -> Option<Amount> {
        self.0.checked_sub(other.0).and_then(Amount::from_units)
    }

    /// The amount in units of 10⁻¹⁸, for storage.
    pub const fn units(self) -> i128 {
        self.0
    }

    /// The amount from units of 10⁻¹⁸; `None` when negative.
    pub const fn from_units(units: i128) -> Option<Amount> {
        if units >= 0 { Some(Amount(units)) } else { None }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / SCALE, self.0 % SCALE);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{fraction:018}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// Orders two JSON numbers by value. Both texts must be JSON numbers, as the reader gives them; a text
/// that is not counts as zero.
pub fn compare_numbers(left: &str, right: &str) -> Ordering {
    if let (Some(left), Some(right)) = (small_whole(left), small_whole(right)) {
        return left.cmp(&right);
    }
    let zero = Decimal::ZERO;
    Decimal::of(left).unwrap_or(zero).cmp_value(&Decimal::of(right).unwrap_or(zero))
}

/// The whole number that a text is by its value: `60`, and `60.0` or `6e1` as well, as in JSON Schema.
pub(crate) fn whole(number: &str) -> Option<u64> {
    let units = Amount::parse(number)?.units();
    if units % SCALE == 0 { u64::try_from(units / SCALE).ok() } else { None }
}

/// Whether a text follows the grammar of a JSON number.
pub(crate) fn is_number(text: &str) -> bool {
    Decimal::of(text).is_some()
}

/// The common case: an integer of few digits.
fn small_whole(text: &str) -> Option<i64> {
    if text.len() > 18 || text.starts_with('+') { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests;
