//! Plain tables: a header and aligned cells, no lines. On a terminal long cells are wrapped so that a row
//! fits; elsewhere every row is one line. Cells are made visible here, so no caller can forget it.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use super::{Paint, visible};

const GAP: &str = "  ";
/// A column is never made narrower than this.
const COLUMNS_MIN: usize = 8;
/// A cell has no more lines than this; the last one ends in `…`.
const CELL_LINES_MAX: usize = 6;
/// The column with colours.
const RISK: &str = "risk";

#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    /// Which column holds risks.
    risk_at: Option<usize>,
    rows: Vec<Vec<String>>,
    /// Whether rows that do not fit are shown as a list of names and values.
    may_be_listed: bool,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Table {
        Table {
            header: header.iter().map(|name| name.to_uppercase()).collect(),
            risk_at: header.iter().position(|name| *name == RISK),
            rows: Vec::new(),
            may_be_listed: false,
        }
    }

    /// A table with untrusted column names, unchanged. It may have any number of columns.
    pub(crate) fn untrusted(header: &[String]) -> Table {
        let header = header.iter().map(|name| visible(name)).collect();
        Table { header, risk_at: None, rows: Vec::new(), may_be_listed: true }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.untrusted_row(cells);
    }

    pub(crate) fn untrusted_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell)).collect());
    }

    /// The table as text, no wider than `columns` if possible.
    pub(crate) fn render(&self, paint: Paint, columns: Option<usize>) -> String {
        let mut widths = self.widths();
        if let Some(columns) = columns {
            if self.may_be_listed && !fits(&self.least_widths(&widths), columns) {
                return self.listed(columns);
            }
            let least = self.least_widths(&widths);
            shrink(&mut widths, &least, columns);
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

    /// One line for each cell, and a blank line between rows.
    fn listed(&self, columns: usize) -> String {
        let name_columns = self.header.iter().map(|name| width(name)).max().unwrap_or(0);
        let name_columns = name_columns.min(columns / 2);
        let widths = [name_columns, columns.saturating_sub(name_columns + GAP.len()).max(1)];
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            for (name, cell) in self.header.iter().zip(row) {
                for line in lines(&[name.clone(), cell.clone()], &widths) {
                    let _ = writeln!(out, "{}", joined(&line));
                }
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

    /// The first column names the row, so it is shrunk last.
    fn least_widths(&self, widths: &[usize]) -> Vec<usize> {
        let least = |(at, (name, whole)): (usize, (&String, &usize))| {
            let least = width(name).max(COLUMNS_MIN).min(*whole);
            if at == 0 { *whole } else { least }
        };
        self.header.iter().zip(widths).enumerate().map(least).collect()
    }
}

fn fits(widths: &[usize], columns: usize) -> bool {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1) <= columns
}

/// Narrows the widest columns until the row fits, at most to the least widths.
fn shrink(widths: &mut [usize], least: &[usize], columns: usize) {
    while !fits(widths, columns) {
        let wide = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = wide.max_by_key(|(width, _)| **width) else { return };
        *widest -= 1;
    }
}

/// A row as lines.
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

/// A cell in lines of this width, broken after a space or punctuation if possible.
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

/// The byte offset where a line of at most this many columns ends.
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
    // A break in the first half would waste too much of the line.
    good.filter(|good| *good * 2 >= end).unwrap_or(end).max(first)
}

fn joined(cells: &[String]) -> String {
    cells.join(GAP).trim_end().to_owned()
}

pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// `text` padded with spaces to `to` columns.
pub(crate) fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_control_characters_are_visible() {
        let mut table = Table::new(&["name", "says"]);
        table.row(["日本".into(), "hello\r\u{1b}[31m".into()]);
        table.row(["longer name".into(), String::new()]);
        let expected = "NAME         SAYS\n日本         hello\\r⟨U+001B⟩[31m\nlonger name\n";
        assert_eq!(table.render(Paint::PLAIN, None), expected);
    }

    #[test]
    fn a_table_fits_the_terminal_and_is_not_wrapped_elsewhere() {
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
    fn a_row_of_many_columns_becomes_a_list() {
        let header: Vec<String> = (0..30).map(|n| format!("column_number_{n}")).collect();
        let mut table = Table::untrusted(&header);
        table.untrusted_row((0..30).map(|n| format!("value {n} {}", "x".repeat(50))));
        table.untrusted_row((0..30).map(|n| format!("other {n}")));
        for columns in [40, 80, 200] {
            let text = table.render(Paint::PLAIN, Some(columns));
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
            assert!(text.contains("column_number_29  other 29\n"), "{text}");
            assert_eq!(text.lines().filter(|line| line.is_empty()).count(), 1);
        }
        assert_eq!(table.render(Paint::PLAIN, None).lines().count(), 3);
    }

    #[test]
    fn a_very_long_cell_is_cut() {
        let parts = wrapped(&"word ".repeat(100), 10);
        assert_eq!(parts.len(), CELL_LINES_MAX);
        assert!(parts.last().is_some_and(|last| last.ends_with('…') && width(last) <= 10));
    }

    #[test]
    fn risks_have_a_colour() {
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
