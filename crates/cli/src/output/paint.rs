//! Colour for terminals. The text has the full meaning without it.

use std::fmt::Display;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    #[cfg(test)]
    pub(crate) const PLAIN: Paint = Paint { on: false };

    pub(crate) fn new(when: ColorWhen, is_terminal: bool) -> Paint {
        let on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => is_terminal && !refused_by_environment(),
        };
        Paint { on }
    }

    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.wrap("1;31", text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn careful(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// A risk in its colour.
    pub(crate) fn risk(self, risk: &str) -> String {
        match risk.trim_end() {
            "critical" => self.bad(risk),
            "high" => self.wrap("31", risk),
            "medium" => self.careful(risk),
            "low" => self.good(risk),
            _ => risk.to_owned(),
        }
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

/// <https://no-color.org>: any value but the empty one turns colour off.
fn refused_by_environment() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}
