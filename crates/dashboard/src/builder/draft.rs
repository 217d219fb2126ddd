//! The text that is being edited, and why it cannot be saved yet.

use policy::edit::{self, Edit, EditError};
use policy::{Format, Policy};
use serde::Serialize;

/// JSON begins with a brace.
pub(crate) fn format_of(text: &str) -> Format {
    if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml }
}

#[derive(Clone, Default)]
pub(crate) struct Draft {
    pub(crate) text: String,
}

/// A problem at its place in the text.
#[derive(Serialize)]
pub(crate) struct DraftProblem {
    pub(crate) line: usize,
    pub(crate) column: usize,
    #[serde(rename = "words")]
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl From<&policy::Problem> for DraftProblem {
    fn from(problem: &policy::Problem) -> DraftProblem {
        DraftProblem {
            line: problem.line,
            column: problem.column,
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}

impl Draft {
    pub(crate) fn new(text: impl Into<String>) -> Draft {
        Draft { text: text.into() }
    }

    pub(crate) fn format(&self) -> Format {
        format_of(&self.text)
    }

    pub(crate) fn compile(&self) -> Result<Policy, Vec<DraftProblem>> {
        let compiled = Policy::compile(&self.text, self.format());
        compiled.map_err(|error| error.problems.iter().map(DraftProblem::from).collect())
    }

    /// The policy as JSON text, whatever it is written in.
    pub(crate) fn json(&self) -> Option<String> {
        edit::to_json(&self.text, self.format()).ok()
    }

    pub(crate) fn apply(&mut self, edits: &[Edit]) -> Result<(), EditError> {
        self.text = edit::edit(&self.text, self.format(), edits)?;
        Ok(())
    }
}
