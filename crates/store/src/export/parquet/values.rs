//! Parses the values of a record as the types of their columns.

use std::borrow::Cow;
use std::io;

use super::mismatch;
use crate::export::python;

/// Integers of so many digits are exact as doubles.
const EXACT_DIGITS_MAX: usize = 15;
const POWERS_OF_TEN: [f64; 9] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// A text that `is_plain` has no escapes.
pub(super) fn text(json: &str, is_plain: bool) -> io::Result<Cow<'_, str>> {
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    match inner {
        Some(inner) if is_plain || !inner.as_bytes().contains(&b'\\') => Ok(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str(json).map(Cow::Owned).map_err(|_| mismatch("not a text")),
        None => Err(mismatch("not a text")),
    }
}

pub(super) fn dumped(json: &str) -> String {
    let mut out = String::new();
    python::dump(json, &mut out);
    out
}

pub(super) fn integer(json: &str) -> io::Result<i64> {
    let whole = json.strip_suffix(".0").unwrap_or(json);
    whole.parse().map_err(|_| mismatch("not a whole number"))
}

pub(super) fn double(json: &str) -> io::Result<f64> {
    match short_decimal(json) {
        Some(value) => Ok(value),
        None => json.parse().map_err(|_| mismatch("not a number")),
    }
}

/// A number of few digits, as nearly all are. Its digits without the point and the power of ten are
/// exact doubles, so their quotient is the nearest double, the same as from the general parser.
fn short_decimal(json: &str) -> Option<f64> {
    let digits = json.strip_prefix('-').unwrap_or(json).as_bytes();
    if digits.len() > EXACT_DIGITS_MAX {
        return None;
    }
    let (mut number, mut decimals) = (0_u64, None);
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                number = number * 10 + u64::from(byte - b'0');
                decimals = decimals.map(|count: usize| count + 1);
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            _ => return None,
        }
    }
    let has_digits = digits.first().is_some_and(u8::is_ascii_digit);
    let power = POWERS_OF_TEN.get(decimals.unwrap_or(0)).filter(|_| has_digits)?;
    #[expect(clippy::cast_precision_loss, reason = "so few digits are less than 2^53")]
    let value = number as f64 / power;
    Some(if json.starts_with('-') { -value } else { value })
}

pub(super) fn truth(json: &str) -> io::Result<bool> {
    json.parse().map_err(|_| mismatch("neither true nor false"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_is_not_a_number_is_refused() {
        for json in ["", "-", ".", "-.", "1.2.3", "1,5", "x", "1x", "--1", "+-1", "true"] {
            assert!(double(json).is_err(), "{json}");
        }
    }

    #[test]
    fn few_digits_are_read_without_the_general_reader() {
        for json in ["0", "-0.0", "57.0", "27120.0", "12.3456789", "123456789012345"] {
            let value = short_decimal(json).unwrap();
            assert_eq!(value.to_bits(), json.parse::<f64>().unwrap().to_bits(), "{json}");
        }
        for json in ["1e5", "0.1234567890123456", "1234567890123456", "0.000000001"] {
            assert_eq!(short_decimal(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_read_as_the_general_reader_does(json in "-?[0-9]{1,14}(\\.[0-9]{0,12})?") {
            let expected: f64 = json.parse().unwrap();
            prop_assert_eq!(double(&json).unwrap().to_bits(), expected.to_bits());
        }

        #[test]
        fn any_written_text_reads_back_the_same(json in "[-+.0-9eE]{0,17}") {
            prop_assert_eq!(double(&json).ok(), json.parse().ok());
        }
    }
}
