//! Copies a whole log as it is, from files to Postgres or back, and verifies the copy. Nothing may
//! write to either place meanwhile.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::error::LedgerError;
use super::paths::{self, LogPaths, SegmentHead};
use super::postgres_table::{PostgresTable, Unsent};
use super::reader::{Reader, lines};
use super::seal::{self, SealKey, SealState};
use super::source::LogSource;
use super::verify::{Verified, VerifyError};
use crate::postgres::Address;

/// Rows of one transaction.
const ROWS_AT_ONCE: usize = 2_000;

impl Reader {
    /// Copies to a store that has no log yet. Returns what was found in the copy, which is what is
    /// in this log.
    pub fn copy_to_postgres(
        &self,
        store: &Address,
        key: Option<&SealKey>,
    ) -> Result<Verified, VerifyError> {
        let table = Arc::new(PostgresTable::open(store)?);
        self.copy_to(LogSource::Postgres(table), key)
    }

    /// The same to a folder.
    pub fn copy_to_folder(
        &self,
        folder: &Path,
        key: Option<&SealKey>,
    ) -> Result<Verified, VerifyError> {
        self.copy_to(LogSource::Files(LogPaths::create(folder)?), key)
    }

    fn copy_to(&self, target: LogSource, key: Option<&SealKey>) -> Result<Verified, VerifyError> {
        let before = self.verify(None)?;
        if !target.segments()?.is_empty() {
            return Err(LedgerError::NotEmpty(target.name()).into());
        }
        for number in self.source.segments()? {
            let Some(bytes) = self.source.segment(number)? else { continue };
            // A line without an end was never a row.
            let end = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
            let rows = bytes.get(..end).unwrap_or_default();
            match &target {
                LogSource::Files(paths) => write_file(paths, number, rows)?,
                LogSource::Postgres(table) => write_rows(table, number, rows)?,
            }
        }
        if let Some(key) = key
            && let SealState::Valid(found) = self.seal(key)?
        {
            seal::renew(&target, key, &found.row, found.since)?;
        }
        let copy = Reader::of(target)?;
        let after = copy.verify(None)?;
        if after.last_row() != before.last_row() {
            return Err(LedgerError::CopyDiffers(copy.source.name()).into());
        }
        Ok(after)
    }
}

fn write_file(paths: &LogPaths, number: u32, rows: &[u8]) -> Result<(), LedgerError> {
    let path = paths.segment(number);
    let written = paths::create_replacing(&path).and_then(|mut file| {
        file.write_all(rows)?;
        file.sync_all()
    });
    written.map_err(LedgerError::io("write", &path))?;
    platform::files::sync_folder(paths.folder()).map_err(LedgerError::io("flush", paths.folder()))
}

fn write_rows(table: &PostgresTable, number: u32, rows: &[u8]) -> Result<(), LedgerError> {
    let first = rows.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(head) = SegmentHead::parse(first) else { return Ok(()) };
    let rows: Vec<&[u8]> = lines(rows).map(|(_, line)| line).collect();
    let mut next = head.seq;
    for part in rows.chunks(ROWS_AT_ONCE) {
        // The number before is the last of the previous part, so nothing else may be there.
        let turn = table.lock(next.saturating_sub(1)).map_err(|e| table.error(e))?;
        if !turn.rows.is_empty() {
            table.abandon();
            return Err(LedgerError::NotEmpty(table.name().into()));
        }
        let mut unsent = Unsent { first_seq: next, ..Unsent::default() };
        if next == head.seq {
            unsent.segments.push((number, next));
        }
        for row in part {
            unsent.rows.extend_from_slice(row);
            unsent.rows.push(b'\n');
        }
        table.commit(&unsent).map_err(|e| table.error(e))?;
        next += u64::try_from(part.len()).unwrap_or(0);
    }
    Ok(())
}
