//! Problems of a policy text: what is wrong, where, and what to write instead.

use std::fmt;

use crate::nearest::nearest;

/// Problems beyond this many are counted, not listed.
const PROBLEMS_MAX: usize = 50;

/// A position in a policy text. Line and column count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    /// JSON pointer of the part of the policy, empty for the whole.
    pub pointer: String,
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(
        position: Position,
        pointer: impl Into<String>,
        complaint: Complaint,
    ) -> Problem {
        Problem {
            line: position.line,
            column: position.column,
            pointer: pointer.into(),
            message: complaint.message,
            hint: complaint.hint,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
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
    /// The same without any content of the text: only positions and words of the policy language.
    pub(crate) fn without_content(mut self) -> LoadError {
        for problem in &mut self.problems {
            problem.message = without_quotes(&problem.message);
            problem.hint = problem.hint.take().filter(|hint| *hint == without_quotes(hint));
            problem.pointer.clear();
        }
        self.problems.dedup_by(|a, b| (a.line, &a.message) == (b.line, &b.message));
        LoadError { problems: self.problems }
    }
}

/// Words that may be quoted whatever the text is.
const SAFE_WORDS: [&str; 14] = [
    "version",
    "default",
    "$schema",
    "description",
    "hide",
    "all_tools",
    "tools",
    "resources",
    "prompts",
    "skills",
    "on_change",
    "server_requests",
    "tests",
    "1",
];

/// Removes quotations, unless they are words of the language.
fn without_quotes(message: &str) -> String {
    let is_safe = |word: &str| SAFE_WORDS.contains(&word) || matches!(word, "deny" | "allow");
    let parts = message.split('`').enumerate().map(|(number, part)| match part {
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

/// A message without a position: what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Complaint {
    pub(crate) fn new(message: impl Into<String>) -> Complaint {
        Complaint { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Complaint {
        Complaint { hint: Some(hint.into()), ..self }
    }
}

/// Collects problems while loading continues, so that one run shows many.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, position: Position, pointer: &str, complaint: Complaint) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(Problem::new(position, pointer, complaint));
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

    /// The same list as warnings.
    pub(crate) fn into_warnings(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }
}

/// `did you mean …?` when one of the known words is near, otherwise the list of them.
pub(crate) fn suggest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("known: {}", list(known)),
    }
}

/// Names in backticks with commas.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::suggest;

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
}
