//! `[policies.NAME]`: a separate file, or the text itself.

use policy::{Format, Policy};

use super::problem::Problems;
use super::reference::ExternalValues;
use super::section::{Field, NamedField, Section};
use crate::registry::names::check_name;
use crate::registry::{ObjectKind, PolicyText};

pub(super) fn read(
    entry: &NamedField<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<PolicyText> {
    if let Err(e) = check_name(ObjectKind::Policy, entry.name) {
        problems.error(&entry.name_span, &e);
    }
    let section = entry.field.section(&["file", "source", "format"], problems)?;
    let (text, format, position, at) = read_text(&section, outside, problems)?;
    match Policy::load(&text, format) {
        Ok(_) => Some(PolicyText::from_file(entry.name, format, text)),
        Err(e) => {
            for problem in &e.problems {
                let message = format!(
                    "policy `{}` does not load: {position}line {}, column {}: {}",
                    entry.name, problem.line, problem.column, problem.message
                );
                match &problem.hint {
                    Some(hint) => problems.hint(&at.span, message, hint),
                    None => problems.add(&at.span, message),
                }
            }
            None
        }
    }
}

/// The text, its format, its location (for errors) and the field that names it.
fn read_text<'a>(
    section: &Section<'a>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<(String, Format, String, Field<'a>)> {
    let formats = [("json", Format::Json), ("yaml", Format::Yaml)];
    let format = section.choice("format", &formats, problems);
    let file = section.text("file", problems);
    let source = section.text("source", problems);
    match (file, source) {
        (Some((path, field)), None) => {
            let text = outside.file(path, &field, problems)?;
            let format = format.unwrap_or_else(|| Format::of_path(path));
            Some((text.to_string(), format, format!("`{path}` "), field))
        }
        (None, Some((text, field))) => {
            let format = format.unwrap_or(Format::Json);
            Some((text.to_owned(), format, "its ".to_owned(), field))
        }
        _ => {
            let message = format!("`{}` must have one of `file` and `source`", section.path);
            problems.add(&section.span, message);
            None
        }
    }
}
