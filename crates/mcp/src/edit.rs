//! Edits of JSON objects: kept values stay byte for byte, in their order.

use policy::json::{Value, write_string};

/// The edit of one member.
pub enum Member {
    Keep,
    Drop,
    Replace(String),
}

/// The object with changed members, and `extra` ones at the end.
pub fn object(
    object: Value<'_>,
    mut change: impl FnMut(&str, Value<'_>) -> Member,
    extra: &[(&str, String)],
) -> String {
    let mut out = String::with_capacity(object.raw().len() + 64);
    out.push('{');
    for (key, value) in object.entries() {
        match change(&key.text(), value) {
            Member::Keep => member(&mut out, key.raw(), value.raw()),
            Member::Drop => {}
            Member::Replace(raw) => member(&mut out, key.raw(), &raw),
        }
    }
    for (key, raw) in extra {
        member(&mut out, &string(key), raw);
    }
    out.push('}');
    out
}

fn member(out: &mut String, key: &str, raw: &str) {
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str(key);
    out.push(':');
    out.push_str(raw);
}

/// The object with one member replaced, or added at the end.
pub fn with(value: Value<'_>, key: &str, raw: String) -> String {
    let mut raw = Some(raw);
    let there = value.get(key).is_some();
    let extra: Vec<(&str, String)> =
        if there { Vec::new() } else { raw.take().map(|raw| (key, raw)).into_iter().collect() };
    object(
        value,
        |name, _| match (name == key).then(|| raw.take()).flatten() {
            Some(raw) => Member::Replace(raw),
            None => Member::Keep,
        },
        &extra,
    )
}

/// The object without some members.
pub fn without(value: Value<'_>, keys: &[&str]) -> String {
    object(value, |name, _| if keys.contains(&name) { Member::Drop } else { Member::Keep }, &[])
}

/// A JSON array of raw JSON values.
pub fn array<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let mut out = String::from("[");
    for part in parts {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(part.as_ref());
    }
    out.push(']');
    out
}

/// A JSON string.
pub fn string(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    fn check(source: &str, act: impl Fn(Value<'_>) -> String, expected: &str) {
        let doc = Doc::read(source.as_bytes(), &Bounds::ANSWER).unwrap();
        assert_eq!(act(doc.root()), expected, "{source}");
    }

    #[test]
    fn untouched_values_keep_their_bytes() {
        check(
            r#"{"a":1.10,"b":{"x": 1E2}}"#,
            |v| with(v, "c", "true".into()),
            r#"{"a":1.10,"b":{"x": 1E2},"c":true}"#,
        );
        check(r#"{"a":1,"b":2}"#, |v| with(v, "a", "3".into()), r#"{"a":3,"b":2}"#);
        check(r"{}", |v| with(v, "a", "3".into()), r#"{"a":3}"#);
        check(r#"{"a":1,"b":2,"c":3}"#, |v| without(v, &["a", "c"]), r#"{"b":2}"#);
        check(r#"{"a":1}"#, |v| without(v, &["a"]), "{}");
    }
}
