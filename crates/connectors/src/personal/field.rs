//! Reads a field of what a service answered as the kind its schema promises, or as nothing. Services
//! leave fields out, send null, and write numbers as texts and texts as numbers.

use serde_json::{Value, json};

use crate::coerce;

/// A text; a number becomes one.
pub(crate) fn word(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number; a text of one becomes one.
pub(crate) fn int(value: &Value, pointer: &str) -> Option<i64> {
    match value.pointer(pointer)? {
        Value::Bool(_) => None,
        found => coerce::int(found),
    }
}

/// A text or null.
pub(crate) fn text(value: &Value, pointer: &str) -> Value {
    json!(word(value, pointer))
}

/// A whole number or null.
pub(crate) fn whole(value: &Value, pointer: &str) -> Value {
    json!(int(value, pointer))
}

/// Any number or null.
pub(crate) fn number(value: &Value, pointer: &str) -> Value {
    match value.pointer(pointer) {
        Some(found @ Value::Number(_)) => found.clone(),
        Some(Value::String(text)) => json!(coerce::float(&json!(text))),
        _ => Value::Null,
    }
}

/// An object or null.
pub(crate) fn object(value: &Value, pointer: &str) -> Value {
    value.pointer(pointer).filter(|found| found.is_object()).cloned().unwrap_or_default()
}

/// The objects of a list; what is none, such as null in place of something removed, is left out.
pub(crate) fn objects<'a>(value: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter(|one| one.is_object()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_of_its_kind_or_nothing() {
        let value = json!({ "t": "x", "n": 7, "s": "76561197960265728", "f": "1.5", "z": null, "l": [null, {}, 3] });
        assert_eq!((text(&value, "/t"), text(&value, "/n")), (json!("x"), json!("7")));
        assert_eq!((whole(&value, "/n"), whole(&value, "/t")), (json!(7), Value::Null));
        assert_eq!(int(&value, "/s"), Some(76_561_197_960_265_728));
        assert_eq!((number(&value, "/f"), number(&value, "/n")), (json!(1.5), json!(7)));
        assert_eq!((text(&value, "/z"), whole(&value, "/missing")), (Value::Null, Value::Null));
        assert_eq!((object(&value, "/t"), objects(&value, "/l").len()), (Value::Null, 1));
    }
}
