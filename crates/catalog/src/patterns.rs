//! Attack patterns: a versioned table of known attacks, and which of them a tool is exposed to. A tool
//! is exposed only if its own signs match.

use serde::Serialize;
use serde_json::Value;

use crate::classify::{Category, Risk, SignalKind};
use crate::poison::PoisonKind;

mod rule_template;
mod signs;
mod table;

pub(crate) use rule_template::{nest, policy_path};
pub use signs::{Facts, ObservedSign};
pub use table::PATTERNS;

/// Raised whenever a pattern, its signs or its rule changes.
pub const PATTERNS_VERSION: u32 = 3;

/// One attack.
#[derive(Debug, Serialize)]
pub struct Pattern {
    /// Stable; links and reports use it.
    pub id: &'static str,
    pub title: &'static str,
    /// How it works, in a few sentences.
    pub how: &'static str,
    /// A public case, if there is one.
    pub example: Option<Example>,
    /// A tool with all signs of any of these sets is exposed.
    pub exposed: &'static [&'static [Sign]],
    /// What the rule does, in one sentence.
    pub effect: &'static str,
    /// A policy that stops it; `TOOL` and `PARAM` stand for the tool and its parameter.
    #[serde(skip)]
    rule: &'static str,
    /// The rule for a parameter that may hold more than web addresses, such as `uri`.
    #[serde(skip)]
    rule_for_uris: Option<&'static str>,
}

/// A public, dated case.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Example {
    /// Year, month and, where it is known, day.
    pub date: &'static str,
    pub what: &'static str,
    pub source: &'static str,
}

/// A property of a tool that a pattern may require.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    Signal(SignalKind),
    /// A parameter carries the signal, not only the name.
    Takes(SignalKind),
    Is(Category),
    AtLeast(Risk),
    /// Its definition is reported, for any reason.
    Poisoned,
    Poison(PoisonKind),
    /// One of its hints is contradicted.
    Contradicted,
    /// It differs from its pin.
    Drifted,
    /// Another tool has nearly the same name.
    LooksLikeAnother,
    Does(Behavior),
}

/// What a tool does, beyond its category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    IssuesCredentials,
    Sends,
    ReadsStrangers,
    Remembers,
    GrantsAccess,
    Installs,
    StartsWork,
    Drives,
    RawRequest,
    Exports,
    Signs,
    Uploads,
}

impl Behavior {
    pub const ALL: [Self; 12] = [
        Self::IssuesCredentials,
        Self::Sends,
        Self::ReadsStrangers,
        Self::Remembers,
        Self::GrantsAccess,
        Self::Installs,
        Self::StartsWork,
        Self::Drives,
        Self::RawRequest,
        Self::Exports,
        Self::Signs,
        Self::Uploads,
    ];

    /// A predicate: "installs code".
    pub fn describe(self) -> &'static str {
        match self {
            Self::IssuesCredentials => "issues or renews credentials",
            Self::Sends => "sends messages in the owner's name",
            Self::ReadsStrangers => "returns text written by third parties",
            Self::Remembers => "stores notes for later sessions",
            Self::GrantsAccess => "grants access",
            Self::Installs => "installs third-party code",
            Self::StartsWork => "starts work that costs while it runs",
            Self::Drives => "drives a browser or a device",
            Self::RawRequest => "sends arbitrary requests to an API",
            Self::Exports => "returns large amounts of data",
            Self::Signs => "signs or approves something binding",
            Self::Uploads => "sends local files to a third party",
        }
    }
}

/// A pattern that a tool is exposed to, with the reasons and a rule for this tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exposure {
    pub id: &'static str,
    pub title: &'static str,
    /// "accepts a path (parameter `file`)".
    pub because: Vec<String>,
    pub effect: &'static str,
    /// A policy for this tool that stops it.
    pub rule: Value,
}

impl Exposure {
    /// How the attack works.
    pub fn how(&self) -> &'static str {
        pattern(self.id).map_or("", |pattern| pattern.how)
    }
}

/// The pattern of an id.
pub fn pattern(id: &str) -> Option<&'static Pattern> {
    PATTERNS.iter().find(|p| p.id == id)
}

/// The patterns that a tool is exposed to, in the order of the table.
pub fn exposures(tool: &str, facts: &Facts) -> Vec<Exposure> {
    PATTERNS.iter().filter_map(|pattern| exposure(pattern, tool, facts)).collect()
}

fn exposure(pattern: &'static Pattern, tool: &str, facts: &Facts) -> Option<Exposure> {
    let shown = pattern.exposed.iter().find_map(|signs| facts.all(signs))?;
    let parameter = shown.iter().find_map(|observed| observed.parameter.as_deref());
    Some(Exposure {
        id: pattern.id,
        title: pattern.title,
        because: shown.iter().map(|observed| observed.message.clone()).collect(),
        effect: pattern.effect,
        rule: pattern.rule_for(tool, parameter),
    })
}

impl Pattern {
    /// The rule for a tool and a parameter (a dotted path, `[]` for elements). A rule about a parameter
    /// becomes "ask first" if the tool has none.
    pub fn rule_for(&self, tool: &str, parameter: Option<&str>) -> Value {
        let url = parameter.is_none_or(rule_template::is_url);
        let loose = self.rule_for_uris.filter(|_| !url);
        rule_template::rule(loose.unwrap_or(self.rule), tool, parameter)
    }
}
