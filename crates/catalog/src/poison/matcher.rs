//! Matches the phrases of the cue table. A pattern has alternatives (`a|b`), prefixes (`instruct*`) and
//! gaps (`..3`: up to three words between), and never crosses a sentence.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::cue_table::{CUES, Cue, OTHER_LANGUAGES};
use super::texts::{Role, Text};
use super::tokens::{Token, tokens};
use super::{PoisonFinding, PoisonKind};
use crate::pins::visible;

/// Longer passages are truncated.
const QUOTE_CHARS_MAX: usize = 160;

#[derive(Debug)]
struct PatternStep {
    /// Words allowed between the previous step and this one.
    gap_max: usize,
    exact: Vec<&'static str>,
    starts: Vec<&'static str>,
}

#[derive(Debug)]
struct CuePattern {
    cue: &'static Cue,
    steps: Vec<PatternStep>,
}

/// Patterns by each possible first word.
static PATTERNS_BY_WORD: LazyLock<HashMap<&'static str, Vec<CuePattern>>> = LazyLock::new(|| {
    let mut index: HashMap<&'static str, Vec<CuePattern>> = HashMap::new();
    for cue in CUES {
        for text in cue.patterns {
            let Some(first) = steps(text).into_iter().next() else { continue };
            for word in first.exact {
                index.entry(word).or_default().push(CuePattern { cue, steps: steps(text) });
            }
        }
    }
    index
});

fn steps(text: &'static str) -> Vec<PatternStep> {
    let mut out = Vec::new();
    let mut gap_max = 0;
    for part in text.split_whitespace() {
        if let Some(gap) = part.strip_prefix("..") {
            gap_max = gap.parse().unwrap_or(0);
            continue;
        }
        let (starts, exact): (Vec<_>, Vec<_>) = part.split('|').partition(|w| w.ends_with('*'));
        let starts = starts.into_iter().map(|w| w.trim_end_matches('*')).collect();
        out.push(PatternStep { gap_max, exact, starts });
        gap_max = 0;
    }
    out
}

impl PatternStep {
    fn matches(&self, word: &str) -> bool {
        self.exact.contains(&word) || self.starts.iter().any(|start| word.starts_with(start))
    }
}

pub(super) fn findings(text: &Text) -> Vec<PoisonFinding> {
    let mut out = in_words(text, &tokens(&text.content));
    out.extend(in_other_languages(text));
    out
}

/// The sum of the highest points of each kind, for decoded text.
pub(super) fn points(text: &str) -> u32 {
    let text = Text { pointer: String::new(), role: Role::Prose, content: text.to_owned() };
    let mut best: HashMap<PoisonKind, u32> = HashMap::new();
    for finding in findings(&text).into_iter().chain(super::secrets::findings(&text)) {
        let points = best.entry(finding.kind).or_default();
        *points = finding.points.max(*points);
    }
    best.values().sum()
}

fn in_words(text: &Text, words: &[Token]) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        for pattern in PATTERNS_BY_WORD.get(word.text.as_str()).into_iter().flatten() {
            let Some(last) = end_of_match(pattern, words, at) else { continue };
            let span = words.get(at..=last).unwrap_or_default();
            let before = words.get(..at).unwrap_or_default();
            let next = words.get(last + 1).filter(|w| w.sentence == word.sentence);
            if pattern.cue.is_excepted(before, span, next) {
                continue;
            }
            // `admin_update` and `list_all_messages` are ordinary names.
            if text.role == Role::Name && !is_odd_in_a_name(pattern.cue.kind, &text.content) {
                continue;
            }
            let end = words.get(last).map_or(word.end, |w| w.end);
            out.push(finding(text, pattern.cue.kind, word.start, end, pattern.cue.points));
        }
    }
    out
}

/// Whether a cue counts in a name: no honest name says this, and a sentence is not a name.
fn is_odd_in_a_name(kind: PoisonKind, name: &str) -> bool {
    matches!(kind, PoisonKind::Override | PoisonKind::Secrecy) || is_sentence(name)
}

pub(super) fn is_sentence(name: &str) -> bool {
    name.split_whitespace().count() > 3
}

/// The index of the last word of the match that begins at `at`.
fn end_of_match(pattern: &CuePattern, words: &[Token], at: usize) -> Option<usize> {
    let sentence = words.get(at)?.sentence;
    match_rest(pattern.steps.get(1..)?, words, at, sentence)
}

fn match_rest(steps: &[PatternStep], words: &[Token], at: usize, sentence: usize) -> Option<usize> {
    let Some((step, rest)) = steps.split_first() else { return Some(at) };
    let from = at + 1;
    for next in from..=from + step.gap_max {
        let word = words.get(next).filter(|w| w.sentence == sentence)?;
        if !step.matches(&word.text) {
            continue;
        }
        if let Some(end) = match_rest(rest, words, next, sentence) {
            return Some(end);
        }
    }
    None
}

/// Common demands in other languages, matched as substrings.
fn in_other_languages(text: &Text) -> Vec<PoisonFinding> {
    if text.content.len() < 6 {
        return Vec::new();
    }
    let lower = text.content.to_lowercase();
    let mut out = Vec::new();
    for (kind, phrases) in OTHER_LANGUAGES {
        for phrase in *phrases {
            // Lower-casing may shift bytes in rare scripts; the offset is then approximate.
            if let Some(start) = lower.find(phrase) {
                out.push(finding(text, *kind, start, start + phrase.len(), 100));
            }
        }
    }
    out
}

/// A finding in a text. Instructions in a name or a value count double.
pub(super) fn finding(
    text: &Text,
    kind: PoisonKind,
    start: usize,
    end: usize,
    points: u32,
) -> PoisonFinding {
    let points = match text.role {
        Role::Prose => points,
        Role::Name | Role::Value => points * 2,
    };
    PoisonFinding {
        kind,
        location: text.pointer.clone(),
        start,
        end,
        quote: quote(&text.content, start, end),
        message: kind.describe().to_owned(),
        points,
    }
}

fn quote(text: &str, start: usize, end: usize) -> String {
    let passage = visible(text.get(start..end).unwrap_or(text));
    if passage.chars().count() <= QUOTE_CHARS_MAX {
        return passage;
    }
    let kept: String = passage.chars().take(QUOTE_CHARS_MAX).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::{CUES, steps};

    #[test]
    fn every_pattern_begins_with_whole_words() {
        for cue in CUES {
            for pattern in cue.patterns {
                let first = steps(pattern).into_iter().next();
                assert!(
                    first.is_some_and(|s| s.starts.is_empty()
                        && s.gap_max == 0
                        && !s.exact.is_empty()),
                    "{pattern}"
                );
            }
        }
    }
}
