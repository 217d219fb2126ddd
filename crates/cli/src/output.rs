//! Data goes to stdout, talk goes to stderr. Everything a stranger may have written passes through
//! [`visible`] on its way to a terminal.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anyhow::Result;
use serde::Serialize;

mod paint;
mod progress;
mod table;

pub(crate) use catalog::pins::visible;
pub(crate) use paint::{ColorWhen, Paint};
pub(crate) use progress::Progress;
pub(crate) use table::{Table, pad, width};

use crate::failure::ReaderGone;

/// Where a command writes. Made once in `main`.
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    json: bool,
    paint: Paint,
    talk_paint: Paint,
}

impl Out {
    pub(crate) fn new(json: bool, color: ColorWhen) -> Out {
        Out {
            stdout: BufWriter::new(io::stdout()),
            json,
            paint: Paint::new(color, io::stdout().is_terminal()),
            talk_paint: Paint::new(color, io::stderr().is_terminal()),
        }
    }

    /// Did the caller ask for JSON?
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    pub(crate) fn talk_paint(&self) -> Paint {
        self.talk_paint
    }

    /// One line of data.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<()> {
        written(writeln!(self.stdout, "{line}"))
    }

    /// Data that brings its own line ends, byte for byte.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        written(self.stdout.write_all(bytes))
    }

    /// A fact as indented JSON.
    pub(crate) fn json(&mut self, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(fact)?;
        self.line(text)
    }

    /// A row as one line of JSON, for streams.
    pub(crate) fn json_line(&mut self, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(fact)?;
        self.line(text)
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        let text = table.render(self.paint);
        self.raw(text.as_bytes())
    }

    /// A line of talk. Losing it is no reason to fail.
    #[expect(clippy::unused_self, reason = "talk and data are asked of the same thing")]
    pub(crate) fn say(&self, line: impl Display) {
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// A line of talk that stands out.
    pub(crate) fn warn(&self, line: impl Display) {
        self.say(format_args!("{} {line}", self.talk_paint.careful("warning:")));
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        written(self.stdout.flush())
    }

    /// For code that streams into a writer of its own.
    pub(crate) fn writer(&mut self) -> &mut impl Write {
        &mut self.stdout
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(e) => Err(anyhow::Error::new(e).context("cannot write to standard output")),
    }
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Several lines of somebody else's text, each made visible, none able to start a new line itself.
pub(crate) fn visible_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(visible)
}
