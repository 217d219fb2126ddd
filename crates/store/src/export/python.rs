//! Formats values as the public WHOOP server did, which was written in Python, so that exports of
//! both can be compared byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::members::{Member, fields};

/// A JSON number as Python's `repr` shows it.
pub(super) fn number(json: &str) -> Cow<'_, str> {
    if is_plain(json) { Cow::Borrowed(json) } else { respelled(json) }
}

/// Whether both format it alike: no exponent, and not so small or large that Python would use one.
fn is_plain(json: &str) -> bool {
    const WHOLE_DIGITS_MAX: usize = 16;
    let digits = json.trim_start_matches('-');
    let whole = digits.split('.').next().unwrap_or(digits);
    let has_exponent = json.bytes().any(|byte| matches!(byte, b'e' | b'E'));
    !has_exponent && !digits.starts_with("0.0000") && whole.len() <= WHOLE_DIGITS_MAX
}

fn respelled(json: &str) -> Cow<'_, str> {
    let is_integer = json.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match json.parse::<f64>() {
        Ok(number) if !is_integer => Cow::Owned(float(number)),
        _ => Cow::Borrowed(json),
    }
}

/// Python's `repr` of a float: the shortest digits that round-trip, an exponent of at least two
/// digits below 1e-4 and from 1e16 on.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return "null".to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A JSON value as `json.dumps(…, sort_keys=True)` writes it.
pub(super) fn dump(json: &str, out: &mut String) {
    match json.as_bytes().first() {
        Some(b'"') => dump_string(json, out),
        Some(b'{') => dump_object(json, out),
        Some(b'[') => dump_list(json, out),
        Some(b'-' | b'0'..=b'9') => out.push_str(&number(json)),
        _ => out.push_str(json),
    }
}

fn dump_string(json: &str, out: &mut String) {
    let is_ready = json.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'\\');
    if is_ready {
        return out.push_str(json);
    }
    let text: String = serde_json::from_str(json).unwrap_or_default();
    quote(&text, out);
}

/// An ASCII-only JSON string.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

fn dump_object(json: &str, out: &mut String) {
    if let Ok(mut members) = fields(json) {
        members.sort_unstable();
        return dump_members(members.into_iter(), out);
    }
    // A key with escapes.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
    dump_members(members.iter().map(|(key, value)| (key.as_str(), value.get())), out);
}

/// An object from members in final order.
pub(super) fn dump_members<'a>(members: impl Iterator<Item = Member<'a>>, out: &mut String) {
    out.push('{');
    for (at, (key, value)) in members.enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        quote(key, out);
        out.push_str(": ");
        dump(value, out);
    }
    out.push('}');
}

fn dump_list(json: &str, out: &mut String) {
    let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
    out.push('[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        dump(item.get(), out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::{dump, number};

    #[test]
    fn numbers_are_spelled_as_python_spells_them() {
        let cases = [
            ("27120.0", "27120.0"),
            ("57", "57"),
            ("-0.0", "-0.0"),
            ("1e-5", "1e-05"),
            ("0.00001", "1e-05"),
            ("0.00001234", "1.234e-05"),
            ("0.0001", "0.0001"),
            ("-0.00002", "-2e-05"),
            ("1e16", "1e+16"),
            ("1e15", "1000000000000000.0"),
            ("12345678901234567.0", "1.2345678901234568e+16"),
            ("1234567890123456.0", "1234567890123456.0"),
            ("12345678901234567890", "12345678901234567890"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("5e-324", "5e-324"),
            ("1E2", "100.0"),
        ];
        for (json, python) in cases {
            assert_eq!(number(json), python, "{json}");
        }
    }

    #[test]
    fn objects_are_dumped_with_sorted_keys_and_ascii_alone() {
        let mut out = String::new();
        dump(r#"{"z":[1,{"b\n":null,"a":true}],"é":"ë\u0001\"\\😀","a":1e-7,"e":{}}"#, &mut out);
        let python = r#"{"a": 1e-07, "e": {}, "z": [1, {"a": true, "b\n": null}], "\u00e9": "\u00eb\u0001\"\\\ud83d\ude00"}"#;
        assert_eq!(out, python);
    }
}
