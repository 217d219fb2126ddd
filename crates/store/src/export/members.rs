//! Splits a derived record into its members without copying them.

use std::fmt;

use memchr::memchr2;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A key and the text of its value.
pub(super) type Member<'a> = (&'a str, &'a str);

/// Initial capacity for the members of an ordinary record.
const FIELDS_USUAL: usize = 32;

/// For each byte whether it may occur in a number or a literal such as `null`: most values are
/// numbers, and a table is faster than comparisons.
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

/// A record split into its members.
pub(super) struct SplitRecord<'a> {
    pub(super) members: Vec<Member<'a>>,
    /// Its keys equal those of the previous record, in the same order, and no text in it has
    /// escapes.
    pub(super) is_alike: bool,
}

/// Splits records one by one. All of one kind have the same keys in the same order, so each key is
/// compared with the expected one instead of being searched for.
#[derive(Default)]
pub(super) struct RecordSplitter {
    /// The keys of the previous record, each with its punctuation.
    expected: Vec<String>,
}

impl RecordSplitter {
    /// The members of an object in order. A key with escapes is an error.
    pub(super) fn fields<'a>(
        &mut self,
        json: &'a str,
    ) -> Result<SplitRecord<'a>, serde_json::Error> {
        let mut members = Vec::with_capacity(self.expected.len().max(FIELDS_USUAL));
        if self.split_alike(json, &mut members).is_some() {
            return Ok(SplitRecord { members, is_alike: true });
        }
        let members = fields(json)?;
        let opening = |at: usize| if at == 0 { '{' } else { ',' };
        let keys = members.iter().map(|(key, _)| key).enumerate();
        self.expected = keys.map(|(at, key)| format!("{}\"{key}\":", opening(at))).collect();
        Ok(SplitRecord { members, is_alike: false })
    }

    /// The fast path for compact JSON without escapes; none for anything else or for unexpected
    /// keys.
    fn split_alike<'a>(&self, json: &'a str, found: &mut Vec<Member<'a>>) -> Option<()> {
        let mut rest = json;
        for expected in &self.expected {
            let after = rest.strip_prefix(expected.as_str())?;
            let key = rest.get(2..expected.len() - 2)?;
            let (value, after) = after.split_at_checked(value_end(after)?)?;
            found.push((key, value));
            rest = after;
        }
        // Nothing is expected before the first record.
        (rest == "}" && !found.is_empty()).then_some(())
    }
}

/// The members of one object.
pub(super) fn fields(json: &str) -> Result<Vec<Member<'_>>, serde_json::Error> {
    let mut found = Vec::with_capacity(FIELDS_USUAL);
    if split(json, &mut found).is_some() {
        return Ok(found);
    }
    found.clear();
    let mut reader = serde_json::Deserializer::from_str(json);
    MemberVisitor(&mut found).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// Splits compact JSON without escapes, which is the stored form of nearly all records. None for
/// anything else.
fn split<'a>(json: &'a str, found: &mut Vec<Member<'a>>) -> Option<()> {
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

/// The end of the value at the start of a text.
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

/// The end of a quoted string; none if it has escapes.
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

struct MemberVisitor<'v, 'a>(&'v mut Vec<Member<'a>>);

impl<'a> DeserializeSeed<'a> for MemberVisitor<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for MemberVisitor<'_, 'a> {
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

/// Finds the same keys in record after record, starting from the positions found in the previous
/// one.
pub(super) struct Columns {
    names: Vec<&'static str>,
    /// The position of each name in the previous record, if it was present.
    positions: Vec<Option<usize>>,
}

impl Columns {
    pub(super) fn new(names: Vec<&'static str>) -> Columns {
        let positions = vec![None; names.len()];
        Columns { names, positions }
    }

    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The text of each column in the order of the names; none if the record has no such key.
    pub(super) fn pick<'a>(
        &mut self,
        fields: &'a SplitRecord<'a>,
    ) -> impl Iterator<Item = Option<&'a str>> {
        let members = &fields.members;
        if !fields.is_alike {
            for (name, place) in self.names.iter().zip(&mut self.positions) {
                *place = members.iter().position(|(key, _)| key == name);
            }
        }
        self.positions
            .iter()
            .map(|place| place.and_then(|at| members.get(at)).map(|(_, value)| *value))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// The slow path only.
    fn slowly(json: &str) -> Vec<Member<'_>> {
        let mut found = Vec::new();
        MemberVisitor(&mut found)
            .deserialize(&mut serde_json::Deserializer::from_str(json))
            .unwrap();
        found
    }

    #[test]
    fn the_fast_search_agrees_with_the_slow_one() {
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
            let mut splitter = RecordSplitter::default();
            for is_alike in [false, is_quick, is_quick] {
                let found = splitter.fields(json).unwrap();
                assert_eq!((found.members, found.is_alike), (slowly(json), is_alike), "{json}");
            }
        }
        for json in ["", "{", "}", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":1},"#, r#"{"a":}"#, "[]"] {
            assert!(fields(json).is_err(), "{json}");
            let mut splitter = RecordSplitter::default();
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
        let (mut splitter, mut columns) = (RecordSplitter::default(), Columns::new(vec!["a", "b"]));
        for (json, picked, is_alike) in records {
            let fields = splitter.fields(json).unwrap();
            assert_eq!(fields.is_alike, is_alike, "{json}");
            assert_eq!(columns.pick(&fields).collect::<Vec<_>>(), picked, "{json}");
        }
    }
}
