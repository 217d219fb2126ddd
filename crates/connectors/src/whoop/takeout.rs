//! Imports WHOOP's data export, the ZIP that the app sends. Records that the API has are left alone;
//! the rest is stored under our own ids, and replaced when the API returns it later.

mod api_matches;
mod archive;
mod cells;
mod columns;
pub(crate) mod journal;
mod merge;
mod rows;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};

use jiff::tz::Offset;
use store::records::RecordsError;

use crate::ConnectorContext;
use archive::TableFile;
use cells::ExportRow;
use columns::{Column, ExportTable, Header};
use journal::JournalAnswer;
use rows::{CycleRow, Draft};

pub use api_matches::{give_way, give_way_to};
pub use journal::{KIND as JOURNAL, VIEW as JOURNAL_VIEW};

/// The number of invalid rows that are named; further ones are only counted.
const ODD_NAMED_MAX: usize = 20;
/// WHOOP's separator first, then those of spreadsheets with decimal commas. With a wrong one the
/// header is a single column that no table has.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

#[derive(Debug, thiserror::Error)]
pub enum TakeoutError {
    #[error("this is not a ZIP: {0}\nhint: give the file as WHOOP sent it, not unpacked")]
    NotAZip(String),
    #[error("`{name}` in the ZIP cannot be read: {why}")]
    Unreadable { name: String, why: String },
    #[error("the ZIP holds far more than an export does; nothing was imported")]
    TooMuch,
    #[error(
        "the ZIP holds no table of a WHOOP export\nhint: ask for one in the app under More, App Settings, Data Export"
    )]
    NothingKnown,
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The result of an import.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TakeoutReport {
    /// By kind, with the mirror's names.
    pub kinds: BTreeMap<&'static str, TakeoutCounts>,
    /// Unknown tables.
    pub skipped: Vec<String>,
    pub odd: Vec<SkippedRow>,
    pub odd_count: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeoutCounts {
    pub rows: usize,
    /// New in the mirror, or changed since an earlier import.
    pub written: usize,
    /// Unchanged since an earlier import.
    pub unchanged: usize,
    /// Skipped, because the API has it.
    pub known: usize,
}

impl TakeoutCounts {
    pub fn is_nothing(&self) -> bool {
        self.written + self.unchanged + self.known == 0
    }
}

/// A row that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRow {
    pub file: String,
    /// As a text editor counts.
    pub line: u64,
    pub why: String,
}

/// Did a record with this id come from an export?
pub fn is_imported(id: &str) -> bool {
    id.starts_with(rows::ID_PREFIX) || id.starts_with('-')
}

/// Imports an export. Importing it again changes nothing.
pub fn import(
    ctx: &ConnectorContext,
    source: impl Read + Seek,
) -> Result<TakeoutReport, TakeoutError> {
    let mut imported = TakeoutReport::default();
    let export = read(archive::tables(source)?, &mut imported)?;
    merge::merge(ctx, export, &mut imported)?;
    Ok(imported)
}

/// An export that was read, table by table.
#[derive(Default)]
struct Export {
    days: Vec<CycleRow>,
    sleeps: Vec<Draft>,
    workouts: Vec<Draft>,
    answers: Vec<JournalAnswer>,
}

fn read(entries: Vec<TableFile>, imported: &mut TakeoutReport) -> Result<Export, TakeoutError> {
    let mut tables = Vec::new();
    for entry in entries {
        match ParsedTable::read(&entry) {
            Some(sheet) => tables.push(sheet),
            None => imported.skipped.push(entry.name),
        }
    }
    if tables.is_empty() {
        return Err(TakeoutError::NothingKnown);
    }
    let zones = zones(&tables);
    let mut export = Export::default();
    for sheet in &tables {
        for (line, row) in &sheet.rows {
            if let Err(why) = sheet.take(row, &zones, &mut export) {
                imported.odd(&sheet.name, *line, why);
            }
        }
    }
    Ok(export)
}

impl TakeoutReport {
    /// There were rows, and none of them was stored.
    pub fn took_nothing(&self) -> bool {
        self.odd_count > 0 && self.kinds.values().all(TakeoutCounts::is_nothing)
    }

    fn odd(&mut self, file: &str, line: u64, why: String) {
        self.odd_count += 1;
        if self.odd.len() < ODD_NAMED_MAX {
            self.odd.push(SkippedRow { file: file.to_owned(), line, why });
        }
    }
}

/// One table, split into cells.
struct ParsedTable {
    name: String,
    header: Header,
    rows: Vec<(u64, csv::StringRecord)>,
}

impl ParsedTable {
    /// `None` for an unknown table.
    fn read(entry: &TableFile) -> Option<ParsedTable> {
        let text = String::from_utf8_lossy(&entry.bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        SEPARATORS.iter().find_map(|separator| ParsedTable::split(&entry.name, text, *separator))
    }

    fn split(name: &str, text: &str, separator: u8) -> Option<ParsedTable> {
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.flexible(true).delimiter(separator);
        let mut reader = reader.from_reader(text.as_bytes());
        let mut header = Header::read(reader.headers().ok()?.iter())?;
        let mut rows = Vec::new();
        // Text in memory that is UTF-8 and may have rows of any length cannot fail to be read.
        for row in reader.records().map_while(Result::ok) {
            rows.push((row.position().map_or(0, |at| line(text, at)), row));
        }
        header.learn_decimals(rows.iter().map(|(_, row)| row));
        Some(ParsedTable { name: name.to_owned(), header, rows })
    }

    fn take(
        &self,
        row: &csv::StringRecord,
        zones: &Zones,
        into: &mut Export,
    ) -> Result<(), String> {
        let cells = ExportRow { header: &self.header, row };
        let linked = cells.text(Column::CycleStart).and_then(|start| zones.get(start).copied());
        let offset = cells.offset()?.or(linked).ok_or("the row says no time zone")?;
        match self.header.table {
            ExportTable::Cycles => {
                let day = rows::day(&cells, offset)?;
                let is_open = day.cycle.end_us.is_none();
                into.days.push(day);
                if is_open {
                    let why = "the cycle was open when the export was made; a sync brings it";
                    return Err(why.to_owned());
                }
            }
            ExportTable::Sleeps => into.sleeps.push(rows::sleep(&cells, offset)?),
            ExportTable::Workouts => into.workouts.push(rows::workout(&cells, offset)?),
            ExportTable::Journal => into.answers.push(journal::answer(&cells, offset)?),
        }
        Ok(())
    }
}

/// The first line of a row. With CRLF the reader stops between the two characters.
fn line(text: &str, at: &csv::Position) -> u64 {
    let next = usize::try_from(at.byte()).ok().and_then(|byte| text.as_bytes().get(byte));
    at.line() + u64::from(next == Some(&b'\n'))
}

/// Offsets by the start of a cycle as written in the tables.
type Zones = HashMap<String, Offset>;

/// Some exports name the zone in one table only; the start of the cycle leads from the others to it.
fn zones(sheets: &[ParsedTable]) -> Zones {
    let mut zones = Zones::new();
    for sheet in sheets {
        for (_, row) in &sheet.rows {
            let cells = ExportRow { header: &sheet.header, row };
            if let (Some(start), Ok(Some(offset))) =
                (cells.text(Column::CycleStart), cells.offset())
            {
                zones.entry(start.to_owned()).or_insert(offset);
            }
        }
    }
    zones
}
