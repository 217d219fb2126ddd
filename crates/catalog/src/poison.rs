//! Looks for text in a definition that speaks to the model instead of describing the tool: orders,
//! demands of secrecy, requests for files, hidden characters, encoded or commented text. Each cue has
//! points; one loud cue or several quiet ones together are reported, with the place of each.

use std::collections::BTreeMap;

use policy::json::Value;
use serde::Serialize;

use crate::pins::{OddityKind, oddities};

mod cue_table;
mod disguise;
mod foreign;
mod marks;
mod matcher;
mod secrets;
mod texts;
mod words;

pub use foreign::{LookAlike, Offered, look_alikes};

use texts::{Role, Text};

/// Points from which a definition is reported, and from which no honest reading is left.
const SUSPICIOUS_POINTS: u32 = 100;
const POISONED_POINTS: u32 = 160;
/// Points of a request for secrets that make "put it in this field" part of it.
const HARVEST_POINTS: u32 = 55;

/// What a passage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoisonKind {
    /// Tells the model to drop or outrank its instructions.
    Override,
    /// Tells the model to keep something from the person.
    Secrecy,
    /// Asks for files, keys or the conversation.
    Harvest,
    /// Says where the gathered text is to be put.
    Smuggle,
    /// Names an address that copies are to go to.
    Redirect,
    /// Wants to be called before or after everything else.
    Order,
    /// Gives orders about other tools.
    OtherTools,
    /// Takes the person's consent for granted.
    Consent,
    /// Threatens, or gives a pretext.
    Pressure,
    /// Marks itself as the system or as a message to the model.
    Authority,
    /// Text that a person does not see where the model does: comments, styles, padding.
    OutOfSight,
    /// Text behind an encoding.
    Encoded,
    /// Invisible, direction or control characters.
    HiddenCharacters,
    /// A name in letters that look like others.
    LookAlikeName,
}

impl PoisonKind {
    /// The finding as half a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Override => "tells the model to drop or outrank its instructions",
            Self::Secrecy => "tells the model to keep something from the person",
            Self::Harvest => "asks for files, keys or the conversation",
            Self::Smuggle => "says where gathered text is to be put",
            Self::Redirect => "names an address that things are to go to",
            Self::Order => "wants to be called before or after everything else",
            Self::OtherTools => "gives orders about other tools",
            Self::Consent => "takes the person's consent for granted",
            Self::Pressure => "threatens, or gives a pretext",
            Self::Authority => "speaks as the system, or to the model",
            Self::OutOfSight => "stands where a person does not see it",
            Self::Encoded => "is hidden behind an encoding",
            Self::HiddenCharacters => "holds characters that do not show",
            Self::LookAlikeName => "is a name in letters that look like others",
        }
    }
}

/// How sure we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspicion {
    #[default]
    None,
    /// A person should read it before an agent does.
    Suspicious,
    /// Nothing honest reads like this.
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

/// One passage, with its place: a JSON pointer into the definition and the bytes of the decoded text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoisonFinding {
    pub kind: PoisonKind,
    pub place: String,
    /// Byte range in the decoded text at `place`; for a key, in the key.
    pub start: usize,
    pub end: usize,
    /// The passage, ready to print.
    pub quote: String,
    /// What is wrong with it, in one sentence.
    pub words: String,
    pub points: u32,
}

/// What came of reading one definition.
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

/// Reads one tool, resource or prompt object. `siblings` are the names of all tools of its server: a
/// server may talk about its own tools.
pub fn inspect(definition: Value<'_>, siblings: &[&str]) -> Poison {
    inspect_among(definition, siblings, &[])
}

/// The same, with the names of tools that other servers beside it have: steering one of those is
/// reported even when the name alone would not show that a tool is meant.
pub fn inspect_among(definition: Value<'_>, siblings: &[&str], others: &[&str]) -> Poison {
    let mut findings = hidden_characters(definition);
    let texts = texts::texts(definition);
    for text in &texts {
        findings.extend(read(text));
    }
    findings.extend(foreign::orders(definition, &texts, siblings, others));
    verdict(findings)
}

/// Reads a bare text, such as a server's instructions.
pub fn inspect_text(place: &str, text: &str) -> Poison {
    let text = Text { pointer: place.to_owned(), role: Role::Prose, said: text.to_owned() };
    verdict(read(&text))
}

fn read(text: &Text) -> Vec<PoisonFinding> {
    let mut found = matcher::findings(text);
    found.extend(secrets::findings(text));
    found.extend(foreign::addresses(text));
    found.extend(marks::findings(text));
    found.extend(disguise::findings(text));
    found
}

/// The best of each kind, and half of a second, different passage of a kind that honest authors write
/// at most once.
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
    let apart = a.place != b.place || a.end <= b.start || b.end <= a.start;
    apart && a.quote != b.quote
}

/// Judges the passages of one definition together.
fn verdict(mut findings: Vec<PoisonFinding>) -> Poison {
    let harvests =
        findings.iter().any(|f| f.kind == PoisonKind::Harvest && f.points >= HARVEST_POINTS);
    // "Pass the id as parameter" is ordinary; "pass the contents" after "read the key file" is not.
    findings.retain(|f| f.kind != PoisonKind::Smuggle || harvests);
    findings.sort_by(|a, b| b.points.cmp(&a.points).then_with(|| a.place.cmp(&b.place)));
    let points = points(&findings);
    let suspicion = match points {
        POISONED_POINTS.. => Suspicion::Poisoned,
        SUSPICIOUS_POINTS.. => Suspicion::Suspicious,
        _ => return Poison { points, ..Poison::default() },
    };
    findings.dedup_by(|a, b| (a.kind, &a.place, a.start) == (b.kind, &b.place, b.start));
    Poison { suspicion, points, findings }
}

/// Characters no honest definition was seen to hold, and names in borrowed letters.
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
        let words = oddity.words;
        out.push(PoisonFinding {
            kind,
            place: oddity.place,
            start: 0,
            end: 0,
            quote: words.clone(),
            words,
            points,
        });
    }
    out
}
