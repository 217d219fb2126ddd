//! The arithmetic of flat records: tenths of seconds, kilocalories, and times on the wearer's clock.

use serde_json::Value;

use crate::when;

/// Kilocalories in a kilojoule as WHOOP's clients have always counted it; not 1/4.184.
const KILOCALORIES_PER_KILOJOULE: f64 = 0.239_006;

/// Up to here a thousandth is told from the middle of two tenths in binary, too: a thousand years.
const MILLIS_EXACT_MAX: i64 = 1 << 45;

/// Rounds the exact binary value to one decimal, ties to even. Scaling by ten first would be wrong
/// for one value in two hundred, and WHOOP's values are multiples of ten milliseconds.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of a night are far below 2^53")]
pub(super) fn seconds(millis: i64) -> f64 {
    let (tenths, over) = (millis / 100, millis % 100);
    // Away from the middle between two tenths whole numbers say the same, and much sooner.
    if (0..MILLIS_EXACT_MAX).contains(&millis) && over != 50 {
        return (tenths + i64::from(over > 50)) as f64 / 10.0;
    }
    let exact = millis as f64 / 1000.0;
    format!("{exact:.1}").parse().unwrap_or(exact)
}

#[expect(clippy::cast_possible_truncation, reason = "a day's energy is far below 2^53")]
pub(super) fn calories(kilojoule: &Value) -> Value {
    match kilojoule.as_f64() {
        Some(kilojoule) => {
            Value::from((kilojoule * KILOCALORIES_PER_KILOJOULE).round_ties_even() as i64)
        }
        None => Value::Null,
    }
}

/// WHOOP documents 0 to 100 and sends 0 to 1. In percent, to two decimals.
pub(super) fn percentage(share: &Value) -> Value {
    match share.as_f64() {
        Some(share) => {
            let percent = if (0.0..=1.0).contains(&share) { share * 100.0 } else { share };
            Value::from((percent * 100.0).round() / 100.0)
        }
        None => Value::Null,
    }
}

/// `Z`, `±hh:mm` and `±hh`, as WHOOP writes offsets; anything else has no local time.
pub(super) fn offset_seconds(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "00"));
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn two_digits(text: &str) -> Option<i32> {
    (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

pub(super) fn local_text(text: &str, offset_s: i32) -> Option<String> {
    when::instant_us(text).and_then(|instant_us| when::local_text(instant_us, offset_s))
}
