//! The arguments of a call. Null, an empty text and the text `null` mean that nothing was given;
//! numbers may come as text. Secrets that older agents send along are never looked at.

use serde_json::{Map, Value};

use super::problem::Problem;
use crate::coerce;

pub(crate) struct Given<'a> {
    held: &'a Map<String, Value>,
    platform: &'static str,
}

impl<'a> Given<'a> {
    pub(crate) fn new(platform: &'static str, held: &'a Map<String, Value>) -> Given<'a> {
        Given { held, platform }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.held.get(name).filter(|value| match value {
            Value::Null => false,
            Value::String(text) => !matches!(text.trim(), "" | "null"),
            _ => true,
        })
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim())),
            Some(_) => Err(self.wrong(name, "a text")),
        }
    }

    pub(crate) fn needed(&self, name: &str) -> Result<&'a str, Problem> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// One of a closed set of words.
    pub(crate) fn word(
        &self,
        name: &str,
        words: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str, Problem> {
        let Some(said) = self.text(name)? else { return Ok(default) };
        let found = words.iter().find(|word| word.eq_ignore_ascii_case(said));
        found.copied().ok_or_else(|| self.wrong(name, &format!("one of: {}", words.join(", "))))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Problem> {
        match self.value(name) {
            None => Ok(default),
            Some(value) => coerce::boolean(value).ok_or_else(|| self.wrong(name, "true or false")),
        }
    }

    pub(crate) fn whole(&self, name: &str) -> Result<Option<i64>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => {
                coerce::int(value).map(Some).ok_or_else(|| self.wrong(name, "a whole number"))
            }
        }
    }

    /// How many are wanted: from 1 to `max`, whatever was asked for.
    pub(crate) fn limit(&self, default: usize, max: usize) -> Result<usize, Problem> {
        self.limit_of("limit", default, max)
    }

    pub(crate) fn limit_of(
        &self,
        name: &str,
        default: usize,
        max: usize,
    ) -> Result<usize, Problem> {
        let Some(said) = self.whole(name)? else { return Ok(default.min(max)) };
        Ok(usize::try_from(said.max(1)).unwrap_or(max).clamp(1, max))
    }

    /// Where to begin, counted from 0.
    pub(crate) fn offset(&self) -> Result<usize, Problem> {
        let said = self.whole("offset")?.unwrap_or(0);
        usize::try_from(said).map_err(|_| self.wrong("offset", "0 or more"))
    }

    pub(crate) fn missing(&self, name: &str) -> Problem {
        Problem::invalid(
            self.platform,
            format!("argument `{name}` is required"),
            format!("call again with `{name}`"),
        )
    }

    /// Says which argument is wrong, never what it held.
    pub(crate) fn wrong(&self, name: &str, expected: &str) -> Problem {
        Problem::invalid(
            self.platform,
            format!("argument `{name}` must be {expected}"),
            format!("call again with another `{name}`"),
        )
    }
}

/// Can the text be an id of any of the services? Nothing that could lead an address elsewhere is.
pub(crate) fn is_id(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(is_good) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn four_ways_to_give_nothing_are_the_same() {
        for held in [json!({}), json!({"a": null}), json!({"a": ""}), json!({"a": "null"})] {
            let given = Given::new("x", held.as_object().unwrap());
            assert_eq!(given.text("a"), Ok(None), "{held}");
            assert_eq!(given.limit_of("a", 20, 50), Ok(20), "{held}");
            assert_eq!(given.flag("a", true), Ok(true), "{held}");
            assert!(given.needed("a").is_err(), "{held}");
        }
    }

    #[test]
    fn numbers_are_brought_into_range_and_nonsense_is_refused() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!("7"), Some(7)),
            (json!(0), Some(1)),
            (json!(-3), Some(1)),
            (json!(5_000), Some(50)),
            (json!("many"), None),
            (json!([7]), None),
        ] {
            let held = json!({ "limit": value });
            let given = Given::new("x", held.as_object().unwrap());
            assert_eq!(given.limit(20, 50).ok(), expected, "{held}");
        }
    }

    #[test]
    fn an_id_is_letters_digits_and_little_else() {
        for (text, is_good) in [
            ("37i9dQZF1DXcBWIGoYBM5M", true),
            ("some.user_1-2", true),
            ("../me", false),
            ("a/b", false),
            ("a?b", false),
            ("a#b", false),
            ("a\nb", false),
            ("a,b", false),
            ("", false),
            ("..", false),
        ] {
            assert_eq!(is_id(text), is_good, "{text:?}");
        }
    }
}
