//! How a command ends: yes, no, or could not; and how an error is said to a person or a program.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use store::registry::{RegistryError, Thing};

/// The three endings of every command.
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

/// Whoever read our output has enough. Not an error.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// An error taken apart: what failed, why, and what to do. Rooms write `\nhint: …` into their
/// messages; the hints are gathered here so that they always come last.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Account {
    error: String,
    caused_by: Vec<String>,
    hints: Vec<String>,
}

impl Account {
    pub(crate) fn of(error: &anyhow::Error) -> Account {
        let mut messages: Vec<String> = Vec::new();
        let mut hints = Vec::new();
        for cause in error.chain() {
            hints.extend(cause.downcast_ref().and_then(where_to_look));
            let message = take_hints(&cause.to_string(), &mut hints);
            // Many errors repeat the text of their source; saying it twice helps nobody.
            let said = messages.last().is_some_and(|last| last.ends_with(&message));
            if !said && !message.is_empty() {
                messages.push(message);
            }
        }
        let mut messages = messages.into_iter();
        let error = messages.next().unwrap_or_else(|| "something went wrong".to_owned());
        Account { error, caused_by: messages.collect(), hints }
    }

    /// What went wrong, without why.
    pub(crate) fn headline(&self) -> &str {
        &self.error
    }

    /// The same for a home that only this command was told of: its hints name it, too.
    pub(crate) fn at_home(self, context: &crate::context::Context) -> Account {
        let hints = self.hints.iter().map(|hint| crate::doctor::at_home(hint, context)).collect();
        Account { hints, ..self }
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

/// A name that leads nowhere: the command that lists those that lead somewhere.
fn where_to_look(error: &RegistryError) -> Option<String> {
    let RegistryError::Missing { thing, .. } = error else { return None };
    match thing {
        Thing::Server | Thing::Policy | Thing::Grant => {
            Some(format!("`tollgate {} list` shows those there are", thing.as_str()))
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
    fn hints_come_last_and_repeated_causes_are_said_once() {
        let low = std::io::Error::other("disk is gone");
        let error = anyhow::Error::new(low)
            .context("cannot open `gate.db`: disk is gone\nhint: mount it")
            .context("cannot list servers\nhint: run `tollgate doctor`");
        let account = Account::of(&error);
        assert_eq!(account.error, "cannot list servers");
        assert_eq!(account.caused_by, ["cannot open `gate.db`: disk is gone"]);
        assert_eq!(account.hints, ["run `tollgate doctor`", "mount it"]);
    }

    #[test]
    fn a_hostile_name_in_an_error_cannot_steer_the_terminal() {
        let error = anyhow::anyhow!("no tool `\u{1b}[2Jx`");
        let text = Account::of(&error).text(crate::output::Paint::PLAIN);
        assert_eq!(text, "error: no tool `⟨U+001B⟩[2Jx`\n");
    }
}
