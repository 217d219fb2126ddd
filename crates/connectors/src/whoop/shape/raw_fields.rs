//! One object of a raw record, read field by field. A field may be absent or null; a field that is
//! there and cannot be read makes the record unreadable.

use serde_json::{Map, Value};

use super::UnreadableField;
use super::convert::seconds;
use crate::coerce;

pub(super) struct RawFields<'a> {
    object: Option<&'a Map<String, Value>>,
    path: &'static str,
}

impl<'a> RawFields<'a> {
    pub(super) fn new(object: &'a Map<String, Value>, path: &'static str) -> RawFields<'a> {
        RawFields { object: Some(object), path }
    }

    /// An object that is not there: every field of it is null.
    pub(super) fn absent() -> RawFields<'a> {
        RawFields { object: None, path: "" }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.object?.get(name).filter(|value| !value.is_null())
    }

    fn fault(&self, name: &str, expected: &'static str) -> UnreadableField {
        let field =
            if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        UnreadableField { field, expected }
    }

    pub(super) fn int(&self, name: &str) -> Result<Value, UnreadableField> {
        self.get(name).map_or(Ok(Value::Null), |value| {
            coerce::int(value).map(Value::from).ok_or_else(|| self.fault(name, "a whole number"))
        })
    }

    pub(super) fn float(&self, name: &str) -> Result<Value, UnreadableField> {
        self.get(name).map_or(Ok(Value::Null), |value| {
            coerce::float(value).map(Value::from).ok_or_else(|| self.fault(name, "a number"))
        })
    }

    pub(super) fn boolean(&self, name: &str) -> Result<Value, UnreadableField> {
        self.get(name).map_or(Ok(Value::Null), |value| {
            coerce::boolean(value).map(Value::from).ok_or_else(|| self.fault(name, "true or false"))
        })
    }

    pub(super) fn text(&self, name: &str) -> Result<Value, UnreadableField> {
        match self.get(name) {
            None => Ok(Value::Null),
            Some(Value::String(text)) => Ok(Value::from(text.as_str())),
            Some(_) => Err(self.fault(name, "text")),
        }
    }

    pub(super) fn required_int(&self, name: &str) -> Result<Value, UnreadableField> {
        self.required(name, "a whole number", self.int(name)?)
    }

    pub(super) fn required_text(&self, name: &str) -> Result<Value, UnreadableField> {
        self.required(name, "text", self.text(name)?)
    }

    fn required(
        &self,
        name: &str,
        expected: &'static str,
        value: Value,
    ) -> Result<Value, UnreadableField> {
        if value.is_null() { Err(self.fault(name, expected)) } else { Ok(value) }
    }

    /// Milliseconds, which WHOOP counts in whole numbers, as seconds.
    pub(super) fn seconds(&self, name: &str) -> Result<Value, UnreadableField> {
        self.get(name).map_or(Ok(Value::Null), |value| {
            let millis = coerce::int(value).ok_or_else(|| self.fault(name, "a whole number"))?;
            Ok(Value::from(seconds(millis)))
        })
    }

    /// The sum of several, in seconds; null when one of them is not there.
    pub(super) fn sum_seconds(&self, names: &[&str]) -> Result<Value, UnreadableField> {
        let mut sum: i64 = 0;
        for name in names {
            let Some(value) = self.get(name) else { return Ok(Value::Null) };
            let millis = coerce::int(value).ok_or_else(|| self.fault(name, "a whole number"))?;
            sum = sum.saturating_add(millis);
        }
        Ok(Value::from(seconds(sum)))
    }

    /// Null when the object itself is absent, otherwise an object with every member.
    pub(super) fn all_seconds(&self, fields: &[(&str, &str)]) -> Result<Value, UnreadableField> {
        if self.object.is_none() {
            return Ok(Value::Null);
        }
        let mut members = Map::with_capacity(fields.len());
        for (name, source) in fields {
            members.insert((*name).to_owned(), self.seconds(source)?);
        }
        Ok(Value::Object(members))
    }

    pub(super) fn part(&self, name: &'static str) -> Result<RawFields<'a>, UnreadableField> {
        match self.get(name) {
            None => Ok(RawFields::absent()),
            Some(Value::Object(object)) => Ok(RawFields::new(object, name)),
            Some(_) => Err(self.fault(name, "an object")),
        }
    }

    /// A key as text, whatever type it came in.
    pub(super) fn key(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            Value::String(text) => Some(text.clone()),
            value => coerce::int(value).map(|number| number.to_string()),
        }
    }

    pub(super) fn plain(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }
}
