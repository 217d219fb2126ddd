//! Detects poisoned definitions: text that gives the model instructions instead of describing the tool,
//! demands secrecy, asks for files, or is hidden, encoded or commented out. Each cue has points; one
//! strong cue or several weak ones together are reported, each with its location.

use std::collections::BTreeMap;

use policy::json::Value;
use serde::Serialize;

use crate::pins::{OddityKind, oddities};

mod cue_table;
mod encodings;
mod markup;
mod matcher;
mod other_tools;
mod secrets;
mod texts;
mod tokens;

pub use other_tools::{LookAlike, OfferedTool, look_alikes};

use texts::{Role, Text};

/// Points from which a definition is reported as suspicious, and as poisoned.
const SUSPICIOUS_POINTS: u32 = 100;
const POISONED_POINTS: u32 = 160;
/// With a request for secrets of at least so many points, "put it in this field" counts too.
const HARVEST_POINTS: u32 = 55;

/// What a passage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoisonKind {
    /// Tells the model to ignore or override its instructions.
    Override,
    /// Tells the model to hide something from the user.
    Secrecy,
    /// Asks for files, keys or the conversation.
    Harvest,
    /// Says where to put the collected text.
    Smuggle,
    /// Names an address to send copies to.
    Redirect,
    /// Demands to be called before or after everything else.
    Order,
    /// Gives instructions about other tools.
    OtherTools,
    /// Claims the user's consent.
    Consent,
    /// Threatens, or gives a pretext.
    Pressure,
    /// Claims to be the system, or addresses the model.
    Authority,
    /// Text that users do not see and the model does: comments, styles, padding.
    OutOfSight,
    /// Encoded text.
    Encoded,
    /// Invisible, direction or control characters.
    HiddenCharacters,
    /// A name in look-alike letters.
    LookAlikeName,
}

impl PoisonKind {
    /// A predicate: "asks for files".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Override => "tells the model to ignore or override its instructions",
            Self::Secrecy => "tells the model to hide something from the user",
            Self::Harvest => "asks for files, keys or the conversation",
            Self::Smuggle => "says where to put the collected text",
            Self::Redirect => "names an address to send data to",
            Self::Order => "demands to be called before or after everything else",
            Self::OtherTools => "gives instructions about other tools",
            Self::Consent => "claims the user's consent",
            Self::Pressure => "threatens, or gives a pretext",
            Self::Authority => "claims to be the system, or addresses the model",
            Self::OutOfSight => "is placed where users do not see it",
            Self::Encoded => "is encoded",
            Self::HiddenCharacters => "contains invisible characters",
            Self::LookAlikeName => "is a name in look-alike letters",
        }
    }
}

/// The confidence of the detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspicion {
    #[default]
    None,
    /// A person should read it first.
    Suspicious,
    /// No honest definition reads like this.
    Poisoned,
}

impl Suspicion {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Suspicious => "suspicious",
            Self::Poisoned => "poisoned",
        }
    }
}

/// One passage, located by a JSON pointer into the definition and a byte range of the decoded text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoisonFinding {
    pub kind: PoisonKind,
    #[serde(rename = "place")]
    pub location: String,
    /// Byte range in the decoded text at `place`; for a key, in the key.
    pub start: usize,
    pub end: usize,
    /// The passage, safe to print.
    pub quote: String,
    /// What is wrong with it.
    #[serde(rename = "words")]
    pub message: String,
    pub points: u32,
}

/// The result for one definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Poison {
    pub suspicion: Suspicion,
    pub points: u32,
    /// Empty unless the definition is reported; then every cue, strongest first.
    pub findings: Vec<PoisonFinding>,
}

impl Poison {
    pub fn is_reported(&self) -> bool {
        self.suspicion > Suspicion::None
    }
}

/// Inspects one tool, resource or prompt object. `siblings` are the names of all tools of its server: a
/// server may mention its own tools.
pub fn inspect(definition: Value<'_>, siblings: &[&str]) -> Poison {
    inspect_with(definition, siblings, &[])
}

