//! What the policy does to the answer of a request: what is cut out of it, and how large it may be.

use policy::json::Value;
use policy::{Code, Denial};

use super::tail::Tail;
use crate::results;
use crate::wire::Method;

impl Tail {
    /// Whether a result tells of a task.
    pub(super) fn is_of_task(&self, result: Value<'_>) -> bool {
        Method::parse(&self.method).follows_up_a_task()
            || result.get("resultType").and_then(Value::as_str).as_deref() == Some("task")
    }

    pub(super) fn effects_on(&self, result: Value<'_>) -> Result<Option<String>, Denial> {
        if results::is_idle(&self.effects) {
            return Ok(None);
        }
        let apply = if self.is_of_task(result) { results::apply_to_task } else { results::apply };
        apply(&self.effects, result).map_err(|too_large| self.over_the_bound(&too_large))
    }

    /// An error carries data as a result does, so the same rules hold for it.
    pub(super) fn effects_on_error(&self, error: Value<'_>) -> Result<Option<String>, Denial> {
        results::apply_to_error(&self.effects, error)
            .map_err(|too_large| self.over_the_bound(&too_large))
    }

    fn over_the_bound(&self, too_large: &results::TooLarge) -> Denial {
        let reason = format!(
            "the result has {} bytes and the policy allows {}; ask for less",
            too_large.bytes, too_large.bytes_max
        );
        Denial::new(Code::ResultTooLarge, self.asked.entry_rule(), reason)
    }
}
