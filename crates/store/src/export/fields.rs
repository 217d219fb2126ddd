//! Takes a derived record apart without copying it: its members as they stand in the text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A key and the text of its value.
pub(super) type Field<'a> = (&'a str, &'a str);

/// Room for the members of an ordinary record.
const FIELDS_USUAL: usize = 32;

/// The members of an object in their order. A key that is spelled with escapes is an error.
pub(super) fn fields(json: &str) -> Result<Vec<Field<'_>>, serde_json::Error> {
    let mut found = Vec::with_capacity(FIELDS_USUAL);
    let mut reader = serde_json::Deserializer::from_str(json);
    Members(&mut found).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
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
