//! Tells why: the features that moved the decision, with the tool's own words, and the claims they
//! speak against. Nothing is said that did not decide.

use serde::Serialize;

use super::decide::{Because, Decision, weights_of};
use super::features::{Feature, Place};
use super::tool::Tool;
use super::{Category, Signal, SignalKind};
use crate::pins::visible;

mod meaning;

/// Reasons given at most.
const REASONS_MAX: usize = 4;
/// Thousandths below which a feature is not worth telling.
const WORTH_TELLING: i32 = 200;
/// Quotes are cut at this length.
const QUOTE_CHARS_MAX: usize = 80;

/// One reason: where, the tool's own words, and what they mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub place: String,
    pub words: String,
    pub meaning: String,
}

/// A claim of the author and the finding against it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    pub claim: String,
    pub finding: String,
}

pub(super) fn evidence(tool: &Tool, features: &[Feature], decision: &Decision) -> Vec<Evidence> {
    let mut out: Vec<Evidence> = rule(tool, features, &decision.because).into_iter().collect();
    if matches!(decision.because, Because::NothingKnown | Because::Hint) {
        return out;
    }
    for feature in strongest(features, decision) {
        let reason = tell(feature);
        let told = |e: &Evidence| e.place == reason.place && e.words == reason.words;
        if out.len() < REASONS_MAX && !out.iter().any(told) {
            out.push(reason);
        }
    }
    if out.is_empty() {
        out.push(Evidence {
            place: "name".to_owned(),
            words: quote(&tool.name),
            meaning: "many small signs and no strong one".to_owned(),
        });
    }
    out
}

/// Features by how much they favour the answer over its rival; parameters that merely go with such
/// tools come last, because they tell a person little.
fn strongest<'f>(features: &'f [Feature], decision: &Decision) -> Vec<&'f Feature> {
    let pull = |f: &Feature| {
        let weights = weights_of(&f.id).copied().unwrap_or_default();
        weight(&weights, decision.category) - weight(&weights, decision.rival)
    };
    let mut ranked: Vec<(i32, &Feature)> = features.iter().map(|f| (pull(f), f)).collect();
    ranked.retain(|(pull, _)| *pull >= WORTH_TELLING);
    let dull = |f: &Feature| f.id.starts_with("param=") || f.id.starts_with("param.word=");
    ranked.sort_by_key(|(pull, f)| (dull(f), -*pull));
    ranked.into_iter().map(|(_, f)| f).collect()
}

fn weight(weights: &[i16; 5], category: Category) -> i32 {
    let at = Category::ALL.iter().position(|c| *c == category).unwrap_or_default();
    weights.get(at).copied().map_or(0, i32::from)
}

fn tell(feature: &Feature) -> Evidence {
    Evidence {
        place: place(&feature.place),
        words: quote(&feature.words),
        meaning: meaning::of(&feature.id),
    }
}

fn place(place: &Place) -> String {
    match place {
        Place::Name => "name".to_owned(),
        Place::Title => "title".to_owned(),
        Place::Description => "description".to_owned(),
        Place::Parameter(path) => format!("parameter `{}`", visible(path)),
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

/// The fixed rule that took part in the decision, if one did.
fn rule(tool: &Tool, features: &[Feature], because: &Because) -> Option<Evidence> {
    match because {
        Because::Weights => None,
        Because::RuledOut(id) | Because::WorstOperation(id) => {
            features.iter().find(|f| f.id == *id).map(tell)
        }
        Because::NothingKnown => Some(Evidence {
            place: "name".to_owned(),
            words: quote(&tool.name),
            meaning: "nothing says what it does, so it counts as a change".to_owned(),
        }),
        Because::NotSurelyRead => Some(Evidence {
            place: "name".to_owned(),
            words: quote(&tool.name),
            meaning: "looks like reading, but not surely enough".to_owned(),
        }),
        Because::Hint => Some(Evidence {
            place: "annotation".to_owned(),
            words: hint_words(tool).to_owned(),
            meaning: "the author says that it changes something".to_owned(),
        }),
    }
}

fn hint_words(tool: &Tool) -> &'static str {
    if tool.hints.destructive == Some(true) {
        "destructiveHint: true"
    } else {
        "readOnlyHint: false"
    }
}

/// Points by which a class must lead Read before a claim of reading is called wrong.
const CONTRADICTION_LEAD: i32 = 1_000;

/// Annotations, held against what the definition says otherwise. Doubt is no contradiction: the tool
/// must plainly say what it does, or take code to run.
pub(super) fn contradictions(
    tool: &Tool,
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
        add("openWorldHint: false", format!("it takes a URL in {}", signal.place));
    }
    out
}

const DELETES: &[&str] = &["name.act=destroy", "choice=destroy"];
/// Verbs that write down what was read, on the caller's side: a recording, an export.
const KEEPS: &[&str] =
    &["name.verb=save", "name.verb=export", "name.verb=record", "name.verb=download"];

fn plainly_changes(features: &[Feature], category: Category) -> bool {
    let says = |ids: &[&str]| says_any(features, ids);
    let score = |category: Category| score(features, category);
    let leads = score(category) - score(Category::Read) >= CONTRADICTION_LEAD;
    let by_word = match category {
        Category::Read => return false,
        Category::Write => {
            says(&["choice=write"]) || says(&["acts=write+write"]) && leads && !says(KEEPS)
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
