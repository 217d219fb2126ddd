//! JSON parsers that are less strict than the gate: the first or the last of two members counts, names are
//! case-folded, truncated or trimmed.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A message with all its members, including duplicates.
pub(crate) enum Reading {
    Scalar(Value),
    List(Vec<Reading>),
    Object(Vec<(String, Reading)>),
}

/// How a careless parser reads a key.
const KEYS: [fn(&str) -> String; 7] = [
    str::to_owned,
    str::to_lowercase,
    |key| key.to_uppercase().to_lowercase(),
    |key| key.split('\0').next().unwrap_or_default().to_owned(),
    |key| key.trim().replace(|c: char| c.is_control() || c == '\u{feff}', ""),
    |key| key.trim().to_lowercase(),
    |key| key.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase(),
];

/// Whether no parser reads two members of an object as one.
pub(crate) fn one_meaning(value: &Reading) -> bool {
    match value {
        Reading::Scalar(_) => true,
        Reading::List(items) => items.iter().all(one_meaning),
        Reading::Object(members) => {
            let distinct = |read: &fn(&str) -> String| {
                let mut seen = HashSet::new();
                members.iter().all(|(key, _)| seen.insert(read(key)))
            };
            KEYS.iter().all(distinct) && members.iter().all(|(_, value)| one_meaning(value))
        }
    }
}

/// What each careless parser sees.
pub(crate) fn readings(value: &Reading) -> impl Iterator<Item = Value> {
    KEYS.iter().flat_map(move |read| [true, false].map(|last| seen(value, *read, last)))
}

fn seen(value: &Reading, read: fn(&str) -> String, last_wins: bool) -> Value {
    match value {
        Reading::Scalar(value) => value.clone(),
        Reading::List(items) => items.iter().map(|item| seen(item, read, last_wins)).collect(),
        Reading::Object(members) => {
            let mut map = Map::new();
            for (key, value) in members {
                let key = read(key);
                if last_wins || !map.contains_key(&key) {
                    map.insert(key, seen(value, read, last_wins));
                }
            }
            Value::Object(map)
        }
    }
}

impl<'de> Deserialize<'de> for Reading {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reading, D::Error> {
        deserializer.deserialize_any(Whole)
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Reading;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Reading, E> {
        Ok(Reading::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Reading, E> {
        Ok(Reading::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Reading, E> {
        Ok(Reading::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Reading, E> {
        Ok(Reading::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Reading, E> {
        Ok(Reading::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Reading, E> {
        Ok(Reading::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Reading, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Reading::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Reading, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Reading::Object(members))
    }
}
