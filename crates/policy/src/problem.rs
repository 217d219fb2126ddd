//! What is wrong with a policy text, where, and what to write instead.

use std::fmt;

/// Problems beyond this many are counted, not listed.
const PROBLEMS_MAX: usize = 50;

/// A place in a policy text, both counted from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// One thing that is wrong, or that deserves a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    /// JSON pointer of the part of the policy, empty for the whole.
    pub pointer: String,
    pub words: String,
    pub hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(place: Place, pointer: impl Into<String>, complaint: Complaint) -> Problem {
        Problem {
            line: place.line,
            column: place.column,
            pointer: pointer.into(),
            words: complaint.words,
            hint: complaint.hint,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.words)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Why a policy was not loaded. Never empty; in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    pub problems: Vec<Problem>,
}

impl LoadError {
    /// The same without anything that stands in the text: places, and words of the policy language.
    pub(crate) fn without_content(mut self) -> LoadError {
        for problem in &mut self.problems {
            problem.words = without_quotes(&problem.words);
            problem.hint = problem.hint.take().filter(|hint| *hint == without_quotes(hint));
            problem.pointer.clear();
        }
        self.problems.dedup_by(|a, b| (a.line, &a.words) == (b.line, &b.words));
        LoadError { problems: self.problems }
    }
}

/// Words that may be repeated whatever the text is.
const SAFE_WORDS: [&str; 13] = [
    "version",
    "default",
    "$schema",
    "description",
    "hide",
    "all_tools",
    "tools",
    "resources",
    "prompts",
    "on_change",
    "server_requests",
    "tests",
    "1",
];

/// Leaves out what is quoted, unless it is a word of the language.
fn without_quotes(words: &str) -> String {
    let is_safe = |word: &str| SAFE_WORDS.contains(&word) || matches!(word, "deny" | "allow");
    let parts = words.split('`').enumerate().map(|(number, part)| match part {
        quoted if number % 2 == 1 && !is_safe(quoted) => "…",
        part => part,
    });
    parts.collect::<Vec<_>>().join("`")
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// Words without a place yet: what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) words: String,
    pub(crate) hint: Option<String>,
}

impl Complaint {
    pub(crate) fn new(words: impl Into<String>) -> Complaint {
        Complaint { words: words.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Complaint {
        Complaint { hint: Some(hint.into()), ..self }
    }
}

/// Collects problems while loading goes on, so that one run shows many.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, place: Place, pointer: &str, complaint: Complaint) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(Problem::new(place, pointer, complaint));
        } else {
            self.unlisted += 1;
        }
    }

    /// The problems in the order of the text; an error if there is one.
    pub(crate) fn into_result(mut self) -> Result<(), LoadError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        if let (Some(last), 1..) = (self.found.last_mut(), self.unlisted) {
            last.hint = Some(format!("and {} more problems", self.unlisted));
        }
        Err(LoadError { problems: self.found })
    }

    /// The same list when it only warns.
    pub(crate) fn into_warnings(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }
}

/// `did you mean …?` when one of the known words is near, otherwise the list of them.
pub(crate) fn suggest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().map(|candidate| (distance(word, candidate), candidate)).min();
    match near {
        Some((steps, candidate)) if steps <= 1 + candidate.len() / 4 => {
            format!("did you mean `{candidate}`?")
        }
        _ => format!("known: {}", list(known)),
    }
}

/// Names in backticks with commas.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// How many letters must change, be added, be dropped or trade places with a neighbour.
fn distance(from: &str, to: &str) -> usize {
    const LETTERS_MAX: usize = 64;
    let from: Vec<char> = from.to_lowercase().chars().take(LETTERS_MAX).collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, letter) in from.iter().enumerate() {
        let current = next_row(row, *letter, previous, &to, &above, &before);
        before = std::mem::replace(&mut above, current);
        previous = Some(*letter);
    }
    above.last().copied().unwrap_or(0)
}

fn next_row(
    row: usize,
    letter: char,
    previous: Option<char>,
    to: &[char],
    above: &[usize],
    before: &[usize],
) -> Vec<usize> {
    let at = |cells: &[usize], column: usize| cells.get(column).copied().unwrap_or(usize::MAX / 2);
    let mut current = vec![row + 1];
    for (column, &other) in to.iter().enumerate() {
        let kept = at(above, column) + usize::from(letter != other);
        let mut best = kept.min(at(above, column + 1) + 1).min(at(&current, column) + 1);
        let swapped = column > 0 && previous == Some(other) && to.get(column - 1) == Some(&letter);
        if swapped {
            best = best.min(at(before, column - 1) + 1);
        }
        current.push(best);
    }
    current
}

#[cfg(test)]
mod tests {
    use super::{distance, suggest};

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        let known = ["deny_if", "approve_if", "require", "limits", "rate_limit"];
        let cases = [
            ("deny_fi", "did you mean `deny_if`?"),
            ("denyif", "did you mean `deny_if`?"),
            ("Require", "did you mean `require`?"),
            ("limit", "did you mean `limits`?"),
            ("ratelimit", "did you mean `rate_limit`?"),
            ("x", "known: `deny_if`, `approve_if`, `require`, `limits`, `rate_limit`"),
        ];
        for (word, expected) in cases {
            assert_eq!(suggest(word, known.into_iter()), expected, "{word}");
        }
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance("abcd", "abdc"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
