//! The steps of a decision. The walk that decides records them on request, so that the explanation
//! cannot differ from the decision. Steps name paths and operators, never argument values.

use std::fmt;
use std::sync::Arc;

use crate::truth_value::TruthValue;

/// One step of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// JSON pointer of the part of the policy.
    pub pointer: String,
    /// Paths, operators and types, without argument values.
    pub looked_at: String,
    pub finding: Finding,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.pointer, self.looked_at, self.finding)
    }
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A pattern or entry matches the name.
    Matches,
    /// None matches.
    NoMatch,
    TruthValue(TruthValue),
    Allows,
    Asks,
    Denies,
    Hides,
    Warns,
    /// An amount will be held against a counter.
    Holds,
}

impl Finding {
    pub const fn as_str(self) -> &'static str {
        match self {
            Finding::Matches => "matches",
            Finding::NoMatch => "no match",
            Finding::TruthValue(truth) => truth.as_str(),
            Finding::Allows => "allows",
            Finding::Asks => "asks a human",
            Finding::Denies => "denies",
            Finding::Hides => "hides",
            Finding::Warns => "warns",
            Finding::Holds => "is held",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Receives every step of a walk.
pub(crate) trait Recorder {
    /// Without arguments the walk continues past a rule that needs them and records the rule.
    const KNOWS_ARGUMENTS: bool = true;

    fn note(&mut self, step: impl FnOnce() -> Step);

    /// The rule may deny the call or require approval, depending on the arguments.
    fn may(&mut self, _what: May, _rule: &Arc<str>) {}
}

/// What a rule on unknown arguments may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    Deny,
    Ask,
}

/// Deciding needs no record; the steps are not even built.
pub(crate) struct Silent;

impl Recorder for Silent {
    #[inline]
    fn note(&mut self, _step: impl FnOnce() -> Step) {}
}

#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) steps: Vec<Step>,
}

impl Recorder for Trace {
    fn note(&mut self, step: impl FnOnce() -> Step) {
        self.steps.push(step());
    }
}
