//! The visual policy builder: reads a policy text into one row per name, turns form fields into small edits of
//! the text, and says in words what a draft changes. The text stays the only source; forms are a view of it.

mod arguments;
mod draft;
mod fields;
mod outline;
mod rules;
mod summary;

pub(crate) use arguments::{ArgumentPath, OperatorChoice, argument_paths, operator_choices};
pub(crate) use draft::{Draft, DraftProblem, format_of};
pub(crate) use fields::{Fields, apply_fields};
pub(crate) use outline::{Outline, Row, SECTIONS, State};
pub(crate) use rules::EntryRules;
pub(crate) use summary::{Replayed, Summary, replay, summary};
