//! Explains a classification: the features that decided it, quoted from the tool, and the hints they
//! contradict. Features that did not decide are left out.

use serde::Serialize;

use super::decide::{DecidedBy, Decision, weights_of};
use super::features::{Feature, Location};
use super::tool::ParsedTool;
use super::{Category, Signal, SignalKind};
use crate::pins::visible;

mod meaning;

/// At most this much evidence per tool.
const EVIDENCE_MAX: usize = 4;
/// Weaker features are left out. In thousandths.
const PULL_MIN: i32 = 200;
/// Longer quotes are truncated.
const QUOTE_CHARS_MAX: usize = 80;

/// One piece of evidence: its location, the quoted words, and their meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    #[serde(rename = "place")]
    pub location: String,
    #[serde(rename = "words")]
    pub text: String,
    pub meaning: String,
}

/// A hint of the author and what contradicts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    pub claim: String,
    pub finding: String,
}

pub(super) fn evidence(
    tool: &ParsedTool,
    features: &[Feature],
    decision: &Decision,
) -> Vec<Evidence> {
    let mut out: Vec<Evidence> = rule(tool, features, &decision.decided_by).into_iter().collect();
    if matches!(decision.decided_by, DecidedBy::NothingKnown | DecidedBy::Hint) {
        return out;
    }
    for feature in strongest(features, decision) {
        let evidence = evidence_of(feature);
        let is_same = |e: &Evidence| e.location == evidence.location && e.text == evidence.text;
        if out.len() < EVIDENCE_MAX && !out.iter().any(is_same) {
            out.push(evidence);
        }
    }
    if out.is_empty() {
        out.push(Evidence {
            location: "name".to_owned(),
            text: quote(&tool.name),
            meaning: "many weak features and no strong one".to_owned(),
        });
    }
    out
}

/// Features by how much they favour the category over its rival. Parameters that merely correlate come
/// last, because they explain little.
fn strongest<'f>(features: &'f [Feature], decision: &Decision) -> Vec<&'f Feature> {
    let pull = |f: &Feature| {
        let weights = weights_of(&f.id).copied().unwrap_or_default();
        weight(&weights, decision.category) - weight(&weights, decision.rival)
    };
    let mut ranked: Vec<(i32, &Feature)> = features.iter().map(|f| (pull(f), f)).collect();
    ranked.retain(|(pull, _)| *pull >= PULL_MIN);
    let is_weak = |f: &Feature| f.id.starts_with("param=") || f.id.starts_with("param.word=");
    ranked.sort_by_key(|(pull, f)| (is_weak(f), -*pull));
    ranked.into_iter().map(|(_, f)| f).collect()
}

fn weight(weights: &[i16; 5], category: Category) -> i32 {
    let at = Category::ALL.iter().position(|c| *c == category).unwrap_or_default();
    weights.get(at).copied().map_or(0, i32::from)
}

fn evidence_of(feature: &Feature) -> Evidence {
    Evidence {
        location: location(&feature.location),
        text: quote(&feature.text),
        meaning: meaning::of(&feature.id),
    }
}

fn location(location: &Location) -> String {
    match location {
        Location::Name => "name".to_owned(),
        Location::Title => "title".to_owned(),
        Location::Description => "description".to_owned(),
        Location::Parameter(path) => format!("parameter `{}`", visible(path)),
    }
}

pub(super) fn quote(text: &str) -> String {
    let shown = visible(text);
    if shown.chars().count() <= QUOTE_CHARS_MAX {
        return shown;
    }
    let cut: String = shown.chars().take(QUOTE_CHARS_MAX).collect();
    format!("{cut}…")
}

/// The evidence of the fixed rule that decided, if one did.
fn rule(tool: &ParsedTool, features: &[Feature], because: &DecidedBy) -> Option<Evidence> {
    match because {
        DecidedBy::Weights => None,
        DecidedBy::RuledOut(id) | DecidedBy::WorstOperation(id) => {
            features.iter().find(|f| f.id == *id).map(evidence_of)
        }
        DecidedBy::NothingKnown => Some(Evidence {
            location: "name".to_owned(),
            text: quote(&tool.name),
            meaning: "nothing says what it does, so it counts as a write".to_owned(),
        }),
        DecidedBy::NotSurelyRead => Some(Evidence {
            location: "name".to_owned(),
            text: quote(&tool.name),
            meaning: "looks like a read, but not clearly enough".to_owned(),
        }),
        DecidedBy::Hint => Some(Evidence {
            location: "annotation".to_owned(),
            text: hint_text(tool).to_owned(),
            meaning: "the author says that it changes something".to_owned(),
        }),
    }
}

fn hint_text(tool: &ParsedTool) -> &'static str {
    if tool.hints.destructive == Some(true) {
        "destructiveHint: true"
    } else {
        "readOnlyHint: false"
    }
}

/// Lead over Read from which `readOnlyHint: true` counts as contradicted. In thousandths.
const CONTRADICTION_LEAD: i32 = 1_000;

/// Annotations that the rest of the definition contradicts. Doubt is not enough: the tool must say
/// plainly what it does, or take code to run.
pub(super) fn contradictions(
    tool: &ParsedTool,
    features: &[Feature],
    decision: &Decision,
    signals: &[Signal],
) -> Vec<Contradiction> {
    let category = decision.category;
    let mut out = Vec::new();
    let mut add = |claim: &str, finding: String| {
        out.push(Contradiction { claim: claim.to_owned(), finding });
    };
    if tool.hints.read_only == Some(true) && plainly_changes(features, category) {
        add("readOnlyHint: true", format!("the definition reads as {category}"));
    }
    let deletes = category == Category::Destructive && says_any(features, DELETES);
    if tool.hints.destructive == Some(false) && deletes {
        add("destructiveHint: false", format!("the definition reads as {category}"));
    }
    if tool.hints.read_only == Some(true) && tool.hints.destructive == Some(true) {
        add("readOnlyHint: true", "destructiveHint: true says the opposite".to_owned());
    }
    let outside = signals.iter().find(|s| matches!(s.kind, SignalKind::Url));
    if let Some(signal) = outside.filter(|_| tool.hints.open_world == Some(false)) {
        add("openWorldHint: false", format!("it takes a URL in {}", signal.location));
    }
    out
}

const DELETES: &[&str] = &["name.act=destroy", "choice=destroy"];
/// Verbs that save on the caller's side what was read: a recording, an export.
const SAVES: &[&str] =
    &["name.verb=save", "name.verb=export", "name.verb=record", "name.verb=download"];

fn plainly_changes(features: &[Feature], category: Category) -> bool {
    let says = |ids: &[&str]| says_any(features, ids);
    let score = |category: Category| score(features, category);
    let leads = score(category) - score(Category::Read) >= CONTRADICTION_LEAD;
    let by_word = match category {
        Category::Read => return false,
        Category::Write => {
            says(&["choice=write"]) || says(&["acts=write+write"]) && leads && !says(SAVES)
        }
        Category::Destructive => says(DELETES),
        Category::Execute => {
            let own = &["shape=command", "shape=code", "shape=sql", "shape=http", "cue=arbitrary"];
            says(own) && leads && !says(&["cue=read_only", "cue=sql_read", "cue=dry_run"])
        }
        Category::Financial => leads,
    };
    by_word || says(&["issues.credential"])
}

fn says_any(features: &[Feature], ids: &[&str]) -> bool {
    features.iter().any(|f| ids.contains(&f.id.as_str()))
}

fn score(features: &[Feature], category: Category) -> i32 {
    features.iter().filter_map(|f| weights_of(&f.id)).map(|w| weight(w, category)).sum()
}
