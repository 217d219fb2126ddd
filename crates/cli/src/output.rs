//! Data goes to stdout, talk goes to stderr. Everything a stranger may have written passes through
//! [`visible`] on its way to a terminal.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{Display, Write as _};
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

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

use crate::failure::ReaderGone;

/// Where a command writes. Made once in `main`.
pub(crate) struct Out {
    stdout: RefCell<BufWriter<Stdout>>,
    json: bool,
    paint: Paint,
    talk_paint: Paint,
    is_terminal: bool,
}

impl Out {
    pub(crate) fn new(json: bool, color: ColorWhen) -> Out {
        Out {
            stdout: RefCell::new(BufWriter::new(io::stdout())),
            json,
            paint: Paint::new(color, io::stdout().is_terminal()),
            talk_paint: Paint::new(color, io::stderr().is_terminal()),
            is_terminal: io::stdout().is_terminal(),
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
        written(writeln!(self.stdout.get_mut(), "{line}"))
    }

    /// Data that brings its own line ends, byte for byte.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        written(self.stdout.get_mut().write_all(bytes))
    }

    /// A fact as indented JSON.
    pub(crate) fn json(&mut self, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(fact)?;
        self.line(terminal_safe(&text))
    }

    /// One fact of a list that is too long to be held: printed as `json` prints the whole list.
    pub(crate) fn json_item(&mut self, nth: usize, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(fact)?.replace('\n', "\n  ");
        let before = if nth == 0 { "[\n  " } else { ",\n  " };
        self.raw(before.as_bytes())?;
        self.raw(terminal_safe(&text).as_bytes())
    }

    /// Closes a list of so many.
    pub(crate) fn json_end(&mut self, count: usize) -> Result<()> {
        self.line(if count == 0 { "[]" } else { "\n]" })
    }

    /// A row as one line of JSON, for streams.
    pub(crate) fn json_line(&mut self, fact: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(fact)?;
        self.line(terminal_safe(&text))
    }

    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        let text = table.render(self.paint, self.columns());
        self.raw(text.as_bytes())
    }

    /// How wide the terminal is; nothing where there is none, or where it does not say.
    fn columns(&self) -> Option<usize> {
        let size = self.is_terminal.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok())??;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Data with a stranger's texts in it: byte for byte into a file or a pipe, and without anything that
    /// a terminal may act on onto a terminal.
    pub(crate) fn foreign(
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

    /// A line of talk, after the data that came before it. Losing it is no reason to fail.
    pub(crate) fn say(&self, line: impl Display) {
        let _ = self.stdout.borrow_mut().flush();
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// A line of talk that stands out.
    pub(crate) fn warn(&self, line: impl Display) {
        self.say(format_args!("{} {line}", self.talk_paint.careful("warning:")));
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

/// JSON in which what a terminal may act on is spelled as an escape. It stands in strings only, so
/// the meaning stays. The writer of the JSON has taken care of the first 32 characters already.
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

/// Several lines of somebody else's text, each made visible, none able to start a new line itself.
pub(crate) fn visible_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(visible)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn json_on_a_terminal_keeps_its_meaning_and_loses_its_controls() {
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
