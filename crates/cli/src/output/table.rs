//! Plain columns: a header, aligned cells, nothing drawn. Cells are made visible here, so no caller
//! can forget it.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{Paint, visible};

const GAP: &str = "  ";

#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Table {
        Table { header: header.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell)).collect());
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let widths = self.widths();
        let mut out = String::new();
        let header: Vec<String> = self.header.iter().map(|name| name.to_uppercase()).collect();
        let _ = writeln!(out, "{}", paint.dim(aligned(&header, &widths)));
        for row in &self.rows {
            let _ = writeln!(out, "{}", aligned(row, &widths));
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(at)).map(|cell| width(cell));
            cells.max().unwrap_or(0)
        };
        self.header.iter().enumerate().map(|(at, name)| column(at).max(name.len())).collect()
    }
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| pad(cell, *width)).collect();
    padded.join(GAP).trim_end().to_owned()
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
        assert_eq!(table.render(Paint::PLAIN), expected);
    }
}
