//! Features of the description: its first verb, the words around it, and a bag of words from its opening.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::{Features, Location, action_text};
use crate::classify::lexicon::{Action, verb};
use crate::classify::senses::{topics_at, verb_at};
use crate::classify::text::Word;
use crate::classify::tool::ParsedTool;

/// Sentences in the bag of words. Authors say first what a tool does.
const BAG_SENTENCES: usize = 2;
/// Sentences searched for the first verb.
const VERB_SENTENCES: usize = 3;
/// "Takes a screenshot": without a plain verb, a noun-like one counts this early in a sentence.
const NOUN_VERB_WORDS: usize = 6;

/// Words that precede the verb in "This tool will create …" and "Use this to create …".
const FILLERS: &str = "this tool will the a an to use allow you let can it for action function \
    beta purpose that which your in and or operation api when user want helper mcp endpoint simple \
    method utility enable perform warning important new one be by of take do should is are used \
    useful call if from on with";

static FILLER_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| FILLERS.split_whitespace().collect());

/// "Start here if …" starts nothing.
fn starts_here(sentence: &[Word], at: usize) -> bool {
    sentence.get(at + 1).is_some_and(|w| w.lower == "here")
}

fn is_filler(w: &Word) -> bool {
    FILLER_SET.contains(w.base.as_str()) || w.raw.chars().all(|c| c.is_ascii_digit())
}

/// Stop words: they carry no meaning and make poor evidence.
const STOP_WORDS: &str = "the and for with from this that are was not its has have into any all your you \
    than then also only each per via such may must when where which who how what but out about \
    these those their there been being more most other some both either";

static STOP_WORD_SET: LazyLock<HashSet<&str>> =
    LazyLock::new(|| STOP_WORDS.split_whitespace().collect());

fn is_stop_word(w: &Word) -> bool {
    w.base.chars().count() < 3 || STOP_WORD_SET.contains(w.lower.as_str())
}

/// The first verb of the description, with its sentence.
fn first_verb(tool: &ParsedTool) -> Option<(&[Word], usize)> {
    for sentence in tool.sentences.iter().take(VERB_SENTENCES) {
        let first = sentence.iter().position(|w| !is_filler(w));
        let found = sentence.iter().enumerate().position(|(at, w)| {
            let Some(v) = verb(&w.base) else { return false };
            !is_filler(w)
                && !is_participle(w)
                && !starts_here(sentence, at)
                && (!v.weak || Some(at) == first)
        });
        let opening = sentence.get(..NOUN_VERB_WORDS).unwrap_or(sentence);
        let noun_like = || opening.iter().position(|w| verb(&w.base).is_some() && !is_filler(w));
        if let Some(at) = found.or_else(noun_like) {
            return Some((sentence, at));
        }
    }
    None
}

/// `deleted messages` are messages, not a deletion.
pub(in crate::classify) fn is_participle(w: &Word) -> bool {
    w.lower != w.base && w.lower.ends_with("ed")
}

pub(super) fn description(tool: &ParsedTool, out: &mut Features) -> Option<Action> {
    let found = first_verb(tool);
    let chosen = found.and_then(|(sentence, at)| sentence.get(at));
    let act = found.and_then(|(sentence, at)| verb_at(sentence, at)).map(|v| v.act);
    if let Some(w) = chosen.filter(|w| verb(&w.base).map(|v| v.act) == act) {
        out.add(format!("says.verb={}", w.base), Location::Description, &w.raw);
    }
    let shown = chosen.map_or("", |w| w.raw.as_str());
    out.add(format!("says.act={}", action_text(act)), Location::Description, shown);
    if let Some((sentence, at)) = found {
        around_verb(sentence, at, act, out);
    }
    for sentence in tool.sentences.iter().take(BAG_SENTENCES) {
        for w in sentence.iter().filter(|w| !is_stop_word(w)) {
            out.add(format!("says.word={}", w.base), Location::Description, &w.raw);
        }
    }
    act
}

/// Further verbs, and topics in the sentence of the first verb.
fn around_verb(sentence: &[Word], at: usize, act: Option<Action>, out: &mut Features) {
    let shown = sentence.get(at).map_or("", |w| w.raw.as_str());
    for (position, w) in sentence.iter().enumerate() {
        if position == at || is_participle(w) {
            continue;
        }
        if let Some(v) = verb(&w.base).filter(|v| !v.weak && !negated(sentence, position)) {
            out.add(format!("says.also={}", v.act.as_str()), Location::Description, &w.raw);
        }
        for thing in topics_at(sentence, position) {
            let words = format!("{shown} … {}", w.raw);
            let pair = format!("says.pair={}+{}", action_text(act), thing.as_str());
            out.add(pair, Location::Description, &words);
            if let Some(verb) = sentence.get(at) {
                let object = format!("says.object={}+{}", verb.base, thing.as_str());
                out.add(object, Location::Description, &words);
            }
        }
    }
}

/// A "not", "never" or "without" up to three words before.
pub(in crate::classify) fn negated(sentence: &[Word], at: usize) -> bool {
    let from = at.saturating_sub(3);
    let near = sentence.get(from..at).unwrap_or(&[]);
    near.iter()
        .any(|w| matches!(w.lower.as_str(), "not" | "never" | "without" | "cannot" | "no" | "t"))
}
