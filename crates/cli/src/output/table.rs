//! Plain columns: a header, aligned cells, nothing drawn. On a terminal long cells are wrapped so that a
//! row fits; elsewhere every row is one whole line. Cells are made visible here, so no caller can forget it.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use super::{Paint, visible};

const GAP: &str = "  ";
/// A column is never made narrower than this.
const COLUMNS_MIN: usize = 8;
/// A cell has no more lines than this; the last one ends in `…`.
const CELL_LINES_MAX: usize = 6;
/// The column whose words have a colour.
const RISK: &str = "risk";

#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    /// Which column holds risks.
    risk_at: Option<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Table {
        Table {
            header: header.iter().map(|name| name.to_uppercase()).collect(),
            risk_at: header.iter().position(|name| *name == RISK),
            rows: Vec::new(),
        }
    }

    /// A table with the column names of somebody else, as they are.
    pub(crate) fn foreign(header: &[String]) -> Table {
        let header = header.iter().map(|name| visible(name)).collect();
        Table { header, risk_at: None, rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.foreign_row(cells);
    }

    pub(crate) fn foreign_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell)).collect());
    }

    /// The table as text, no wider than so many columns if it can be.
    pub(crate) fn render(&self, paint: Paint, columns: Option<usize>) -> String {
        let mut widths = self.widths();
        if let Some(columns) = columns {
            shrink(&mut widths, &self.least_widths(), columns);
        }
        let mut out = String::new();
        for line in lines(&self.header, &widths) {
            let _ = writeln!(out, "{}", paint.dim(joined(&line)));
        }
        for row in &self.rows {
            for line in lines(row, &widths) {
                let _ = writeln!(out, "{}", self.painted(line, paint));
            }
        }
        out
    }

    fn painted(&self, mut cells: Vec<String>, paint: Paint) -> String {
        if let Some(risk) = self.risk_at.and_then(|at| cells.get_mut(at)) {
            let word = paint.risk(risk.trim_end());
            let blanks = " ".repeat(risk.len() - risk.trim_end().len());
            *risk = format!("{word}{blanks}");
        }
        joined(&cells)
    }

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(at)).map(|cell| width(cell));
            cells.max().unwrap_or(0)
        };
        self.header.iter().enumerate().map(|(at, name)| column(at).max(width(name))).collect()
    }

    /// The first column names the row, so it stays whole as long as there is room elsewhere.
    fn least_widths(&self) -> Vec<usize> {
        let least = |(at, name): (usize, &String)| {
            let whole = if at == 0 { self.widths().first().copied().unwrap_or(0) } else { 0 };
            whole.max(width(name)).max(COLUMNS_MIN)
        };
        self.header.iter().enumerate().map(least).collect()
    }
}

/// Takes columns from the widest until the row fits. A terminal that is too narrow for all gets the
/// least widths.
fn shrink(widths: &mut [usize], least: &[usize], columns: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        let wide = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = wide.max_by_key(|(width, _)| **width) else { return };
        *widest -= 1;
    }
}

/// A row as the lines it takes.
fn lines(cells: &[String], widths: &[usize]) -> Vec<Vec<String>> {
    let wrapped: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
    let count = wrapped.iter().map(Vec::len).max().unwrap_or(1);
    let line = |at: usize| {
        let parts = wrapped.iter().zip(widths);
        parts.map(|(parts, width)| pad(parts.get(at).map_or("", |part| part), *width)).collect()
    };
    (0..count).map(line).collect()
}

/// A cell in lines of so many columns, broken behind a blank or a sign where there is one.
fn wrapped(cell: &str, columns: usize) -> Vec<String> {
    let mut rest = cell;
    let mut parts = Vec::new();
    while width(rest) > columns {
        if parts.len() + 1 == CELL_LINES_MAX {
            parts.push(super::cut_end(rest, columns));
            return parts;
        }
        let (part, more) = rest.split_at(break_at(rest, columns));
        parts.push(part.trim_end().to_owned());
        rest = more.trim_start();
    }
    parts.push(rest.to_owned());
    parts
}

/// Where a line of at most so many columns ends, in bytes.
fn break_at(text: &str, columns: usize) -> usize {
    let mut used = 0;
    let (mut end, mut good) = (0, None);
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        end = at + c.len_utf8();
        if matches!(c, ' ' | ',' | '/' | ';' | '&') {
            good = Some(end);
        }
    }
    let first = text.chars().next().map_or(1, char::len_utf8);
    // A break in the first half would waste more than it helps.
    good.filter(|good| *good * 2 >= end).unwrap_or(end).max(first)
}

fn joined(cells: &[String]) -> String {
    cells.join(GAP).trim_end().to_owned()
}

pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// `text` with spaces behind it up to `to` columns.
pub(crate) fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_foreign_text_is_visible() {
        let mut table = Table::new(&["name", "says"]);
        table.row(["日本".into(), "hello\r\u{1b}[31m".into()]);
        table.row(["longer name".into(), String::new()]);
        let expected = "NAME         SAYS\n日本         hello\\r⟨U+001B⟩[31m\nlonger name\n";
        assert_eq!(table.render(Paint::PLAIN, None), expected);
    }

    #[test]
    fn a_table_fits_the_terminal_and_is_whole_elsewhere() {
        let mut table = Table::new(&["label", "servers", "risk"]);
        let many = "github, files, calendar, mail, notes, whoop";
        table.row(["claude-desktop".into(), many.into(), "high".into()]);
        table.row(["x".into(), "/srv/a-path-without-any-good-place-日本".into(), "low".into()]);
        let whole = table.render(Paint::PLAIN, None);
        assert_eq!(whole.lines().count(), 3, "{whole}");
        for columns in [40, 60, 80] {
            let fitted = table.render(Paint::PLAIN, Some(columns));
            assert!(fitted.lines().all(|line| width(line) <= columns), "{columns}: {fitted}");
            let words = fitted.split_whitespace().collect::<String>();
            for word in ["claude-desktop", "github,", "calendar,", "whoop"] {
                assert!(words.contains(word), "{columns}: {fitted}");
            }
        }
        // Too narrow for everything: the least widths, and no endless loop.
        assert!(!table.render(Paint::PLAIN, Some(1)).is_empty());
    }

    #[test]
    fn a_cell_without_end_is_cut() {
        let parts = wrapped(&"word ".repeat(100), 10);
        assert_eq!(parts.len(), CELL_LINES_MAX);
        assert!(parts.last().is_some_and(|last| last.ends_with('…') && width(last) <= 10));
    }

    #[test]
    fn risks_have_a_colour_where_there_is_one() {
        let mut table = Table::new(&["tool", "risk", "says"]);
        table.row(["pay".into(), "critical".into(), "x".into()]);
        table.row(["read".into(), "low".into(), "y".into()]);
        let colour = Paint::new(super::super::ColorWhen::Always, false);
        let text = table.render(colour, None);
        assert!(text.contains("\u{1b}[1;31mcritical\u{1b}[0m  x"), "{text:?}");
        assert!(text.contains("\u{1b}[32mlow\u{1b}[0m       y"), "{text:?}");
        assert!(!table.render(Paint::PLAIN, None).contains('\u{1b}'));
    }
}
