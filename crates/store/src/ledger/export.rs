//! Exports history: joined entries as JSON lines or CSV, or the raw rows for verification.

use std::io::{self, Write};

use super::entry::Entry;
use super::error::LedgerError;
use super::filter::Filter;
use super::reader::Reader;
use crate::export::csv::neutral;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One joined entry per line.
    Jsonl,
    /// The same as a table (RFC 4180), safe to open in a spreadsheet.
    Csv,
    /// The lines of the journal unchanged, from first to last; the filter is ignored.
    Chain,
}

impl Reader {
    /// Writes to `out` and returns the number of lines, without the heading.
    pub fn export(
        &self,
        format: ExportFormat,
        filter: &Filter,
        out: &mut dyn Write,
    ) -> Result<u64, LedgerError> {
        match format {
            ExportFormat::Jsonl => self.export_entries(filter, out, |entry, out| {
                serde_json::to_writer(&mut *out, entry)?;
                out.write_all(b"\n")
            }),
            ExportFormat::Csv => {
                out.write_all(csv_heading().as_bytes()).map_err(cannot_write)?;
                self.export_entries(filter, out, |entry, out| {
                    out.write_all(csv_line(entry).as_bytes())
                })
            }
            ExportFormat::Chain => self.export_chain(out),
        }
    }

    fn export_entries(
        &self,
        filter: &Filter,
        out: &mut dyn Write,
        write: impl Fn(&Entry, &mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, LedgerError> {
        let mut count = 0;
        for entry in self.oldest_first(filter)? {
            write(&entry?, out).map_err(cannot_write)?;
            count += 1;
        }
        out.flush().map_err(cannot_write)?;
        Ok(count)
    }

    fn export_chain(&self, out: &mut dyn Write) -> Result<u64, LedgerError> {
        let mut count = 0;
        for number in self.source.segments()? {
            let Some(bytes) = self.segment(number)? else {
                // The rows before it were retired too; exporting them would leave a gap.
                if count == 0 {
                    continue;
                }
                return Err(LedgerError::Io {
                    act: "export",
                    path: self.source.segment_name(number),
                    source: io::Error::other("rows were retired during the export; try again"),
                });
            };
            for (_, line) in super::reader::lines(&bytes) {
                out.write_all(line).and_then(|()| out.write_all(b"\n")).map_err(cannot_write)?;
                count += 1;
            }
        }
        out.flush().map_err(cannot_write)?;
        Ok(count)
    }
}

fn cannot_write(source: io::Error) -> LedgerError {
    LedgerError::Io { act: "write", path: "the export".into(), source }
}

/// One column: its heading and value.
type CsvColumn = (&'static str, fn(&Entry) -> CsvCell);

enum CsvCell {
    Text(String),
    Number(Option<u64>),
}

const COLUMNS: &[CsvColumn] = &[
    ("seq", |e| CsvCell::Number(Some(e.seq))),
    ("time", |e| text(&e.time)),
    ("kind", |e| text(if e.act.is_empty() { "call" } else { "note" })),
    ("grant", |e| text(&e.grant)),
    ("session", |e| text(&e.session)),
    ("client", |e| text(&e.client)),
    ("client_version", |e| text(&e.client_version)),
    ("server", |e| text(&e.server)),
    ("method", |e| text(&e.method)),
    ("tool", |e| text(&e.tool)),
    ("uri", |e| text(&e.uri)),
    ("prompt", |e| text(&e.prompt)),
    ("skill", |e| text(&e.skill)),
    ("decision", |e| text(&e.decision)),
    ("code", |e| text(&e.code)),
    ("rule", |e| text(&e.rule)),
    ("reason", |e| text(&e.reason)),
    ("policy", |e| text(&e.policy)),
    ("policy_version", |e| CsvCell::Number(e.policy_version)),
    ("keys", |e| text(&e.keys.join(" "))),
    ("digest", |e| text(&e.digest)),
    ("approval", |e| text(&e.approval)),
    ("outcome", |e| text(&e.outcome)),
    ("status", |e| text(&e.status)),
    ("latency_us", |e| CsvCell::Number(e.latency_us)),
    ("result_bytes", |e| CsvCell::Number(e.result_bytes)),
    ("released", |e| text(if e.released { "yes" } else { "" })),
    ("ended", |e| text(&e.ended)),
    ("trace", |e| text(&e.trace)),
    ("remote", |e| text(&e.remote)),
    ("act", |e| text(&e.act)),
    ("by", |e| text(&e.by)),
    ("about", |e| text(&e.about)),
    ("words", |e| text(&e.words)),
    ("count", |e| CsvCell::Number(e.count)),
];

fn text(text: &str) -> CsvCell {
    CsvCell::Text(text.to_owned())
}

fn csv_heading() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    format!("{}\r\n", names.join(","))
}

fn csv_line(entry: &Entry) -> String {
    let cells: Vec<String> = COLUMNS
        .iter()
        .map(|(_, cell)| match cell(entry) {
            CsvCell::Text(text) => csv_text(&text),
            CsvCell::Number(number) => number.map(|n| n.to_string()).unwrap_or_default(),
        })
        .collect();
    format!("{}\r\n", cells.join(","))
}

/// Quoted as RFC 4180 requires, with formulas neutralised for spreadsheets.
fn csv_text(text: &str) -> String {
    if is_whole_number(text) {
        return text.to_owned();
    }
    let safe = neutral(text);
    if safe.contains([',', '"', '\r', '\n', '\'', ';', '\t']) || *safe != *safe.trim() {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe.into_owned()
    }
}

/// A code such as -32602 evaluates to itself.
fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::csv_text;

    #[test]
    fn no_cell_begins_a_formula() {
        let table = [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "-1"),
            ("-32602", "-32602"),
            ("-1+1", "\"'-1+1\""),
            ("-1.5", "\"'-1.5\""),
            ("- 1", "\"'- 1\""),
            ("-", "\"'-\""),
            ("--1", "\"'--1\""),
            ("-1\n-2", "\"'-1\n'-2\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            (" =1", "\"' =1\""),
            ("\u{a0}=1", "\"'\u{a0}=1\""),
            ("\t=1", "\"'\t=1\""),
            ("ok\n=1", "\"ok\n'=1\""),
            ("ok\r\n=1", "\"ok\r\n'=1\""),
            ("ok\r=1", "\"ok\r'=1\""),
            ("ok\u{85}=1", "\"ok\u{85}'=1\""),
            ("\u{200b}=1", "\"'\u{200b}=1\""),
            (";=1", "\"';=1\""),
            ("\u{2212}1", "\"'\u{2212}1\""),
            ("＝1", "\"'＝1\""),
            ("a=1", "a=1"),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ];
        for (text, expected) in table {
            assert_eq!(csv_text(text), expected, "{text:?}");
        }
    }
}
