//! Says what kind of act a tool is, how dangerous it is, and why: a pure function of its definition.
//! A table of weights trained offline reads words, parameters and operations; fixed floors keep a
//! doubtful tool out of Read. Annotations are claims: they may raise a class, never lower it.

mod decide;
mod evidence;
mod features;
mod lexicon;
mod risk;
mod senses;
mod signals;
mod text;
mod tool;
mod traits;
mod weight_table;

use std::fmt;

use policy::json;
use serde::Serialize;

pub use evidence::{Contradiction, Evidence};
pub use signals::{Reach, Signal, SignalKind};
pub use traits::Traits;

/// Changes whenever the same definition may be answered differently.
pub const CLASSIFIER_VERSION: u32 = 2;

/// What a tool does to the world, by its main or worst effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Changes nothing.
    Read,
    /// Creates or changes in a way that can be put right; sends messages.
    Write,
    /// Deletes, revokes, wipes or ends for good.
    Destructive,
    /// Runs the caller's code or queries, starts or stops jobs, drives a browser or device.
    Execute,
    /// Moves money, creates or changes an obligation to pay, trades.
    Financial,
}

impl Category {
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::Destructive, Self::Execute, Self::Financial];

    /// The word policies use for `tool.category`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
            Self::Execute => "execute",
            Self::Financial => "financial",
        }
    }

    /// Reads the word back, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str().eq_ignore_ascii_case(text))
    }

    /// Destructive, Execute and Financial: not to be taken for an ordinary change.
    pub fn is_dangerous(self) -> bool {
        self > Self::Write
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much harm one call can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    Low,
    Medium,
    High,
    Critical,
}

impl Risk {
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The word policies use for `tool.risk`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Reads the word back, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer for one tool. Texts are ready to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Classification {
    pub category: Category,
    pub risk: Risk,
    /// What decided, strongest first; never empty.
    pub evidence: Vec<Evidence>,
    pub signals: Vec<Signal>,
    /// Claims of the author that the rest of the definition speaks against.
    pub contradictions: Vec<Contradiction>,
    /// Another call puts it right: nothing is deleted, installed, sent out or paid, and no code runs.
    #[serde(skip)]
    pub is_reversible: bool,
    /// Every parameter that takes a path, an address, a command or a query; `signals` has the first.
    #[serde(skip)]
    pub reach: Vec<Reach>,
}

/// Classifies one tool object as `tools/list` gives it. `server` is the server's name; it is only
/// used to drop that name from the front of the tool's.
pub fn classify(server: &str, tool: json::Value<'_>) -> Classification {
    classify_closely(server, tool).0
}

/// What an index keeps of a tool. The reasons are left out: an import does not show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub category: Category,
    pub risk: Risk,
    pub signals: Vec<SignalKind>,
}

/// The same answer as `classify`, without its reasons.
pub fn classify_briefly(server: &str, tool: json::Value<'_>) -> Brief {
    let tool = tool::Tool::read(server, tool);
    let features = features::features(&tool);
    let category = decide::decide(&features, tool.hints).category;
    let signals = signals::signals(&tool, category);
    let risk = risk::risk(category, &tool, &features, &signals);
    Brief { category, risk, signals: signals.into_iter().map(|signal| signal.kind).collect() }
}

/// The same, with what attack patterns want to know besides.
pub(crate) fn classify_closely(server: &str, tool: json::Value<'_>) -> (Classification, Traits) {
    let tool = tool::Tool::read(server, tool);
    let features = features::features(&tool);
    let class = class_of(&tool, &features);
    let traits = traits::traits(&tool, &features);
    (class, traits)
}

fn class_of(tool: &tool::Tool, features: &[features::Feature]) -> Classification {
    let decision = decide::decide(features, tool.hints);
    let signals = signals::signals(tool, decision.category);
    let risk = risk::risk(decision.category, tool, features, &signals);
    Classification {
        category: decision.category,
        risk,
        is_reversible: risk::is_reversible(decision.category, risk, tool),
        reach: signals::reach_of(tool, decision.category),
        evidence: evidence::evidence(tool, features, &decision),
        contradictions: evidence::contradictions(tool, features, &decision, &signals),
        signals,
    }
}

/// Whether a word, in lower case and as an order, is one of the verbs tools are named with.
pub(crate) fn is_verb(word: &str) -> bool {
    lexicon::verb(word).is_some_and(|verb| !verb.weak)
}

/// The same, with words that are nouns as often.
pub(crate) fn is_any_verb(word: &str) -> bool {
    lexicon::verb(word).is_some()
}

/// The features of a tool by their id in the weight table, for the trainer in `train/`.
pub fn feature_ids(server: &str, tool: json::Value<'_>) -> Vec<String> {
    features::features(&tool::Tool::read(server, tool)).into_iter().map(|f| f.id).collect()
}
