//! Streams a JSON file entry by entry: the entries of a list, or those of the lists
//! in an object.

use std::fmt;
use std::io::{BufReader, Read};

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::{OpenFile, Stop};

const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Passes each entry to `take`, with the name of its list; a top-level list has no name.
pub(crate) fn each_entry(
    file: &mut OpenFile<'_>,
    take: &mut dyn FnMut(&str, Value) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let meter = file.meter;
    let mut stopped = None;
    let mut hand = |section: &str, value: Value| {
        meter.piece();
        take(section, value).map_err(|stop| stopped = Some(stop)).is_ok()
    };
    let reader = BufReader::new(without_mark(&mut *file.reader)?);
    let mut json = serde_json::Deserializer::from_reader(reader);
    let done = Within { section: None, hand: &mut hand }.deserialize(&mut json);
    match (stopped, done) {
        (Some(stop), _) => Err(stop),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) if error.is_io() => Err(Stop::File(error.to_string())),
        (None, Err(error)) => Err(Stop::File(format!(
            "it is not JSON from line {}, column {} on",
            error.line(),
            error.column()
        ))),
    }
}

/// Skips a byte-order mark.
pub(super) fn without_mark<'a>(reader: &'a mut dyn Read) -> Result<Box<dyn Read + 'a>, Stop> {
    let mut begin = Vec::new();
    let mut first = (&mut *reader).take(MARK.len() as u64);
    first.read_to_end(&mut begin).map_err(|error| Stop::File(error.to_string()))?;
    if begin == MARK {
        begin.clear();
    }
    Ok(Box::new(std::io::Cursor::new(begin).chain(reader)))
}

struct Within<'a> {
    section: Option<String>,
    hand: &'a mut dyn FnMut(&str, Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object of lists")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let section = self.section.unwrap_or_default();
        while let Some(value) = list.next_element::<Value>()? {
            if !(self.hand)(&section, value) {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let is_top = self.section.is_none();
        while let Some(name) = object.next_key::<String>()? {
            if is_top {
                object.next_value_seed(Within { section: Some(name), hand: &mut *self.hand })?;
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
