//! Reads values as leniently as clients are used to: numeric text counts as a number and a
//! whole float as an integer, but nothing is ever rounded or guessed.

use serde_json::Value;

/// Whole numbers beyond this cannot be told apart as floats.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

pub(crate) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => int_text(text.trim()),
        _ => None,
    }
}

fn int_text(text: &str) -> Option<i64> {
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    digits.parse().ok()
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= EXACT_FLOAT_MAX).then_some(number as i64)
}

pub(crate) fn float(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

pub(crate) fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => match number.as_f64()? {
            0.0 => Some(false),
            1.0 => Some(true),
            _ => None,
        },
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_flags_are_read_leniently_and_nothing_is_rounded() {
        for (value, expected) in [
            (json!(123), Some(123)),
            (json!("123"), Some(123)),
            (json!(" 123"), Some(123)),
            (json!(123.0), Some(123)),
            (json!("123.0"), Some(123)),
            (json!(1.5), None),
            (json!("1.5"), None),
            (json!("abc"), None),
            (json!(""), None),
            (json!([1]), None),
        ] {
            assert_eq!(int(&value), expected, "{value}");
        }
        for (value, expected) in [
            (json!(true), Some(true)),
            (json!("true"), Some(true)),
            (json!("1"), Some(true)),
            (json!(1), Some(true)),
            (json!(0), Some(false)),
            (json!("off"), Some(false)),
            (json!(2), None),
            (json!("maybe"), None),
        ] {
            assert_eq!(boolean(&value), expected, "{value}");
        }
    }
}
