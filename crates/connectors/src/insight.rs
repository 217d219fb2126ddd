//! The answer of an insight tool: sentences that a model may repeat, then the values behind them with as many
//! digits as mean something.

use schemars::JsonSchema;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

/// More digits than any source measures, and enough to recompute from.
const DIGITS: i32 = 6;

#[derive(Debug, JsonSchema)]
pub(crate) struct Insight<T> {
    /// The answer in sentences, in the units of the owner: numbers with their dates and sample sizes.
    summary: Vec<String>,
    #[schemars(flatten)]
    values: T,
}

impl<T> Insight<T> {
    pub(crate) fn new(summary: Vec<String>, values: T) -> Insight<T> {
        Insight { summary, values }
    }
}

impl<T: Serialize> Serialize for Insight<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = serde_json::to_value(&self.values).map_err(S::Error::custom)?;
        let mut members = Map::new();
        members.insert("summary".to_owned(), self.summary.clone().into());
        if let Value::Object(values) = significant(values) {
            members.extend(values);
        }
        members.serialize(serializer)
    }
}

/// Every fraction rounded to its significant digits.
fn significant(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(rounded(number)),
        Value::Array(items) => items.into_iter().map(significant).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, own)| (name, significant(own))).collect())
        }
        other => other,
    }
}

fn rounded(number: Number) -> Number {
    if number.is_i64() || number.is_u64() {
        return number;
    }
    let short = number.as_f64().filter(|value| *value != 0.0).and_then(|value| {
        // The logarithm of a finite number is small, and a cast of it is exact.
        #[allow(clippy::cast_possible_truncation, reason = "at most 308")]
        let before = value.abs().log10().floor() as i32 + 1;
        let decimals = usize::try_from(DIGITS - before).unwrap_or(0);
        format!("{value:.decimals$}").parse().ok().and_then(Number::from_f64)
    });
    short.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fractions_keep_six_digits_and_counts_all() {
        let table = [
            (446.710_833_333, 446.711),
            (-0.001_992_192_262, -0.001_992_19),
            (1.991_922_623_e-9, 1.991_92e-9),
            (1_234_567.8, 1_234_568.0),
            (0.0, 0.0),
        ];
        for (value, short) in table {
            assert_eq!(significant(json!({ "v": [value] })), json!({ "v": [short] }));
        }
        assert_eq!(significant(json!(123_456_789)), json!(123_456_789));
    }

    #[test]
    fn the_sentences_come_first() {
        #[derive(Serialize, JsonSchema)]
        struct Values {
            n: usize,
        }
        let answer = Insight::new(vec!["Said.".to_owned()], Values { n: 3 });
        let shown = serde_json::to_string(&answer).unwrap_or_default();
        assert_eq!(shown, r#"{"summary":["Said."],"n":3}"#);
    }
}
