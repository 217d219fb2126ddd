//! Takes a derived record apart without copying it: its members as they stand in the text.

use std::fmt;

use memchr::memchr2;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A key and the text of its value.
pub(super) type Field<'a> = (&'a str, &'a str);

/// Room for the members of an ordinary record.
const FIELDS_USUAL: usize = 32;

/// For each byte whether a number or a word such as `null` may hold it: most values are numbers, and
/// one look is quicker than a row of comparisons.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "constants know no iterators; there are 256 bytes"
)]
const IS_INSIDE: [bool; 256] = {
    let mut is_inside = [false; 256];
    let mut byte = 0;
    while byte < is_inside.len() {
        is_inside[byte] =
            (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'.' | b'+' | b'-');
        byte += 1;
    }
    is_inside
};

/// A record taken apart.
pub(super) struct Fields<'a> {
    pub(super) members: Vec<Field<'a>>,
    /// Its keys are those of the record before, in the same order, and no text in it has escapes.
    pub(super) is_alike: bool,
}

/// Takes record after record apart. All of one kind have the same keys in the same order, so each key
/// is compared with the one expected there instead of being looked for.
#[derive(Default)]
pub(super) struct Splitter {
    /// The keys of the last record, each with what stands around it.
    expected: Vec<String>,
}

impl Splitter {
    /// The members of an object in their order. A key that is spelled with escapes is an error.
    pub(super) fn fields<'a>(&mut self, json: &'a str) -> Result<Fields<'a>, serde_json::Error> {
        let mut members = Vec::with_capacity(self.expected.len().max(FIELDS_USUAL));
        if self.split_alike(json, &mut members).is_some() {
            return Ok(Fields { members, is_alike: true });
        }
        let members = fields(json)?;
        let opening = |at: usize| if at == 0 { '{' } else { ',' };
        let keys = members.iter().map(|(key, _)| key).enumerate();
        self.expected = keys.map(|(at, key)| format!("{}\"{key}\":", opening(at))).collect();
        Ok(Fields { members, is_alike: false })
    }

    /// The quick way for compact JSON without escapes; nothing when it is anything else, or has other
    /// keys than expected.
    fn split_alike<'a>(&self, json: &'a str, found: &mut Vec<Field<'a>>) -> Option<()> {
        let mut rest = json;
        for expected in &self.expected {
            let after = rest.strip_prefix(expected.as_str())?;
            let key = rest.get(2..expected.len() - 2)?;
            let (value, after) = after.split_at_checked(value_end(after)?)?;
            found.push((key, value));
            rest = after;
        }
        // Before the first record nothing is expected.
        (rest == "}" && !found.is_empty()).then_some(())
    }
}

/// The members of one object by itself.
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
            let is_inside = |byte: &u8| IS_INSIDE.get(usize::from(*byte)).is_some_and(|is| *is);
            text.as_bytes().iter().position(|byte| !is_inside(byte))
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

/// Finds the same keys in record after record: the places found in one are right in the next that is
/// like it.
pub(super) struct Columns {
    names: Vec<&'static str>,
    /// Where each name stood in the last record, if it had it.
    places: Vec<Option<usize>>,
}

impl Columns {
    pub(super) fn new(names: Vec<&'static str>) -> Columns {
        let places = vec![None; names.len()];
        Columns { names, places }
    }

    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The text of each column in the order of the names; nothing where the record has no such key.
    pub(super) fn pick<'a>(
        &mut self,
        fields: &'a Fields<'a>,
    ) -> impl Iterator<Item = Option<&'a str>> {
        let members = &fields.members;
        if !fields.is_alike {
            for (name, place) in self.names.iter().zip(&mut self.places) {
                *place = members.iter().position(|(key, _)| key == name);
            }
        }
        self.places
            .iter()
            .map(|place| place.and_then(|at| members.get(at)).map(|(_, value)| *value))
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
            let mut splitter = Splitter::default();
            for is_alike in [false, is_quick, is_quick] {
                let found = splitter.fields(json).unwrap();
                assert_eq!((found.members, found.is_alike), (slowly(json), is_alike), "{json}");
            }
        }
        for json in ["", "{", "}", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":1},"#, r#"{"a":}"#, "[]"] {
            assert!(fields(json).is_err(), "{json}");
            let mut splitter = Splitter::default();
            splitter.fields(r#"{"a":1}"#).unwrap();
            assert!(splitter.fields(json).is_err(), "{json}");
        }
    }

    #[test]
    fn columns_follow_records_that_change_their_keys() {
        let records = [
            (r#"{"a":1,"b":2}"#, [Some("1"), Some("2")], false),
            (r#"{"a":3,"b":4}"#, [Some("3"), Some("4")], true),
            (r#"{"b":5,"a":6}"#, [Some("6"), Some("5")], false),
            (r#"{"b":7,"a":8}"#, [Some("8"), Some("7")], true),
            (r#"{"b":9}"#, [None, Some("9")], false),
            (r#"{"b":10,"c":11}"#, [None, Some("10")], false),
            (r#"{"a":"x","b":{"c":[1]},"d":null}"#, [Some("\"x\""), Some(r#"{"c":[1]}"#)], false),
        ];
        let (mut splitter, mut columns) = (Splitter::default(), Columns::new(vec!["a", "b"]));
        for (json, picked, is_alike) in records {
            let fields = splitter.fields(json).unwrap();
            assert_eq!(fields.is_alike, is_alike, "{json}");
            assert_eq!(columns.pick(&fields).collect::<Vec<_>>(), picked, "{json}");
        }
    }
}
