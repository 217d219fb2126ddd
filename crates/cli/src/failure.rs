//! The results of a command (yes, no, could not), and the text and JSON of errors.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use store::registry::{ObjectKind, RegistryError};

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Yes,
    No,
}

impl Ending {
    pub(crate) fn of(yes: bool) -> Ending {
        if yes { Ending::Yes } else { Ending::No }
    }

    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Ending::Yes => 0,
            Ending::No => 1,
        })
    }
}

/// The exit code of a command that could not do what was asked.
pub(crate) const COULD_NOT: u8 = 2;

/// An error split into what failed, why, and what to do. Crates write `\nhint: …` into their messages; the
/// hints are collected here so that they always come last.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorReport {
    error: String,
    caused_by: Vec<String>,
    hints: Vec<String>,
}

impl ErrorReport {
    pub(crate) fn of(error: &anyhow::Error) -> ErrorReport {
        let mut messages: Vec<String> = Vec::new();
        let mut hints = Vec::new();
        for cause in error.chain() {
            hints.extend(cause.downcast_ref().and_then(list_hint));
            let message = take_hints(&cause.to_string(), &mut hints);
            // Many errors repeat the text of their source.
            let is_repeated = messages.last().is_some_and(|last| last.ends_with(&message));
            if !is_repeated && !message.is_empty() {
                messages.push(message);
            }
        }
        let mut messages = messages.into_iter();
        let error = messages.next().unwrap_or_else(|| "something went wrong".to_owned());
        ErrorReport { error, caused_by: messages.collect(), hints }
    }

    /// What failed, without the causes.
    pub(crate) fn headline(&self) -> &str {
        &self.error
    }

    /// Adds `--home` to the commands in the hints.
    pub(crate) fn at_home(self, home: Option<&std::path::Path>) -> ErrorReport {
        let hints = self.hints.iter().map(|hint| crate::hints::at_home(hint, home)).collect();
        ErrorReport { hints, ..self }
    }

    pub(crate) fn text(&self, paint: crate::output::Paint) -> String {
        let mut out = format!("{} {}\n", paint.bad("error:"), shown(&self.error));
        for cause in &self.caused_by {
            let _ = writeln!(out, "{} {}", paint.dim("caused by:"), shown(cause));
        }
        for hint in &self.hints {
            let _ = writeln!(out, "{} {}", paint.good("hint:"), shown(hint));
        }
        out
    }
}

/// The lines of a message, each safe to print: a name inside it may come from an agent or a server.
fn shown(message: &str) -> String {
    message.lines().map(crate::output::visible).collect::<Vec<_>>().join("\n  ")
}

/// For an unknown name: the command that lists the known ones.
fn list_hint(error: &RegistryError) -> Option<String> {
    let RegistryError::Missing { kind, .. } = error else { return None };
    match kind {
        ObjectKind::Server | ObjectKind::Policy | ObjectKind::Grant => {
            Some(format!("`tollgate {} list` shows the known ones", kind.as_str()))
        }
        _ => None,
    }
}

fn take_hints(message: &str, hints: &mut Vec<String>) -> String {
    let mut kept = Vec::new();
    for line in message.lines() {
        match line.trim_start().strip_prefix("hint: ") {
            Some(hint) if !hints.iter().any(|known| known == hint) => hints.push(hint.to_owned()),
            Some(_) => {}
            None => kept.push(line),
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_last_and_repeated_causes_are_shown_once() {
        let low = std::io::Error::other("disk is gone");
        let error = anyhow::Error::new(low)
            .context("cannot open `gate.db`: disk is gone\nhint: mount it")
            .context("cannot list servers\nhint: run `tollgate doctor`");
        let report = ErrorReport::of(&error);
        assert_eq!(report.error, "cannot list servers");
        assert_eq!(report.caused_by, ["cannot open `gate.db`: disk is gone"]);
        assert_eq!(report.hints, ["run `tollgate doctor`", "mount it"]);
    }

    #[test]
    fn control_characters_in_an_error_are_escaped() {
        let error = anyhow::anyhow!("no tool `\u{1b}[2Jx`");
        let text = ErrorReport::of(&error).text(crate::output::Paint::PLAIN);
        assert_eq!(text, "error: no tool `⟨U+001B⟩[2Jx`\n");
    }
}
