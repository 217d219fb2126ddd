//! Classifies a tool by its definition: category, risk and evidence. A pure function.
//! A weight table, trained offline, scores words, parameters and operations; fixed rules keep doubtful
//! tools out of Read. Annotations are claims: they may raise a category, never lower it.

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

/// Raised whenever the same definition may be classified differently.
pub const CLASSIFIER_VERSION: u32 = 3;

/// The kind of a tool, by its main or worst effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Changes nothing.
    Read,
    /// Creates or changes something that can be corrected; sends messages.
    Write,
    /// Deletes, revokes, wipes or ends permanently.
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

    /// Parses the word, ignoring case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str().eq_ignore_ascii_case(text))
    }

    /// Destructive, Execute and Financial: more than an ordinary change.
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

    /// Parses the word, ignoring case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The classification of one tool. Texts are safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Classification {
    pub category: Category,
    pub risk: Risk,
    /// Strongest first; never empty.
    pub evidence: Vec<Evidence>,
    pub signals: Vec<Signal>,
    /// Hints that the rest of the definition contradicts.
    pub contradictions: Vec<Contradiction>,
    /// Another call can undo it: it deletes, installs, sends and pays nothing, and runs no code.
    #[serde(skip)]
    pub is_reversible: bool,
    /// Every parameter that takes a path, an address, a command or a query; `signals` has the first.
    #[serde(skip)]
    pub reach: Vec<Reach>,
}

/// Classifies one tool object as `tools/list` gives it. `server` is the server's name; it is only
/// used to drop that name from the front of the tool's.
pub fn classify(server: &str, tool: json::Value<'_>) -> Classification {
    classify_with_traits(server, tool).0
}

/// A classification without its evidence, for the catalogue index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BriefClassification {
    pub category: Category,
    pub risk: Risk,
    pub signals: Vec<SignalKind>,
}

/// Like `classify`, without evidence.
pub fn classify_brief(server: &str, tool: json::Value<'_>) -> BriefClassification {
    let tool = tool::ParsedTool::read(server, tool);
    let features = features::features(&tool);
    let category = decide::decide(&features, tool.hints).category;
    let signals = signals::signals(&tool, category);
    let risk = risk::risk(category, &tool, &features, &signals);
    BriefClassification {
        category,
        risk,
        signals: signals.into_iter().map(|signal| signal.kind).collect(),
    }
}

/// Like `classify`, with the traits that attack patterns need.
pub(crate) fn classify_with_traits(
    server: &str,
    tool: json::Value<'_>,
) -> (Classification, Traits) {
    let tool = tool::ParsedTool::read(server, tool);
    let features = features::features(&tool);
    let class = class_of(&tool, &features);
    let traits = traits::traits(&tool, &features);
    (class, traits)
}

fn class_of(tool: &tool::ParsedTool, features: &[features::Feature]) -> Classification {
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

/// Whether a word, in lower case and base form, is a verb of tool names.
pub(crate) fn is_verb(word: &str) -> bool {
    lexicon::verb(word).is_some_and(|verb| !verb.weak)
}

/// Like `is_verb`, including words that are as often nouns.
pub(crate) fn is_any_verb(word: &str) -> bool {
    lexicon::verb(word).is_some()
}

/// The features of a tool by their id in the weight table, for the trainer in `train/`.
pub fn feature_ids(server: &str, tool: json::Value<'_>) -> Vec<String> {
    features::features(&tool::ParsedTool::read(server, tool)).into_iter().map(|f| f.id).collect()
}
