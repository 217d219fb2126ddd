//! What can be told of a call whose arguments nobody knows, such as one of the audit log. The walk is the
//! one that decides; where a rule hangs on the arguments it goes on, and the rule is remembered.

use std::sync::Arc;

use crate::explain::{May, Recorder, Step};
use crate::verdict::{Code, Decision, Hold, Verdict};

/// What is certain about a call, whatever its arguments.
#[derive(Debug, Clone)]
pub struct Foreseen {
    pub sight: Sight,
    /// What must be held before the call leaves, as far as no argument says how much.
    pub holds: Vec<Hold>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// No rule stops it. Limits may.
    Passes {
        rule: Arc<str>,
    },
    /// A human decides, and nothing denies it before.
    Asks {
        rule: Arc<str>,
    },
    /// Denied whatever the arguments. A rule on arguments that stands earlier may be the one that does.
    Denied {
        code: Code,
        rule: Arc<str>,
        earlier: Vec<Arc<str>>,
    },
    Hidden {
        rule: Arc<str>,
    },
    /// One of these rules may deny it, or ask a human.
    Depends {
        rules: Vec<Arc<str>>,
    },
}

impl Sight {
    /// `pass`, `ask`, `deny`, `hide` or `depends`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Sight::Passes { .. } => "pass",
            Sight::Asks { .. } => "ask",
            Sight::Denied { .. } => "deny",
            Sight::Hidden { .. } => "hide",
            Sight::Depends { .. } => "depends",
        }
    }
}

/// Gathers the rules that only the arguments can settle.
#[derive(Default)]
pub(crate) struct Foresight {
    may_deny: Vec<Arc<str>>,
    may_ask: Vec<Arc<str>>,
}

impl Recorder for Foresight {
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

impl Foresight {
    /// What the verdict of such a walk is worth.
    pub(crate) fn see(self, verdict: Verdict) -> Foreseen {
        let Verdict { decision, rule, holds, .. } = verdict;
        let Foresight { mut may_deny, may_ask } = self;
        let sight = match decision {
            Decision::Hidden(_) => Sight::Hidden { rule },
            Decision::Deny(denial) => Sight::Denied { code: denial.code, rule, earlier: may_deny },
            Decision::Ask(_) if may_deny.is_empty() => Sight::Asks { rule },
            Decision::Allow if may_deny.is_empty() && may_ask.is_empty() => Sight::Passes { rule },
            Decision::Ask(_) | Decision::Allow => {
                may_deny.extend(may_ask);
                Sight::Depends { rules: may_deny }
            }
        };
        Foreseen { sight, holds }
    }
}