/// Like `inspect`, with the tools of other servers. Instructions about one of those are reported even if
/// its name does not look like a tool.
pub fn inspect_with(definition: Value<'_>, siblings: &[&str], others: &[&str]) -> Poison {
    let mut findings = hidden_characters(definition);
    let texts = texts::texts(definition);
    for text in &texts {
        findings.extend(read(text));
    }
    findings.extend(other_tools::orders(definition, &texts, siblings, others));
    verdict(findings)
}

/// Inspects a bare text, such as a server's instructions.
pub fn inspect_text(location: &str, text: &str) -> Poison {
    let text = Text { pointer: location.to_owned(), role: Role::Prose, content: text.to_owned() };
    verdict(read(&text))
}

fn read(text: &Text) -> Vec<PoisonFinding> {
    let mut found = matcher::findings(text);
    found.extend(secrets::findings(text));
    found.extend(other_tools::addresses(text));
    found.extend(markup::findings(text));
    found.extend(encodings::findings(text));
    found
}

/// Sums the highest points of each kind, plus half of a second, different passage for kinds that honest
/// authors use at most once.
fn points(findings: &[PoisonFinding]) -> u32 {
    let mut kinds: BTreeMap<PoisonKind, Vec<&PoisonFinding>> = BTreeMap::new();
    for finding in findings {
        kinds.entry(finding.kind).or_default().push(finding);
    }
    let of_kind = |(kind, found): (&PoisonKind, &Vec<&PoisonFinding>)| {
        let first = found.first().map_or(0, |f| f.points);
        let repeats =
            matches!(kind, PoisonKind::Override | PoisonKind::Consent | PoisonKind::Harvest);
        let second =
            found.iter().filter(|_| repeats).find(|f| found.first().is_some_and(|b| differs(b, f)));
        if first >= 80 || *kind == PoisonKind::Harvest {
            first + second.map_or(0, |f| f.points / 2)
        } else {
            first
        }
    };
    kinds.iter().map(of_kind).sum()
}

fn differs(a: &PoisonFinding, b: &PoisonFinding) -> bool {
    let apart = a.location != b.location || a.end <= b.start || b.end <= a.start;
    apart && a.quote != b.quote
}

/// Scores all passages of one definition.
fn verdict(mut findings: Vec<PoisonFinding>) -> Poison {
    let harvests =
        findings.iter().any(|f| f.kind == PoisonKind::Harvest && f.points >= HARVEST_POINTS);
    // "Pass the id as parameter" is ordinary; "pass the contents" after "read the key file" is not.
    findings.retain(|f| f.kind != PoisonKind::Smuggle || harvests);
    findings.sort_by(|a, b| b.points.cmp(&a.points).then_with(|| a.location.cmp(&b.location)));
    let points = points(&findings);
    let suspicion = match points {
        POISONED_POINTS.. => Suspicion::Poisoned,
        SUSPICIOUS_POINTS.. => Suspicion::Suspicious,
        _ => return Poison { points, ..Poison::default() },
    };
    findings.dedup_by(|a, b| (a.kind, &a.location, a.start) == (b.kind, &b.location, b.start));
    Poison { suspicion, points, findings }
}

/// Hidden characters and names in look-alike letters.
fn hidden_characters(definition: Value<'_>) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for oddity in oddities(definition) {
        let (kind, points) = match oddity.kind {
            OddityKind::Control
            | OddityKind::Invisible
            | OddityKind::Bidirectional
            | OddityKind::TagCharacters
            | OddityKind::VariationSelectors => (PoisonKind::HiddenCharacters, 120),
            OddityKind::PrivateUse => (PoisonKind::HiddenCharacters, 40),
            OddityKind::MixedScript | OddityKind::LookAlike => (PoisonKind::LookAlikeName, 120),
            OddityKind::NameOutsideAllowed | OddityKind::RepeatedKey => continue,
        };
        let message = oddity.message;
        out.push(PoisonFinding {
            kind,
            location: oddity.location,
            start: 0,
            end: 0,
            quote: message.clone(),
            message,
            points,
        });
    }
    out
}
