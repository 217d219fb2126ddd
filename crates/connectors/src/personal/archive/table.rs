//! Reads a CSV file row by row. Invalid UTF-8 is replaced, and rows may have any number of cells.

use std::io::Read;

use super::json::without_mark;
use super::{OpenFile, Stop};

/// Passes each row to `take`, including the first.
pub(crate) fn each_row(
    file: &mut OpenFile<'_>,
    take: &mut dyn FnMut(&[String]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let meter = file.meter;
    let reader = without_mark(&mut *file.reader)?;
    let mut reader = sheet(reader);
    let mut row = csv::ByteRecord::new();
    loop {
        match reader.read_byte_record(&mut row) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(Stop::File(error.to_string())),
        }
        meter.piece();
        let cells: Vec<String> =
            row.iter().map(|cell| String::from_utf8_lossy(cell).trim().to_owned()).collect();
        take(&cells)?;
    }
}

fn sheet<R: Read>(reader: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(reader)
}

/// A row whose cells are found by the names of their columns.
pub(crate) struct Cells<'a> {
    header: &'a [String],
    row: &'a [String],
}

impl<'a> Cells<'a> {
    /// `None` if the cell is empty or missing.
    pub(crate) fn get(&self, column: &str) -> Option<&'a str> {
        let at = self.header.iter().position(|name| name == column)?;
        self.row.get(at).map(String::as_str).filter(|cell| !cell.is_empty())
    }
}

/// Passes each row below the header to `take`. A table without one of the columns is refused.
pub(crate) fn each_row_with_header(
    file: &mut OpenFile<'_>,
    needed: &[&str],
    take: &mut dyn FnMut(&Cells<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut header: Option<Vec<String>> = None;
    each_row(file, &mut |row| {
        let Some(header) = &header else {
            let names: Vec<String> = row.iter().map(|name| name.to_lowercase()).collect();
            if let Some(missing) = needed.iter().find(|name| !names.iter().any(|n| n == *name)) {
                return Err(Stop::File(format!("it has no column `{missing}`")));
            }
            header = Some(names);
            return Ok(());
        };
        take(&Cells { header, row })
    })
}
