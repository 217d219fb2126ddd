//! Problems of a settings file: what is wrong, where, and what to write instead. Values are never
//! repeated, because one may be a misplaced secret.

use std::fmt;
use std::ops::Range;

/// Problems beyond this many are counted, not listed.
pub const PROBLEMS_MAX: usize = 50;

/// One problem. Line and column count from 1, the column in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

/// Why a settings file was rejected. Never empty; in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub unlisted: usize,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if i > 0 { "\n" } else { "" })?;
        }
        if self.unlisted > 0 {
            write!(f, "\nand {} more", self.unlisted)?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// Collects problems while reading continues, so that one run shows many.
pub(super) struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
    unlisted: usize,
}

impl<'t> Problems<'t> {
    pub(super) fn new(text: &'t str) -> Problems<'t> {
        Problems { text, found: Vec::new(), unlisted: 0 }
    }

    pub(super) fn add(&mut self, at: &Range<usize>, message: impl Into<String>) {
        self.push(at, message.into(), None);
    }

    pub(super) fn hint(
        &mut self,
        at: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(at, message.into(), Some(hint.into()));
    }

    /// An error of another module, whose message may contain a hint.
    pub(super) fn error(&mut self, at: &Range<usize>, error: &dyn fmt::Display) {
        let text = error.to_string();
        match text.split_once("\nhint: ") {
            Some((message, hint)) => self.hint(at, message, hint),
            None => self.add(at, text),
        }
    }

    fn push(&mut self, at: &Range<usize>, message: String, hint: Option<String>) {
        if self.found.len() == PROBLEMS_MAX {
            self.unlisted += 1;
            return;
        }
        let (line, column) = line_column(self.text, at.start);
        self.found.push(Problem { line, column, message, hint });
    }

    pub(super) fn line_of(&self, at: &Range<usize>) -> usize {
        line_column(self.text, at.start).0
    }

    pub(super) fn into_result(mut self) -> Result<(), SettingsError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort();
        Err(SettingsError { problems: self.found, unlisted: self.unlisted })
    }
}

fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
