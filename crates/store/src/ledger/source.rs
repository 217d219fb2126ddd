//! Where the rows of a log are read from: segment files, or a table that is divided the same way.

use std::fs;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chain::Line;
use super::error::LedgerError;
use super::paths::{LogPaths, SegmentHead};
use super::postgres_table::PostgresTable;
use super::row::AuditRow;
use super::sync_mark::{Position, SyncMark};
use crate::postgres::StoreError;

#[derive(Clone, Debug)]
pub(crate) enum LogSource {
    Files(LogPaths),
    Postgres(Arc<PostgresTable>),
}

impl LogSource {
    /// Names the log in errors.
    pub(crate) fn name(&self) -> PathBuf {
        match self {
            LogSource::Files(paths) => paths.folder().to_owned(),
            LogSource::Postgres(table) => table.name().into(),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, LogSource::Postgres(_))
    }

    /// Names a segment in errors.
    pub(crate) fn segment_name(&self, number: u32) -> PathBuf {
        match self {
            LogSource::Files(paths) => paths.segment(number),
            LogSource::Postgres(table) => format!("{} segment {number}", table.name()).into(),
        }
    }

    /// Numbers of the segments, in order.
    pub(crate) fn segments(&self) -> Result<Vec<u32>, LedgerError> {
        match self {
            LogSource::Files(paths) => paths.segments(),
            LogSource::Postgres(table) => {
                let segments = table.segments().map_err(|e| table.error(e))?;
                Ok(segments.into_iter().map(|(number, _)| number).collect())
            }
        }
    }

    /// The bytes of a segment; none if it was retired since.
    pub(crate) fn segment(&self, number: u32) -> Result<Option<Vec<u8>>, LedgerError> {
        match self {
            LogSource::Files(paths) => {
                let path = paths.segment(number);
                match fs::read(&path) {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(LedgerError::io("read", &path)(e)),
                }
            }
            LogSource::Postgres(table) => {
                within(table, number, |first, end| table.rows(first, end, None))
            }
        }
    }

    /// The fields that the first row of a segment begins with.
    pub(crate) fn head(&self, number: u32) -> Result<Option<SegmentHead>, LedgerError> {
        match self {
            LogSource::Files(paths) => {
                let path = paths.segment(number);
                match SegmentHead::read(&path) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                    head => head.map_err(LedgerError::io("read", &path)),
                }
            }
            LogSource::Postgres(_) => {
                let first = self.first_line(number)?;
                Ok(first.and_then(|line| SegmentHead::parse(&line)))
            }
        }
    }

    /// The first row of a segment; none if the segment is not there.
    pub(crate) fn first_line(&self, number: u32) -> Result<Option<Vec<u8>>, LedgerError> {
        let mut line = match self {
            LogSource::Files(paths) => {
                let path = paths.segment(number);
                let Ok(file) = fs::File::open(&path) else { return Ok(None) };
                let mut line = Vec::new();
                let read = io::BufReader::new(file).read_until(b'\n', &mut line);
                read.map_err(LedgerError::io("read", &path))?;
                line
            }
            LogSource::Postgres(table) => {
                let first = within(table, number, |first, end| table.rows(first, end, Some(1)))?;
                let Some(line) = first else { return Ok(None) };
                line
            }
        };
        if line.ends_with(b"\n") {
            line.pop();
        }
        Ok(Some(line))
    }

    pub(crate) fn bytes(&self, number: u32) -> Result<u64, LedgerError> {
        match self {
            LogSource::Files(paths) => {
                Ok(fs::metadata(paths.segment(number)).map_or(0, |found| found.len()))
            }
            LogSource::Postgres(table) => {
                let bytes = within(table, number, |first, end| table.bytes(first, end))?;
                Ok(bytes.unwrap_or_default())
            }
        }
    }

    /// Changes with every row: the number of the last segment and how much is in it.
    pub(crate) fn end(&self) -> Result<(u32, u64), LedgerError> {
        match self {
            LogSource::Files(paths) => {
                let last = paths.segments()?.last().copied().unwrap_or_default();
                let path = paths.segment(last);
                let found = fs::metadata(&path).map_err(LedgerError::io("read", &path))?;
                Ok((last, found.len()))
            }
            LogSource::Postgres(table) => Ok((0, table.last_seq().map_err(|e| table.error(e))?)),
        }
    }

    /// The number of the newest row. Of files, reads only the end of the last segment.
    pub(crate) fn newest_seq(&self) -> Result<u64, LedgerError> {
        let paths = match self {
            LogSource::Files(paths) => paths,
            LogSource::Postgres(table) => return table.last_seq().map_err(|e| table.error(e)),
        };
        let last = paths.segments()?.last().copied().unwrap_or_default();
        let path = paths.segment(last);
        let bytes = end_of(&path).map_err(LedgerError::io("read", &path))?;
        // A line that is being written is no row yet; one that begins before the bytes is a state row.
        let end = memchr::memrchr(b'\n', &bytes).unwrap_or_default();
        let complete = bytes.get(..end).unwrap_or_default();
        let line = memchr::memrchr(b'\n', complete).and_then(|start| complete.get(start + 1..));
        let row = line.and_then(Line::split).and_then(|line| AuditRow::read(line.json).ok());
        if let Some(row) = row {
            return Ok(row.seq);
        }
        Ok(self.head(last)?.map_or(0, |head| head.seq))
    }

    /// How far the log is known to be on disk; a server knows that itself.
    pub(crate) fn flushed(&self) -> Option<Position> {
        match self {
            LogSource::Files(paths) => SyncMark::read(paths),
            LogSource::Postgres(_) => None,
        }
    }

    /// Removes the segments up to this one, whose last row is given.
    pub(crate) fn remove(&self, segment: u32, last_seq: u64) -> Result<(), LedgerError> {
        match self {
            LogSource::Files(paths) => {
                for number in paths.segments()?.into_iter().take_while(|n| *n <= segment) {
                    let path = paths.segment(number);
                    fs::remove_file(&path).map_err(LedgerError::io("remove", &path))?;
                }
                Ok(())
            }
            LogSource::Postgres(table) => {
                table.retire(segment, last_seq + 1).map_err(|e| table.error(e))
            }
        }
    }
}

fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    const END_BYTES: u64 = 64 << 10;
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the rows of a segment; none if it is not there.
fn within<T>(
    table: &PostgresTable,
    number: u32,
    read: impl FnOnce(u64, Option<u64>) -> Result<T, StoreError>,
) -> Result<Option<T>, LedgerError> {
    let segments = table.segments().map_err(|e| table.error(e))?;
    let mut from = segments.iter().skip_while(|(found, _)| *found != number).map(|(_, seq)| *seq);
    let Some(first) = from.next() else { return Ok(None) };
    read(first, from.next()).map(Some).map_err(|e| table.error(e))
}
