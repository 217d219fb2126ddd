//! Applies the policy's effects to the response of a call: redaction and size limit.

use policy::json::Value;
use policy::{Code, Denial};

use crate::exchange::in_flight::InFlightCall;
use crate::exchange::results;
use mcp::Method;

impl InFlightCall {
    /// Whether a result is about a task.
    pub(in crate::exchange) fn is_of_task(&self, result: Value<'_>) -> bool {
        Method::parse(&self.method).follows_up_a_task()
            || result.get("resultType").and_then(Value::as_str).as_deref() == Some("task")
    }

    pub(in crate::exchange) fn effects_on(
        &self,
        result: Value<'_>,
    ) -> Result<Option<String>, Denial> {
        if results::has_no_effects(&self.effects) {
            return Ok(None);
        }
        let apply = if self.is_of_task(result) { results::apply_to_task } else { results::apply };
        apply(&self.effects, result).map_err(|too_large| self.over_the_bound(&too_large))
    }

    /// Errors carry data like results, so the same rules apply.
    pub(in crate::exchange) fn effects_on_error(
        &self,
        error: Value<'_>,
    ) -> Result<Option<String>, Denial> {
        results::apply_to_error(&self.effects, error)
            .map_err(|too_large| self.over_the_bound(&too_large))
    }

    fn over_the_bound(&self, too_large: &results::TooLarge) -> Denial {
        let reason = format!(
            "the result has {} bytes and the policy allows {}; request less data",
            too_large.bytes, too_large.bytes_max
        );
        Denial::new(Code::ResultTooLarge, self.request.entry_rule(), reason)
    }
}
