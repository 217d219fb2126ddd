//! Reads a field of a response as the type in our schema, or as `None`. Services
//! omit fields, send null, and mix numbers and strings.

use serde_json::{Map, Number, Value};

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

/// Any number, as the service wrote it; a text of one becomes one.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<Number> {
    match value.pointer(pointer)? {
        Value::Number(number) => Some(number.clone()),
        text @ Value::String(_) => Number::from_f64(coerce::float(text)?),
        _ => None,
    }
}

/// The objects of a list; other values, such as null for a removed item, are left out.
pub(crate) fn objects<'a>(value: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter(|one| one.is_object()).collect()
}

/// An object, or nothing.
pub(crate) fn map(value: &Value, pointer: &str) -> Option<Map<String, Value>> {
    value.pointer(pointer)?.as_object().cloned()
}

/// The objects of a list, copied.
pub(crate) fn maps(value: &Value, pointer: &str) -> Vec<Map<String, Value>> {
    objects(value, pointer).into_iter().filter_map(Value::as_object).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_is_of_its_kind_or_nothing() {
        let value = json!({ "t": "x", "n": 7, "s": "76561197960265728", "f": "1.5", "z": null, "l": [null, {}, 3] });
        assert_eq!((word(&value, "/t"), word(&value, "/n")), (Some("x".into()), Some("7".into())));
        assert_eq!((int(&value, "/n"), int(&value, "/t")), (Some(7), None));
        assert_eq!(int(&value, "/s"), Some(76_561_197_960_265_728));
        assert_eq!(
            (number(&value, "/f"), number(&value, "/n")),
            (Number::from_f64(1.5), Some(7.into()))
        );
        assert_eq!((word(&value, "/z"), int(&value, "/missing")), (None, None));
        assert_eq!((map(&value, "/t"), objects(&value, "/l").len()), (None, 1));
    }
}
