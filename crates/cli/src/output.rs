//! Data goes to stdout, messages go to stderr. Untrusted text passes through [`visible`] before it reaches a
//! terminal.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{Display, Write as _};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

mod cut;
mod neutral;
mod paint;
mod progress;
mod table;

pub(crate) use catalog::pins::visible;
pub(crate) use cut::{cut_end, cut_middle};
pub(crate) use neutral::Neutral;
pub(crate) use paint::{ColorWhen, Paint};
pub(crate) use progress::Progress;
pub(crate) use table::{Table, pad, width};

/// The reader of stdout closed the pipe. Not an error.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of the output is gone")
    }
}

impl std::error::Error for ReaderGone {}

/// Where a command writes. Made once in `main`.
pub(crate) struct Out {
    stdout: RefCell<BufWriter<Stdout>>,
    json: bool,
    paint: Paint,
    stderr_paint: Paint,
    is_terminal: bool,
    /// The home given with `--home`: commands in messages name it, too.
    home: Option<PathBuf>,
}

impl Out {
    pub(crate) fn new(json: bool, color: ColorWhen) -> Out {
        Out {
            stdout: RefCell::new(BufWriter::new(io::stdout())),
            json,
            paint: Paint::new(color, io::stdout().is_terminal()),
            stderr_paint: Paint::new(color, io::stderr().is_terminal()),
            is_terminal: io::stdout().is_terminal(),
            home: None,
        }
    }

    /// The same; commands in messages name this home.
    pub(crate) fn naming_home(self, home: Option<&Path>) -> Out {
        Out { home: home.map(Path::to_owned), ..self }
    }

    /// Whether `--json` was given.
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    pub(crate) fn stderr_paint(&self) -> Paint {
        self.stderr_paint
    }

    /// One line of data.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<()> {
        written(writeln!(self.stdout.get_mut(), "{line}"))
    }

    /// Raw data, including its line ends.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        written(self.stdout.get_mut().write_all(bytes))
    }

    /// A value as indented JSON.
    pub(crate) fn json(&mut self, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(fact)?;
        self.line(terminal_safe(&text))
    }

    /// One item of a list that is too long for memory; the output is that of `json` for the whole list.
    pub(crate) fn json_item(&mut self, nth: usize, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(fact)?.replace('\n', "\n  ");
        let before = if nth == 0 { "[\n  " } else { ",\n  " };
        self.raw(before.as_bytes())?;
        self.raw(terminal_safe(&text).as_bytes())
    }

    /// Closes a list of `count` items.
    pub(crate) fn json_end(&mut self, count: usize) -> Result<()> {
        self.line(if count == 0 { "[]" } else { "\n]" })
    }

    /// A value as one line of JSON, for streams.
    pub(crate) fn json_line(&mut self, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(fact)?;
        self.line(terminal_safe(&text))
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        let text = table.render(self.paint, self.columns());
        self.raw(text.as_bytes())
    }

    /// The width of the terminal; none without a terminal, or if it is unknown.
    fn columns(&self) -> Option<usize> {
        if self.is_terminal { platform::terminal::columns() } else { None }
    }

    /// Untrusted data: unchanged to a file or a pipe, with control characters escaped to a terminal.
    pub(crate) fn untrusted(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let is_terminal = self.is_terminal;
        let stdout = self.stdout.get_mut();
        let done = if is_terminal {
            let mut neutral = Neutral::new(stdout);
            write(&mut neutral).and_then(|()| Ok(neutral.flush()?))
        } else {
            write(stdout)
        };
        let is_gone = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
        done.map_err(|e| if e.downcast_ref().is_some_and(is_gone) { ReaderGone.into() } else { e })
    }

    /// The text with `--home` in each command.
    pub(crate) fn with_home(&self, text: &str) -> String {
        match &self.home {
            Some(home) => crate::hints::naming_home(text, home),
            None => text.to_owned(),
        }
    }

    /// A message on stderr, after the data printed before it. A failed write is ignored.
    pub(crate) fn say(&self, line: impl Display) {
        let _ = self.stdout.borrow_mut().flush();
        let _ = writeln!(io::stderr(), "{}", self.with_home(&line.to_string()));
    }

    /// A warning on stderr.
    pub(crate) fn warn(&self, line: impl Display) {
        self.say(format_args!("{} {line}", self.stderr_paint.careful("warning:")));
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        written(self.stdout.get_mut().flush())
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(e) => Err(anyhow::Error::new(e).context("cannot write to standard output")),
    }
}

/// JSON with control characters escaped. They occur in strings only, so the value stays the same. The JSON
/// writer has escaped the first 32 characters already.
fn terminal_safe(json: &str) -> Cow<'_, str> {
    let is_risky = |c: char| !c.is_ascii() && visible(c.encode_utf8(&mut [0; 4])).starts_with('⟨');
    if json.chars().all(|c| c != '\u{7f}' && !is_risky(c)) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\u{7f}' || is_risky(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// The lines of untrusted text, each made visible.
pub(crate) fn visible_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(visible)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn json_on_a_terminal_keeps_its_value_without_control_characters() {
        let value =
            serde_json::json!({ "a\u{9b}2J": "\u{202e}\u{7f}\u{1b}", "日本": "\u{e0041}⟨" });
        let text = serde_json::to_string(&value).unwrap();
        let safe = terminal_safe(&text);
        assert!(
            safe.chars().all(|c| !c.is_control() && !"\u{202e}\u{e0041}".contains(c)),
            "{safe}"
        );
        assert!(safe.contains("日本"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
