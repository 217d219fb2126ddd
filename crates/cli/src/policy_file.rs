//! Reads a policy from a file or stdin, and shows its problems with their lines.

use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use policy::{Format, Problem};

use crate::output::Out;

mod frame;
mod unknown_tools;

pub(crate) use frame::Severity;
use frame::paragraph;
pub(crate) use unknown_tools::{UnknownTools, warn_about_unknown_tools};

/// A policy text and where it was read from.
pub(crate) struct PolicySource {
    /// The name on the command line.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) format: Format,
}

impl PolicySource {
    /// Reads a file, or stdin for `-`.
    pub(crate) fn read(path: &Path) -> Result<PolicySource> {
        /// A policy may have 1 MiB; reading more lets the loader report it.
        const BYTES_MAX: u64 = 2 << 20;
        let name = if path == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
        let read = if path == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().take(BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
        } else {
            store::files::read(path, BYTES_MAX)
        };
        let bytes = read.with_context(|| format!("cannot read policy `{name}`"))?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))?;
        let format = if path == "-" { of_text(&text) } else { Format::of_path(&name) };
        Ok(PolicySource { name, text, format })
    }
}

/// Reports the position of the first invalid byte.
fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> anyhow::Error {
    let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
    let before = String::from_utf8_lossy(before);
    let (line, column) = before
        .rsplit_once('\n')
        .map_or((1, &*before), |(lines, rest)| (lines.matches('\n').count() + 2, rest));
    let column = column.chars().count() + 1;
    anyhow!("policy `{name}` is not UTF-8: line {line}, column {column}\nhint: save it as UTF-8")
}

/// Text from stdin has no file extension for its format.
fn of_text(text: &str) -> Format {
    if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml }
}

/// Shows problems on stderr with their lines; with `--json` they are in the JSON instead.
pub(crate) fn show_problems(
    severity: Severity,
    problems: &[Problem],
    source: &PolicySource,
    out: &Out,
) {
    if out.wants_json() {
        return;
    }
    for problem in problems {
        let text = paragraph(severity, problem, &source.name, &source.text, out.stderr_paint());
        out.say(text);
    }
}

/// The error for a policy that does not load. Its problems are shown with their lines, or with `--json` as
/// the causes of the error.
pub(crate) fn unusable(
    problems: &[Problem],
    source: &PolicySource,
    message: String,
    out: &Out,
) -> anyhow::Error {
    show_problems(Severity::Error, problems, source, out);
    if !out.wants_json() {
        return anyhow!(message);
    }
    let texts = problems.iter().rev().map(|problem| {
        let hint = problem.hint.as_deref().map(|hint| format!("\nhint: {hint}"));
        format!(
            "line {}, column {}: {}{}",
            problem.line,
            problem.column,
            problem.message,
            hint.unwrap_or_default()
        )
    });
    let chain = texts.fold(None, |inner: Option<anyhow::Error>, message| {
        Some(match inner {
            None => anyhow!(message),
            Some(inner) => inner.context(message),
        })
    });
    match chain {
        None => anyhow!(message),
        Some(chain) => chain.context(message),
    }
}
