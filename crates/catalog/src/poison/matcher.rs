//! Finds the phrases of the cue table in a text. A pattern is words with alternatives (`a|b`), open
//! ends (`instruct*`) and gaps (`..3`: up to three words between); it never crosses a sentence.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::cue_table::{CUES, Cue, ELSEWHERE};
use super::texts::{Role, Text};
use super::words::{Word, words};
use super::{PoisonFinding, PoisonKind};
use crate::pins::visible;

/// Passages are quoted with at most this much.
const QUOTE_CHARS_MAX: usize = 160;

#[derive(Debug)]
struct Step {
    /// Words that may stand between this step and the one before.
    gap_max: usize,
    exact: Vec<&'static str>,
    starts: Vec<&'static str>,
}

#[derive(Debug)]
struct Pattern {
    cue: &'static Cue,
    steps: Vec<Step>,
}

/// Patterns by each word they may begin with.
static PATTERNS: LazyLock<HashMap<&'static str, Vec<Pattern>>> = LazyLock::new(|| {
    let mut index: HashMap<&'static str, Vec<Pattern>> = HashMap::new();
    for cue in CUES {
        for text in cue.patterns {
            let Some(first) = steps(text).into_iter().next() else { continue };
            for word in first.exact {
                index.entry(word).or_default().push(Pattern { cue, steps: steps(text) });
            }
        }
    }
    index
});

fn steps(text: &'static str) -> Vec<Step> {
    let mut out = Vec::new();
    let mut gap_max = 0;
    for part in text.split_whitespace() {
        if let Some(gap) = part.strip_prefix("..") {
            gap_max = gap.parse().unwrap_or(0);
            continue;
        }
        let (starts, exact): (Vec<_>, Vec<_>) = part.split('|').partition(|w| w.ends_with('*'));
        let starts = starts.into_iter().map(|w| w.trim_end_matches('*')).collect();
        out.push(Step { gap_max, exact, starts });
        gap_max = 0;
    }
    out
}

impl Step {
    fn takes(&self, word: &str) -> bool {
        self.exact.contains(&word) || self.starts.iter().any(|start| word.starts_with(start))
    }
}

pub(super) fn findings(text: &Text) -> Vec<PoisonFinding> {
    let mut out = in_words(text, &words(&text.said));
    out.extend(in_other_languages(text));
    out
}

/// The points of the loudest cue of each kind added up, for texts that were decoded.
pub(super) fn points(text: &str) -> u32 {
    let text = Text { pointer: String::new(), role: Role::Prose, said: text.to_owned() };
    let mut best: HashMap<PoisonKind, u32> = HashMap::new();
    for finding in findings(&text).into_iter().chain(super::secrets::findings(&text)) {
        let points = best.entry(finding.kind).or_default();
        *points = finding.points.max(*points);
    }
    best.values().sum()
}

fn in_words(text: &Text, words: &[Word]) -> Vec<PoisonFinding> {
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        for pattern in PATTERNS.get(word.text.as_str()).into_iter().flatten() {
            let Some(last) = end_of_match(pattern, words, at) else { continue };
            let span = words.get(at..=last).unwrap_or_default();
            let before = words.get(..at).unwrap_or_default();
            let next = words.get(last + 1).filter(|w| w.sentence == word.sentence);
            if pattern.cue.spared_by(before, span, next) {
                continue;
            }
            // A name may well be `admin_update` or `list_all_messages`.
            if text.role == Role::Name && !is_odd_in_a_name(pattern.cue.kind, &text.said) {
                continue;
            }
            let end = words.get(last).map_or(word.end, |w| w.end);
            out.push(finding(text, pattern.cue.kind, word.start, end, pattern.cue.points));
        }
    }
    out
}

/// What no tool or parameter is called in good faith; a sentence is no name at all.
fn is_odd_in_a_name(kind: PoisonKind, name: &str) -> bool {
    matches!(kind, PoisonKind::Override | PoisonKind::Secrecy) || is_sentence(name)
}

pub(super) fn is_sentence(name: &str) -> bool {
    name.split_whitespace().count() > 3
}

/// The index of the last word of the match that begins at `at`, taking the nearest word each time.
fn end_of_match(pattern: &Pattern, words: &[Word], at: usize) -> Option<usize> {
    let sentence = words.get(at)?.sentence;
    reach(pattern.steps.get(1..)?, words, at, sentence)
}

fn reach(steps: &[Step], words: &[Word], at: usize, sentence: usize) -> Option<usize> {
    let Some((step, rest)) = steps.split_first() else { return Some(at) };
    let from = at + 1;
    for next in from..=from + step.gap_max {
        let word = words.get(next).filter(|w| w.sentence == sentence)?;
        if !step.takes(&word.text) {
            continue;
        }
        if let Some(end) = reach(rest, words, next, sentence) {
            return Some(end);
        }
    }
    None
}

/// A few plain demands in languages without spaces or with other words.
fn in_other_languages(text: &Text) -> Vec<PoisonFinding> {
    if text.said.len() < 6 {
        return Vec::new();
    }
    let lower = text.said.to_lowercase();
    let mut out = Vec::new();
    for (kind, phrases) in ELSEWHERE {
        for phrase in *phrases {
            // Lower case may move bytes in rare scripts; the place is then a little off, not wrong.
            if let Some(start) = lower.find(phrase) {
                out.push(finding(text, *kind, start, start + phrase.len(), 100));
            }
        }
    }
    out
}

/// A finding in a text. Orders where a name or a value belongs count double.
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
        place: text.pointer.clone(),
        start,
        end,
        quote: quote(&text.said, start, end),
        words: kind.words().to_owned(),
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
