//! Reads values as leniently as clients are used to: numeric text counts as a number and a
//! whole float as an integer, but nothing is ever rounded or guessed.

use serde_json::{Map, Value};

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

/// The arguments of one call. Each reader says which argument is wrong, never what it held.
pub(crate) struct Arguments<'a>(pub(crate) &'a Map<String, Value>);

/// An argument that is missing or cannot be read; becomes an `isError` answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misread(pub(crate) String);

impl<'a> Arguments<'a> {
    /// Absent means the default; null does not, because the parameter is a plain boolean.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Misread> {
        match self.0.get(name) {
            None => Ok(default),
            Some(value) => boolean(value).ok_or_else(|| wrong(name, "true or false")),
        }
    }

    pub(crate) fn optional_int(&self, name: &str) -> Result<Option<i64>, Misread> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => int(value).map(Some).ok_or_else(|| wrong(name, "a whole number")),
        }
    }

    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64, Misread> {
        match self.0.get(name) {
            None => Ok(default),
            Some(value) => int(value).ok_or_else(|| wrong(name, "a whole number")),
        }
    }

    pub(crate) fn required_int(&self, name: &str) -> Result<i64, Misread> {
        let value = self.0.get(name).ok_or_else(|| missing(name))?;
        int(value).ok_or_else(|| wrong(name, "a whole number"))
    }

    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Misread> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a string")),
        }
    }

    pub(crate) fn required_text(&self, name: &str) -> Result<&'a str, Misread> {
        match self.0.get(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(wrong(name, "a string")),
            None => Err(missing(name)),
        }
    }

    /// A list of names. Some clients send the list as JSON text; a bare word is refused.
    pub(crate) fn optional_names(&self, name: &str) -> Result<Option<Vec<String>>, Misread> {
        let refused = || wrong(name, "a list of strings");
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => names(items).map(Some).ok_or_else(refused),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Array(items)) => names(&items).map(Some).ok_or_else(refused),
                _ => Err(refused()),
            },
            Some(_) => Err(refused()),
        }
    }
}

fn names(items: &[Value]) -> Option<Vec<String>> {
    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn wrong(name: &str, expected: &str) -> Misread {
    Misread(format!("argument `{name}` must be {expected}"))
}

fn missing(name: &str) -> Misread {
    Misread(format!("argument `{name}` is required"))
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

    #[test]
    fn null_is_absent_only_where_null_is_the_default() {
        let held = json!({"a": null, "list": "[\"cycles\"]", "word": "cycles"});
        let arguments = Arguments(held.as_object().unwrap());
        assert_eq!(arguments.optional_int("a"), Ok(None));
        assert_eq!(arguments.optional_text("a"), Ok(None));
        assert!(arguments.flag("a", false).is_err());
        assert!(arguments.int_or("a", 500).is_err());
        assert!(arguments.required_text("a").is_err());
        assert_eq!(arguments.optional_names("list"), Ok(Some(vec!["cycles".to_owned()])));
        assert!(arguments.optional_names("word").is_err());
        assert_eq!(arguments.int_or("missing", 500), Ok(500));
    }
}
