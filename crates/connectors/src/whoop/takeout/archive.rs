//! Opens the export: a ZIP with a few tables in it. Nothing is unpacked to disk, and a file that
//! exceeds the size bounds is refused before it fills the memory.

use std::borrow::Cow;
use std::io::{Read, Seek};

use super::TakeoutError;

/// Ten years of a very active owner are a few megabytes; these bounds still stop a ZIP bomb.
const ENTRIES_MAX: usize = 1_000;
const ENTRY_BYTES_MAX: u64 = 64 * 1024 * 1024;
const TOTAL_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// One table of the export.
pub(super) struct TableFile {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Every `.csv` in the archive, in its order.
pub(super) fn tables(source: impl Read + Seek) -> Result<Vec<TableFile>, TakeoutError> {
    let mut archive =
        zip::ZipArchive::new(source).map_err(|e| TakeoutError::NotAZip(e.to_string()))?;
    if archive.len() > ENTRIES_MAX {
        return Err(TakeoutError::TooMuch);
    }
    let mut left_bytes = TOTAL_BYTES_MAX;
    let mut entries = Vec::new();
    for index in 0..archive.len() {
        let name = archive.name_for_index(index).and_then(Result::ok).map(Cow::into_owned);
        let Some(name) = name.filter(|name| is_table(name)) else { continue };
        let file = archive.by_index(index).map_err(|e| unreadable(&name, &e))?;
        let entry = read(name, file, left_bytes.min(ENTRY_BYTES_MAX))?;
        left_bytes = left_bytes.saturating_sub(entry.bytes.len() as u64);
        entries.push(entry);
    }
    Ok(entries)
}

/// Skips the resource forks that macOS adds to each file.
fn is_table(name: &str) -> bool {
    let base = name.rsplit(['/', '\\']).next().unwrap_or(name);
    base.to_ascii_lowercase().ends_with(".csv")
        && !base.starts_with("._")
        && !name.starts_with("__MACOSX")
}

/// The size in the ZIP directory is a claim, so the unpacked bytes are counted.
fn read(name: String, file: impl Read, bytes_max: u64) -> Result<TableFile, TakeoutError> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|e| unreadable(&name, &e))?;
    if bytes.len() as u64 > bytes_max {
        return Err(TakeoutError::TooMuch);
    }
    Ok(TableFile { name, bytes })
}

fn unreadable(name: &str, why: &dyn std::error::Error) -> TakeoutError {
    TakeoutError::Unreadable { name: name.to_owned(), why: why.to_string() }
}
