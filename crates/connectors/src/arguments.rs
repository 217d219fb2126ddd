//! Parses the arguments of a call into the type of its tool, as leniently as clients are used to. An
//! error names the argument, never its value.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

use crate::coerce;

/// Which values count as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blank {
    /// Null, an empty string and the string `null`; strings are trimmed.
    IsAbsent,
    /// None: null is accepted only where the type is an `Option`.
    IsValue,
}

/// A missing or unreadable argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadArgument {
    pub(crate) name: String,
    /// What the argument must be; `None` where it is missing.
    pub(crate) expected: Option<String>,
}

pub(crate) fn parse<A: DeserializeOwned>(
    arguments: &Map<String, Value>,
    blank: Blank,
) -> Result<A, BadArgument> {
    let entries = arguments.iter().filter(|(_, value)| blank == Blank::IsValue || !is_blank(value));
    A::deserialize(Arguments { entries, value: None, blank })
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => matches!(text.trim(), "" | "null"),
        _ => false,
    }
}

struct Arguments<'a, I> {
    entries: I,
    value: Option<(&'a str, &'a Value)>,
    blank: Blank,
}

impl<'de, I: Iterator<Item = (&'de String, &'de Value)>> Deserializer<'de> for Arguments<'de, I> {
    type Error = BadArgument;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, I: Iterator<Item = (&'de String, &'de Value)>> MapAccess<'de> for Arguments<'de, I> {
    type Error = BadArgument;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, BadArgument> {
        self.value = self.entries.next().map(|(name, value)| (name.as_str(), value));
        let name = self.value.map(|(name, _)| StrDeserializer::new(name));
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, BadArgument> {
        let (name, value) = self.value.take().unwrap_or(("", &Value::Null));
        let argument = Argument { value, blank: self.blank };
        seed.deserialize(argument).map_err(|bad| BadArgument { name: name.to_owned(), ..bad })
    }
}

#[derive(Clone, Copy)]
struct Argument<'a> {
    value: &'a Value,
    blank: Blank,
}

fn expected<T>(found: Option<T>, what: &str) -> Result<T, BadArgument> {
    found.ok_or_else(|| BadArgument::custom(what))
}

impl<'de> Deserializer<'de> for Argument<'de> {
    type Error = BadArgument;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.value.deserialize_any(visitor).map_err(BadArgument::custom)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_bool(expected(coerce::boolean(self.value), "true or false")?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_i64(expected(coerce::int(self.value), "a whole number")?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_f64(expected(coerce::float(self.value), "a number")?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let text = expected(self.value.as_str(), "a string")?;
        visitor.visit_borrowed_str(match self.blank {
            Blank::IsAbsent => text.trim(),
            Blank::IsValue => text,
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        visitor.visit_newtype_struct(self)
    }

    /// Some clients send a list as JSON text; a bare word is refused.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let sent_as_text = self.value.as_str().and_then(|text| serde_json::from_str(text).ok());
        let list = sent_as_text.as_ref().unwrap_or(self.value);
        let items = expected(list.as_array(), "a list of strings")?;
        let all_strings = items.iter().all(Value::is_string).then_some(items.clone());
        let items = expected(all_strings, "a list of strings")?;
        Value::Array(items).deserialize_seq(visitor).map_err(BadArgument::custom)
    }

    /// The case of the letters does not matter.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        let text = self.value.as_str().map(str::trim).unwrap_or_default();
        let variant = variants.iter().find(|variant| variant.eq_ignore_ascii_case(text));
        let variant = variant
            .ok_or_else(|| BadArgument::custom(format_args!("one of: {}", variants.join(", "))))?;
        visitor.visit_enum((*variant).into_deserializer())
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 char str bytes byte_buf unit unit_struct tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl Error for BadArgument {
    fn custom<T: std::fmt::Display>(expected: T) -> BadArgument {
        BadArgument { name: String::new(), expected: Some(expected.to_string()) }
    }

    fn missing_field(name: &'static str) -> BadArgument {
        BadArgument::missing(name)
    }
}

impl BadArgument {
    /// For checks that a type cannot express.
    pub(crate) fn new(name: &str, expected: &str) -> BadArgument {
        BadArgument { name: name.to_owned(), expected: Some(expected.to_owned()) }
    }

    pub(crate) fn missing(name: &str) -> BadArgument {
        BadArgument { name: name.to_owned(), expected: None }
    }
}

impl std::fmt::Display for BadArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.expected {
            Some(expected) => write!(f, "argument `{}` must be {expected}", self.name),
            None => write!(f, "argument `{}` is required", self.name),
        }
    }
}

impl std::error::Error for BadArgument {}

/// A count from 1 to `MAX`. A number outside is moved into the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit<const DEFAULT: usize, const MAX: usize>(usize);

impl<const DEFAULT: usize, const MAX: usize> Limit<DEFAULT, MAX> {
    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl<const DEFAULT: usize, const MAX: usize> Default for Limit<DEFAULT, MAX> {
    fn default() -> Self {
        Limit(DEFAULT)
    }
}

impl<'de, const DEFAULT: usize, const MAX: usize> Deserialize<'de> for Limit<DEFAULT, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = i64::deserialize(deserializer)?.max(1);
        Ok(Limit(usize::try_from(wanted).unwrap_or(MAX).min(MAX)))
    }
}

impl<const DEFAULT: usize, const MAX: usize> JsonSchema for Limit<DEFAULT, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "null"],
            "default": DEFAULT,
            "minimum": 1,
            "maximum": MAX,
        })
    }
}

/// Where a page begins, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset(usize);

impl Offset {
    /// The largest one that the schema announces; larger ones give an empty page.
    const ANNOUNCED_MAX: usize = 100_000;

    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = i64::deserialize(deserializer)?;
        usize::try_from(wanted).map(Offset).map_err(|_| D::Error::custom("0 or more"))
    }
}

impl JsonSchema for Offset {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Offset".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "null"],
            "default": 0,
            "minimum": 0,
            "maximum": Offset::ANNOUNCED_MAX,
        })
    }
}

/// A secret that older agents send along. It is accepted and never read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IgnoredSecret;

impl<'de> Deserialize<'de> for IgnoredSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| IgnoredSecret)
    }
}

impl JsonSchema for IgnoredSecret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IgnoredSecret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "null"],
            "deprecated": true,
            "description": "Ignored: credentials are kept by tollgate and never pass through a conversation.",
        })
    }
}

/// A parameter that older agents send and that means nothing here. Any value is accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unused;

impl<'de> Deserialize<'de> for Unused {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Unused)
    }
}

impl JsonSchema for Unused {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Unused".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "null"] })
    }
}

// A tool without arguments.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) struct NoArgs {}

// A tool that older agents send a token to.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) struct TokenArgs {
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[cfg(test)]
mod tests;
