//! Cuts responses to a size that agents accept: without a limit in the call below 25,000 tokens, with
//! a notice if something was cut.

use serde_json::{Map, Value};

use super::kind::Kind;
use crate::json_text::JsonText;

/// Some clients refuse larger responses.
pub(super) const TOKENS_MAX: usize = 25_000;
/// Bytes of records in a token, counted low: their digits and ids make 2.1 to 2.7 of them one token for
/// the tokenizers of three families of models.
const BYTES_PER_TOKEN: usize = 2;
/// Reserved for the rest of the response.
const RESERVE_BYTES: usize = 2_000;
pub(super) const RECORDS_BYTES_MAX: usize = TOKENS_MAX * BYTES_PER_TOKEN - RESERVE_BYTES;

/// More records than this never fit: the smallest kind takes over 150 bytes each.
pub(super) const RECORDS_MAX: usize = RECORDS_BYTES_MAX / 150;

/// The prefix of the derived text of an unreadable record.
const INVALID_OPENING: &str = "{\"invalid\":";

/// The number of unreadable records that are named.
const NAMED_MAX: usize = 20;

/// Is it the placeholder of an unreadable record?
pub(super) fn is_unreadable(text: &str) -> bool {
    text.starts_with(INVALID_OPENING)
}

/// The warnings about unreadable records: the first by name, the rest as a count.
pub(super) fn named<'a>(kind: Kind, warnings: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut named: Vec<String> = warnings.cloned().collect();
    if named.len() > NAMED_MAX {
        let more = named.len() - NAMED_MAX;
        named.truncate(NAMED_MAX);
        named.push(format!("{}: {more} more like these", kind.name()));
    }
    named
}

/// How many of these texts fit.
pub(super) fn fitting<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    fitting_sizes(texts.map(|text| text.len() + 1))
}

/// How many parts of these sizes in bytes fit.
pub(super) fn fitting_sizes(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes: usize = 0;
    sizes
        .take_while(|size| {
            bytes = bytes.saturating_add(*size);
            bytes <= RECORDS_BYTES_MAX
        })
        .count()
}

/// Joins derived records; unreadable ones become warnings.
pub(super) fn join<'a>(
    kind: Kind,
    texts: impl Iterator<Item = &'a str>,
    out: &mut JsonText,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut is_first = true;
    for text in texts {
        if is_unreadable(text)
            && let Err(warning) = record(kind, text)
        {
            warnings.push(warning);
            continue;
        }
        if !out.push_object(if is_first { "" } else { "," }, text) {
            warnings.push(format!(
                "{}: a record in the mirror is damaged; `tollgate sync whoop --full` brings it again",
                kind.name()
            ));
            continue;
        }
        is_first = false;
    }
    warnings
}

/// One derived record, or its error.
pub(super) fn record(kind: Kind, text: &str) -> Result<Map<String, Value>, String> {
    let record: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    match record.get("invalid").and_then(Value::as_str) {
        Some(message) => Err(format!("{}: {message}", kind.name())),
        None => Ok(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_is_reported_and_the_others_are_read() {
        let whole = [r#"{"a":1}"#, "{}", r#"{"b":"}"}"#];
        let damaged =
            [r#"{"a":"x}"#, r#"{"a":1}}"#, "[1]", "", r#"{"a":1,"b"}"#, "{\"a\":\"\u{1}\"}"];
        let mut out = JsonText::default();
        let warnings = join(Kind::Sleeps, whole.into_iter().chain(damaged), &mut out);
        assert_eq!(out.plain(), whole.join(","));
        assert_eq!(warnings.len(), damaged.len());
        assert!(
            warnings.iter().all(|message| message.starts_with("sleeps: a record")),
            "{warnings:?}"
        );
    }
}
