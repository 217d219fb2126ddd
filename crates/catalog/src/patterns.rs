//! How tools are turned against their owner: a written, versioned table of attacks, and which of them a
//! tool is exposed to. A tool shows a pattern only when its own signals match.

use serde::Serialize;
use serde_json::Value;

use crate::classify::{Category, Risk, SignalKind};
use crate::poison::PoisonKind;

mod remedy;
mod signs;
mod table;

pub(crate) use remedy::{nest, policy_path};
pub use signs::{Facts, Sighting};
pub use table::PATTERNS;

/// Changes whenever a pattern, its signs or its rule changes.
pub const PATTERNS_VERSION: u32 = 2;

/// One attack, in our own words.
#[derive(Debug, Serialize)]
pub struct Pattern {
    /// Stable; links and reports use it.
    pub id: &'static str,
    pub title: &'static str,
    /// How it works, in a few sentences.
    pub how: &'static str,
    /// Where it was seen, if it was.
    pub example: Option<Example>,
    /// Any of these sets of signs makes a tool exposed.
    pub exposed: &'static [&'static [Sign]],
    /// What the rule does, in one sentence.
    pub effect: &'static str,
    /// A policy that stops it; `TOOL` and `PARAM` stand for the tool and its parameter.
    #[serde(skip)]
    rule: &'static str,
    /// The same for a parameter that may hold other things than web addresses, such as `uri`.
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

/// One thing that can be true of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    Signal(SignalKind),
    /// A parameter carries the signal, not only the name.
    Takes(SignalKind),
    Is(Category),
    AtLeast(Risk),
    /// Its definition was reported, by whatever cue.
    Poisoned,
    Poison(PoisonKind),
    /// A claim of its author is contradicted.
    Contradicted,
    /// It is no longer what was pinned.
    Drifted,
    /// Another tool is called almost the same.
    LooksLikeAnother,
    Does(Habit),
}

/// Things tools do that no category tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Habit {
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

impl Habit {
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

    /// The habit as half a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::IssuesCredentials => "issues or renews credentials",
            Self::Sends => "speaks to others in the owner's name",
            Self::ReadsStrangers => "returns text that strangers write",
            Self::Remembers => "keeps notes that are read again later",
            Self::GrantsAccess => "gives somebody access",
            Self::Installs => "brings in code from elsewhere",
            Self::StartsWork => "starts work that costs while it runs",
            Self::Drives => "drives a browser or a device",
            Self::RawRequest => "makes any request to an interface",
            Self::Exports => "hands out much at once",
            Self::Signs => "signs or approves something binding",
            Self::Uploads => "hands local files to somebody else",
        }
    }
}

/// A pattern that a tool is exposed to, with what shows it and the rule for this very tool.
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

/// The pattern of an id.
pub fn pattern(id: &str) -> Option<&'static Pattern> {
    PATTERNS.iter().find(|p| p.id == id)
}

/// The patterns whose signs a tool shows, in the order of the table.
pub fn exposures(tool: &str, facts: &Facts) -> Vec<Exposure> {
    PATTERNS.iter().filter_map(|pattern| exposure(pattern, tool, facts)).collect()
}

fn exposure(pattern: &'static Pattern, tool: &str, facts: &Facts) -> Option<Exposure> {
    let shown = pattern.exposed.iter().find_map(|signs| facts.all(signs))?;
    let parameter = shown.iter().find_map(|sighting| sighting.parameter.as_deref());
    Some(Exposure {
        id: pattern.id,
        title: pattern.title,
        because: shown.iter().map(|sighting| sighting.words.clone()).collect(),
        effect: pattern.effect,
        rule: pattern.rule_for(tool, parameter),
    })
}

impl Pattern {
    /// The rule with a tool and a parameter (a dotted path, `[]` for elements) in place. A rule about a
    /// parameter becomes "ask first" when the tool shows none.
    pub fn rule_for(&self, tool: &str, parameter: Option<&str>) -> Value {
        let url = parameter.is_none_or(remedy::is_url);
        let loose = self.rule_for_uris.filter(|_| !url);
        remedy::rule(loose.unwrap_or(self.rule), tool, parameter)
    }
}
