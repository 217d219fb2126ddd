//! Progress that only ever grows, as the protocol has it, also where the parts of a call each count for
//! themselves: the wait for a human, the rounds of a newer server.

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};

use crate::rebuild::{self, Member};

/// A longer message is not read: it is the answer, or its words are worth more than its number.
const STEP_BYTES_MAX: usize = 16 * 1024;

/// How far the client was told that its call is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    told: Option<f64>,
    /// What is added to the count of this part; known with its first step.
    before: Option<f64>,
}

impl Steps {
    /// So many steps were told already.
    pub(crate) fn after(told: u32) -> Steps {
        Steps { told: (told > 0).then(|| f64::from(told)), before: None }
    }

    /// From now on another part of the call counts.
    pub(crate) fn next_part(&mut self) {
        self.before = None;
    }

    /// A notification as the client may have it; one that is no progress stays as it is.
    pub(crate) fn counted(&mut self, message: Bytes) -> Bytes {
        match self.raised(&message) {
            Some(raised) => raised.into(),
            None => message,
        }
    }

    fn raised(&mut self, message: &[u8]) -> Option<String> {
        if message.len() > STEP_BYTES_MAX {
            return None;
        }
        let doc = Doc::read_shallow(message, &Bounds::ANSWER, 3).ok()?;
        let root = doc.root();
        let method = root.get("method")?.as_str()?;
        let params = root.get("params").filter(|_| method == "notifications/progress")?;
        let step = number(params.get("progress")?)?;
        let told = self.told.filter(|told| step <= *told);
        let before = *self.before.get_or_insert(told.map_or(0.0, |told| told - step + 1.0));
        self.told = Some(step + before);
        if before == 0.0 {
            return None;
        }
        let change = |key: &str, value: Value<'_>| match (key, number(value)) {
            ("progress" | "total", Some(value)) => Member::Replace(written(value + before)),
            _ => Member::Keep,
        };
        let params = rebuild::object(params, change, &[]);
        Some(rebuild::with(root, "params", params))
    }
}

fn number(value: Value<'_>) -> Option<f64> {
    value.as_number()?.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Whole numbers stay whole.
fn written(value: f64) -> String {
    const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        return format!("{value:.0}");
    }
    serde_json::Number::from_f64(value).map_or_else(|| "0".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(steps: &mut Steps, params: &str) -> String {
        let message =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
        let counted = steps.counted(message.into());
        let counted = String::from_utf8_lossy(&counted);
        counted.split_once("\"params\":").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    }

    #[test]
    fn each_part_counts_on_from_where_the_last_one_was() {
        let mut steps = Steps::after(3);
        for (step, expected) in [
            (r#"{"progressToken":1,"progress":0,"total":100}"#, r#""progress":4,"total":104"#),
            (r#"{"progressToken":1,"progress":0.5,"total":100}"#, r#""progress":4.5,"total":104"#),
            (r#"{"progress":50,"message":"half"}"#, r#""progress":54,"message":"half""#),
        ] {
            let told = told(&mut steps, step);
            assert!(told.contains(expected), "{told}");
        }
        steps.next_part();
        assert!(
            told(&mut steps, r#"{"progress":60.0}"#).contains("60.0"),
            "it counts on by itself"
        );
        steps.next_part();
        assert!(told(&mut steps, r#"{"progress":1}"#).contains("61"));
        assert!(told(&mut steps, r#"{"progress":"x"}"#).contains("\"x\""));
    }
}
