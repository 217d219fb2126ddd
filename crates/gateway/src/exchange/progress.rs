//! Makes progress increase over all phases of a call, as the protocol requires: the wait for an approval, and
//! the rounds of a modern server.

use bytes::Bytes;
use policy::json::{Bounds, Doc, Value};

use mcp::edit::{self, Member};

/// Larger messages are not parsed: they are responses, or their text matters more than their number.
const STEP_BYTES_MAX: usize = 16 * 1024;

/// The progress that the client has received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgressCounter {
    last_sent: Option<f64>,
    /// The offset of the current phase, set with its first notification.
    offset: Option<f64>,
}

impl ProgressCounter {
    /// Starts after so many notifications.
    pub(crate) fn starting_at(last_sent: u32) -> ProgressCounter {
        ProgressCounter { last_sent: (last_sent > 0).then(|| f64::from(last_sent)), offset: None }
    }

    /// Starts the next phase.
    pub(crate) fn start_phase(&mut self) {
        self.offset = None;
    }

    /// A progress notification with the adjusted value. Other messages stay unchanged.
    pub(crate) fn adjusted(&mut self, message: Bytes) -> Bytes {
        match self.adjust(&message) {
            Some(adjusted) => adjusted.into(),
            None => message,
        }
    }

    fn adjust(&mut self, message: &[u8]) -> Option<String> {
        if message.len() > STEP_BYTES_MAX {
            return None;
        }
        let doc = Doc::read_shallow(message, &Bounds::ANSWER, 3).ok()?;
        let root = doc.root();
        let method = root.get("method")?.as_str()?;
        let params = root.get("params").filter(|_| method == "notifications/progress")?;
        let step = number(params.get("progress")?)?;
        let last_sent = self.last_sent.filter(|last_sent| step <= *last_sent);
        let offset =
            *self.offset.get_or_insert(last_sent.map_or(0.0, |last_sent| last_sent - step + 1.0));
        self.last_sent = Some(step + offset);
        if offset == 0.0 {
            return None;
        }
        let change = |key: &str, value: Value<'_>| match (key, number(value)) {
            ("progress" | "total", Some(value)) => Member::Replace(format_number(value + offset)),
            _ => Member::Keep,
        };
        let params = edit::object(params, change, &[]);
        Some(edit::with(root, "params", params))
    }
}

fn number(value: Value<'_>) -> Option<f64> {
    value.as_number()?.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Integers stay integers.
fn format_number(value: f64) -> String {
    const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        return format!("{value:.0}");
    }
    serde_json::Number::from_f64(value).map_or_else(|| "0".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjusted_params(steps: &mut ProgressCounter, params: &str) -> String {
        let message =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
        let adjusted = steps.adjusted(message.into());
        let adjusted = String::from_utf8_lossy(&adjusted);
        adjusted.split_once("\"params\":").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    }

    #[test]
    fn each_part_counts_on_from_where_the_last_one_was() {
        let mut steps = ProgressCounter::starting_at(3);
        for (step, expected) in [
            (r#"{"progressToken":1,"progress":0,"total":100}"#, r#""progress":4,"total":104"#),
            (r#"{"progressToken":1,"progress":0.5,"total":100}"#, r#""progress":4.5,"total":104"#),
            (r#"{"progress":50,"message":"half"}"#, r#""progress":54,"message":"half""#),
        ] {
            let params = adjusted_params(&mut steps, step);
            assert!(params.contains(expected), "{params}");
        }
        steps.start_phase();
        assert!(
            adjusted_params(&mut steps, r#"{"progress":60.0}"#).contains("60.0"),
            "it counts on by itself"
        );
        steps.start_phase();
        assert!(adjusted_params(&mut steps, r#"{"progress":1}"#).contains("61"));
        assert!(adjusted_params(&mut steps, r#"{"progress":"x"}"#).contains("\"x\""));
    }
}
