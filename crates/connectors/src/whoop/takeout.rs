//! Takes in WHOOP's own data export, the ZIP that the app sends. What the API also has is left to the
//! API; the rest joins the mirror under ids of its own, and gives way when the API brings it later.

mod archive;
mod cells;
mod columns;
mod journal;
mod merge;
mod rows;
mod twins;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};

use jiff::tz::Offset;
use store::records::RecordsError;

use crate::Desk;
use archive::Entry;
use cells::Cells;
use columns::{Column, Header, Table};
use journal::Answer;
use rows::{Day, Draft};

pub use journal::{KIND as JOURNAL, VIEW as JOURNAL_VIEW};
pub use twins::{give_way, give_way_to};

/// Odd rows are named so often; then they are only counted.
const ODD_NAMED_MAX: usize = 20;
/// WHOOP's own first, then those of spreadsheets where the comma is of decimals. With a wrong one the
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

/// What an import did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// By kind, in the mirror's words.
    pub kinds: BTreeMap<&'static str, Tally>,
    /// Tables that are not ours to read.
    pub skipped: Vec<String>,
    pub odd: Vec<Odd>,
    pub odd_count: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: usize,
    /// New in the mirror, or changed since an earlier import.
    pub written: usize,
    /// Here already from an earlier import.
    pub unchanged: usize,
    /// The API has brought it, so the export's version was not needed.
    pub known: usize,
}

impl Tally {
    pub fn is_nothing(&self) -> bool {
        self.written + self.unchanged + self.known == 0
    }
}

/// A row that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
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
pub fn import(desk: &Desk, source: impl Read + Seek) -> Result<Imported, TakeoutError> {
    let mut imported = Imported::default();
    let export = read(archive::tables(source)?, &mut imported)?;
    merge::merge(desk, export, &mut imported)?;
    Ok(imported)
}

/// An export that was read, table by table.
#[derive(Default)]
struct Export {
    days: Vec<Day>,
    sleeps: Vec<Draft>,
    workouts: Vec<Draft>,
    answers: Vec<Answer>,
}

fn read(entries: Vec<Entry>, imported: &mut Imported) -> Result<Export, TakeoutError> {
    let mut tables = Vec::new();
    for entry in entries {
        match Sheet::read(&entry) {
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

impl Imported {
    /// There were rows, and none of them is in the mirror now.
    pub fn took_nothing(&self) -> bool {
        self.odd_count > 0 && self.kinds.values().all(Tally::is_nothing)
    }

    fn odd(&mut self, file: &str, line: u64, why: String) {
        self.odd_count += 1;
        if self.odd.len() < ODD_NAMED_MAX {
            self.odd.push(Odd { file: file.to_owned(), line, why });
        }
    }
}

/// One table, split into cells.
struct Sheet {
    name: String,
    header: Header,
    rows: Vec<(u64, csv::StringRecord)>,
}

impl Sheet {
    /// Nothing when it is no table of ours.
    fn read(entry: &Entry) -> Option<Sheet> {
        let text = String::from_utf8_lossy(&entry.bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        SEPARATORS.iter().find_map(|separator| Sheet::split(&entry.name, text, *separator))
    }

    fn split(name: &str, text: &str, separator: u8) -> Option<Sheet> {
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
        Some(Sheet { name: name.to_owned(), header, rows })
    }

    fn take(
        &self,
        row: &csv::StringRecord,
        zones: &Zones,
        into: &mut Export,
    ) -> Result<(), String> {
        let cells = Cells { header: &self.header, row };
        let linked = cells.text(Column::CycleStart).and_then(|start| zones.get(start).copied());
        let offset = cells.offset()?.or(linked).ok_or("the row says no time zone")?;
        match self.header.table {
            Table::Cycles => {
                let day = rows::day(&cells, offset)?;
                let is_open = day.cycle.end_us.is_none();
                into.days.push(day);
                if is_open {
                    let why = "the cycle was open when the export was made; a sync brings it";
                    return Err(why.to_owned());
                }
            }
            Table::Sleeps => into.sleeps.push(rows::sleep(&cells, offset)?),
            Table::Workouts => into.workouts.push(rows::workout(&cells, offset)?),
            Table::Journal => into.answers.push(journal::answer(&cells, offset)?),
        }
        Ok(())
    }
}

/// The line a row begins in. Where lines end with two characters the reader stops between them.
fn line(text: &str, at: &csv::Position) -> u64 {
    let next = usize::try_from(at.byte()).ok().and_then(|byte| text.as_bytes().get(byte));
    at.line() + u64::from(next == Some(&b'\n'))
}

/// Offsets by the start of a cycle as the tables write it.
type Zones = HashMap<String, Offset>;

/// Some exports name the zone in one table only; the start of the cycle leads from the others to it.
fn zones(sheets: &[Sheet]) -> Zones {
    let mut zones = Zones::new();
    for sheet in sheets {
        for (_, row) in &sheet.rows {
            let cells = Cells { header: &sheet.header, row };
            if let (Some(start), Ok(Some(offset))) =
                (cells.text(Column::CycleStart), cells.offset())
            {
                zones.entry(start.to_owned()).or_insert(offset);
            }
        }
    }
    zones
}
