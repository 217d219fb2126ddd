//! Writes CSV (RFC 4180): CRLF, quotes where needed, a header even without rows.

use std::borrow::Cow;
use std::io::{self, Write};

use super::members::{Columns, SplitRecord};
use super::python;
use crate::records::View;

/// Whether to protect against formula injection in spreadsheets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsvSafety {
    /// Values are written unchanged.
    #[default]
    AsIs,
    /// Every line of text that a spreadsheet would evaluate as a formula gets a leading apostrophe.
    /// Numbers stay numbers.
    Neutral,
}

pub(super) struct CsvWriter<W> {
    out: W,
    columns: Columns,
    safety: CsvSafety,
    line: String,
}

impl<W: Write> CsvWriter<W> {
    pub(super) fn begin(out: W, view: &View, safety: CsvSafety) -> io::Result<CsvWriter<W>> {
        let mut names: Vec<&'static str> = view.columns.iter().map(|column| column.name).collect();
        names.sort_unstable();
        let header = names.join(",");
        let columns = Columns::new(names);
        let mut writer = CsvWriter { out, columns, safety, line: String::new() };
        writer.out.write_all(header.as_bytes())?;
        writer.out.write_all(b"\r\n")?;
        Ok(writer)
    }

    pub(super) fn row(&mut self, fields: &SplitRecord<'_>) -> io::Result<()> {
        let CsvWriter { out, columns, safety, line } = self;
        line.clear();
        let is_single = columns.names().len() == 1;
        for (at, value) in columns.pick(fields).enumerate() {
            if at > 0 {
                line.push(',');
            }
            cell(value.unwrap_or("null"), *safety, line);
        }
        // An empty line would be read as no row at all.
        if is_single && line.is_empty() {
            line.push_str("\"\"");
        }
        line.push_str("\r\n");
        out.write_all(line.as_bytes())
    }

    pub(super) fn end(self) -> W {
        self.out
    }
}

fn cell(json: &str, safety: CsvSafety, line: &mut String) {
    match json.as_bytes().first() {
        None | Some(b'n') => {}
        Some(b't') => line.push_str("True"),
        Some(b'f') => line.push_str("False"),
        Some(b'-' | b'0'..=b'9') => line.push_str(&python::number(json)),
        Some(b'"') => text(&unquoted(json), safety, line),
        Some(_) => {
            let mut dumped = String::new();
            python::dump(json, &mut dumped);
            text(&dumped, safety, line);
        }
    }
}

fn unquoted(json: &str) -> Cow<'_, str> {
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    if inner.contains('\\') {
        Cow::Owned(serde_json::from_str(json).unwrap_or_default())
    } else {
        Cow::Borrowed(inner)
    }
}

/// A text cell, quoted where necessary.
fn text(text: &str, safety: CsvSafety, line: &mut String) {
    let text = match safety {
        CsvSafety::AsIs => Cow::Borrowed(text),
        CsvSafety::Neutral => neutral(text),
    };
    if !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        return line.push_str(&text);
    }
    line.push('"');
    for (at, part) in text.split('"').enumerate() {
        if at > 0 {
            line.push_str("\"\"");
        }
        line.push_str(part);
    }
    line.push('"');
}

/// Each physical line that a spreadsheet might evaluate gets a leading apostrophe: a reader that
/// handles quotes wrongly starts a new cell at each of them.
pub(crate) fn neutral(text: &str) -> Cow<'_, str> {
    if !text.split(is_line_end).any(is_risky) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 4);
    for line in text.split_inclusive(is_line_end) {
        if is_risky(line) {
            safe.push('\'');
        }
        safe.push_str(line);
    }
    Cow::Owned(safe)
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Spreadsheets skip all kinds of spaces and accept full-width forms of the signs. A reader with
/// other rules may drop a leading separator or quote.
fn is_risky(line: &str) -> bool {
    const BEGIN_FORMULA: &[char] = &[
        '=', '+', '-', '@', '|', '%', '\t', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
        '\u{2212}',
    ];
    let is_skipped = |c: char| {
        c != '\t' && (c.is_whitespace() || c.is_control())
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
            || matches!(c, '"' | '\'' | ',' | ';')
    };
    line.trim_start_matches(is_skipped).starts_with(BEGIN_FORMULA)
}

#[cfg(test)]
mod tests {
    use super::{CsvSafety, cell, neutral};

    fn written(json: &str, safety: CsvSafety) -> String {
        let mut line = String::new();
        cell(json, safety, &mut line);
        line
    }

    #[test]
    fn cells_are_quoted_only_where_they_must_be() {
        let cases = [
            ("null", ""),
            ("true", "True"),
            ("false", "False"),
            ("-1.5", "-1.5"),
            ("1e-5", "1e-05"),
            (r#""plain text""#, "plain text"),
            (r#""a,b""#, "\"a,b\""),
            (r#""say \"hi\"""#, "\"say \"\"hi\"\"\""),
            (r#""two\nlines""#, "\"two\nlines\""),
            (r#""carriage\rreturn""#, "\"carriage\rreturn\""),
            (r#""é😀""#, "é😀"),
            (r#"{"b":1.0,"a":null}"#, "\"{\"\"a\"\": null, \"\"b\"\": 1.0}\""),
        ];
        for (json, csv) in cases {
            assert_eq!(written(json, CsvSafety::AsIs), csv, "{json}");
        }
    }

    #[test]
    fn formulas_are_neutral_on_every_line_and_numbers_stay_numbers() {
        let cases = [
            ("=1+1", "'=1+1"),
            ("+05:30", "'+05:30"),
            ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("  =1", "'  =1"),
            ("\u{a0}=1", "'\u{a0}=1"),
            ("\u{feff}=1", "'\u{feff}=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("fine\n=1", "fine\n'=1"),
            ("fine\r\n =1\rfine\r@x", "fine\r\n' =1\rfine\r'@x"),
            ("\"=1", "'\"=1"),
            ("a=1", "a=1"),
            ("", ""),
        ];
        for (text, safe) in cases {
            assert_eq!(neutral(text), safe, "{text:?}");
        }
        assert_eq!(written("-5", CsvSafety::Neutral), "-5");
        assert_eq!(written("-5.25", CsvSafety::Neutral), "-5.25");
        assert_eq!(written(r#""-5""#, CsvSafety::Neutral), "'-5");
    }
}
