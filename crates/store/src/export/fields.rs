//! Takes a derived record apart without copying it: its members as they stand in the text.

use std::fmt;

use memchr::memchr2;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A key and the text of its value.
pub(super) type Field<'a> = (&'a str, &'a str);

/// Room for the members of an ordinary record.
const FIELDS_USUAL: usize = 32;

/// The members of an object in their order. A key that is spelled with escapes is an error.
pub(super) fn fields(json: &str) -> Result<Vec<Field<'_>>, serde_json::Error> {
    let mut found = Vec::with_capacity(FIELDS_USUAL);
    if split(json, &mut found).is_some() {
        return Ok(found);
    }
    found.clear();
    let mut reader = serde_json::Deserializer::from_str(json);
    Members(&mut found).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// Takes apart compact JSON without escapes, which is what the mirror keeps but for rare texts. Nothing
/// when it is anything else.
fn split<'a>(json: &'a str, found: &mut Vec<Field<'a>>) -> Option<()> {
    let mut rest = json.strip_prefix('{')?;
    loop {
        let quoted = text_end(rest)?;
        let (key, after) = rest.split_at_checked(quoted)?;
        let after = after.strip_prefix(':')?;
        let (value, after) = after.split_at_checked(value_end(after)?)?;
        found.push((key.strip_prefix('"')?.strip_suffix('"')?, value));
        match after.as_bytes() {
            [b'}'] => return Some(()),
            [b',', ..] => rest = after.get(1..)?,
            _ => return None,
        }
    }
}

/// Where the value ends that a text begins with.
fn value_end(text: &str) -> Option<usize> {
    match text.as_bytes().first()? {
        b'"' => text_end(text),
        b'{' | b'[' => nested_end(text),
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
            let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            text.bytes().position(|byte| !is_inside(byte))
        }
        _ => None,
    }
}

/// The end of a text in quotes; nothing when it has escapes.
fn text_end(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('"')?;
    let end = memchr2(b'"', b'\\', inner.as_bytes())?;
    (inner.as_bytes().get(end) == Some(&b'"')).then_some(end + 2)
}

fn nested_end(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match text.as_bytes().get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => at += text_end(text.get(at..)?)? - 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

struct Members<'v, 'a>(&'v mut Vec<Field<'a>>);

impl<'a> DeserializeSeed<'a> for Members<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Members<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&'a str>()? {
            let value: &'a RawValue = map.next_value()?;
            self.0.push((key, value.get()));
        }
        Ok(())
    }
}

/// Finds the same keys in record after record: all of one kind have them in the same order, so the
/// places found in one record are right in the next.
pub(super) struct Columns {
    names: Vec<&'static str>,
    /// Where each name stood in the last record.
    places: Vec<usize>,
}

impl Columns {
    pub(super) fn new(names: Vec<&'static str>) -> Columns {
        let places = vec![0; names.len()];
        Columns { names, places }
    }

    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The text of each column in the order of the names; nothing where the record has no such key.
    pub(super) fn pick<'a>(
        &mut self,
        fields: &'a [Field<'a>],
    ) -> impl Iterator<Item = Option<&'a str>> {
        self.names.iter().zip(&mut self.places).map(|(name, place)| {
            if let Some((key, value)) = fields.get(*place)
                && key == name
            {
                return Some(*value);
            }
            *place = fields.iter().position(|(key, _)| key == name)?;
            fields.get(*place).map(|(_, value)| *value)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The slow way alone.
    fn slowly(json: &str) -> Vec<Field<'_>> {
        let mut found = Vec::new();
        Members(&mut found).deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap();
        found
    }

    #[test]
    fn the_quick_way_finds_what_the_slow_one_does() {
        for (json, is_quick) in [
            (r#"{"a":1,"b":"x","c":null,"d":true,"e":-1.5e-7}"#, true),
            (r#"{"a":{"b":"}","c":[1,{"d":"]"}]},"e":[],"f":{}}"#, true),
            (r#"{"é":"é, \u00e9"}"#, false),
            (r#"{"é":"é, 😀:{}","":""}"#, true),
            (r#"{"a":"say \"hi\"","b":1}"#, false),
            (r#"{"a":{"b":"\\"},"c":1}"#, false),
            (r#"{ "a" : 1 }"#, false),
            (r#"{"a":1 ,"b":2}"#, false),
            (r#"{"a":{"b": [1, 2]},"c":2}"#, true),
            (r#"{"a":"x","a":"y"}"#, true),
            ("{}", false),
        ] {
            assert_eq!(split(json, &mut Vec::new()).is_some(), is_quick, "{json}");
            assert_eq!(fields(json).unwrap(), slowly(json), "{json}");
        }
        for json in ["", "{", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":1},"#, r#"{"a":}"#, "[]"] {
            assert!(fields(json).is_err(), "{json}");
        }
    }
}
