//! Predicts the decision for a call whose arguments are unknown, such as one from the audit log. It is the
//! same walk that decides; it continues past rules that depend on the arguments and remembers them.

use std::sync::Arc;

use crate::explain::{May, Recorder, Step};
use crate::verdict::{Code, Decision, Hold, Verdict};

/// What is certain about a call, whatever its arguments.
#[derive(Debug, Clone)]
pub struct Prediction {
    pub outcome: PredictedOutcome,
    /// No arguments let the call pass without a human.
    pub asks: bool,
    /// The holds of the call whose amounts do not depend on arguments.
    pub holds: Vec<Hold>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredictedOutcome {
    /// No rule stops it; limits may.
    Passes {
        rule: Arc<str>,
    },
    /// A human decides, and nothing denies it first.
    Asks {
        rule: Arc<str>,
    },
    /// Denied whatever the arguments. An earlier rule on arguments may be the one that denies.
    Denied {
        code: Code,
        rule: Arc<str>,
        earlier: Vec<Arc<str>>,
    },
    Hidden {
        rule: Arc<str>,
    },
    /// One of these rules may deny it or require approval.
    Depends {
        rules: Vec<Arc<str>>,
    },
}

impl PredictedOutcome {
    /// `pass`, `ask`, `deny`, `hide` or `depends`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            PredictedOutcome::Passes { .. } => "pass",
            PredictedOutcome::Asks { .. } => "ask",
            PredictedOutcome::Denied { .. } => "deny",
            PredictedOutcome::Hidden { .. } => "hide",
            PredictedOutcome::Depends { .. } => "depends",
        }
    }
}

/// Collects the rules that depend on the arguments.
#[derive(Default)]
pub(crate) struct ArgumentRules {
    may_deny: Vec<Arc<str>>,
    may_ask: Vec<Arc<str>>,
}

impl Recorder for ArgumentRules {
    const KNOWS_ARGUMENTS: bool = false;

    fn note(&mut self, _step: impl FnOnce() -> Step) {}

    fn may(&mut self, what: May, rule: &Arc<str>) {
        let rules = match what {
            May::Deny => &mut self.may_deny,
            May::Ask => &mut self.may_ask,
        };
        rules.push(Arc::clone(rule));
    }
}

impl ArgumentRules {
    /// Turns the verdict of such a walk into a prediction.
    pub(crate) fn into_prediction(self, verdict: Verdict) -> Prediction {
        let Verdict { decision, rule, holds, .. } = verdict;
        let ArgumentRules { mut may_deny, may_ask } = self;
        let asks = matches!(decision, Decision::Ask(_));
        let outcome = match decision {
            Decision::Hidden(_) => PredictedOutcome::Hidden { rule },
            Decision::Deny(denial) => {
                PredictedOutcome::Denied { code: denial.code, rule, earlier: may_deny }
            }
            Decision::Ask(_) if may_deny.is_empty() => PredictedOutcome::Asks { rule },
            Decision::Allow if may_deny.is_empty() && may_ask.is_empty() => {
                PredictedOutcome::Passes { rule }
            }
            Decision::Ask(_) | Decision::Allow => {
                may_deny.extend(may_ask);
                PredictedOutcome::Depends { rules: may_deny }
            }
        };
        Prediction { outcome, asks, holds }
    }
}
