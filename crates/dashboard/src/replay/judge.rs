//! Judges recorded calls by a draft, with its limits counted from empty counters.

use std::sync::Arc;

use policy::{Policy, PredictedOutcome, Prediction};
use store::ledger::Replay;
use store::registry::Registry;

use super::recorded::{Recorded, ReplayError, Tools};
use super::tally::DraftDecision;

pub struct Judge<'a> {
    policy: &'a Policy,
    tools: Tools<'a>,
    replay: Replay,
    /// Whether the draft limits any of the calls.
    pub has_limits: bool,
}

impl<'a> Judge<'a> {
    pub fn new(policy: &'a Policy, registry: &'a Registry) -> Judge<'a> {
        Judge { policy, tools: Tools::new(registry), replay: Replay::default(), has_limits: false }
    }

    /// Limits count the calls that were carried out and that the draft does not deny.
    pub fn judge(&mut self, call: &Recorded) -> Result<DraftDecision, ReplayError> {
        let policy = self.policy;
        let Prediction { outcome, holds, .. } =
            call.with_call(&mut self.tools, |call| policy.predict(call))?;
        if matches!(outcome, PredictedOutcome::Denied { .. } | PredictedOutcome::Hidden { .. }) {
            return Ok(DraftDecision::of(outcome));
        }
        self.has_limits |= !holds.is_empty();
        let (facts, tick) = (call.facts(), call.entry.tick);
        let is_continuation = call.entry.continuation_of.is_some();
        match self.replay.over(&holds, &facts, tick).filter(|_| !is_continuation) {
            None if call.counts() => self.replay.take(&holds, &facts, tick),
            Some(over) if matches!(outcome, PredictedOutcome::Passes { .. }) => {
                return Ok(DraftDecision::Limited { rule: Arc::clone(&over.rule) });
            }
            _ => {}
        }
        Ok(DraftDecision::of(outcome))
    }
}
