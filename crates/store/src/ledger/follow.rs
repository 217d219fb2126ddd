//! Follows the log as it grows: each entry once, as soon as it is complete.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use platform::files::AtOffset as _;

use super::chain::Line;
use super::entry::Entry;
use super::error::LedgerError;
use super::paths::LogPaths;
use super::postgres_table::PostgresTable;
use super::reader::{Reader, lines};
use super::row::{AuditRow, RowKind};
use super::source::LogSource;
use super::sync_mark::Position;

/// Open calls that are tracked; beyond that the oldest is shown without an ending.
const OPEN_MAX: usize = 10_000;

/// Rows that one question to a table asks for.
const ROWS_AT_ONCE: u32 = 1_000;

/// A position in the log that advances with [`Follower::poll`].
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    at: Position,
    open: BTreeMap<u64, Entry>,
}

impl Reader {
    /// Follows from the current end of the log.
    pub fn follow(&self) -> Result<Follower, LedgerError> {
        let at = match &self.source {
            LogSource::Files(paths) => {
                let segment = paths.segments()?.last().copied().unwrap_or(1);
                let bytes = self.segment(segment)?.unwrap_or_default();
                let last = lines(&bytes).last();
                let offset = last.map_or(0, |(start, line)| start + length(line) + 1);
                Position { segment, offset }
            }
            // The offset is the number of the last row.
            LogSource::Postgres(_) => {
                let (segment, offset) = self.source.end()?;
                Position { segment, offset }
            }
        };
        Ok(Follower { reader: self.clone(), at, open: BTreeMap::new() })
    }
}

impl Follower {
    /// Entries that were completed since the last poll. Almost free when there is nothing new.
    pub fn poll(&mut self) -> Result<Vec<Entry>, LedgerError> {
        let mut ready = Vec::new();
        let source = self.reader.source.clone();
        match &source {
            LogSource::Files(paths) => self.poll_files(paths, &mut ready)?,
            LogSource::Postgres(table) => self.poll_table(table, &mut ready)?,
        }
        Ok(ready)
    }

    fn poll_table(
        &mut self,
        table: &PostgresTable,
        ready: &mut Vec<Entry>,
    ) -> Result<(), LedgerError> {
        loop {
            let rows = table.rows(self.at.offset + 1, None, Some(ROWS_AT_ONCE));
            let rows = rows.map_err(|e| table.error(e))?;
            let before = self.at.offset;
            for (_, line) in lines(&rows) {
                let Some(line) = Line::split(line) else { continue };
                let Ok(row) = AuditRow::read(line.json) else { continue };
                self.at.offset = row.seq;
                self.process(&row, ready)?;
            }
            if self.at.offset == before {
                return Ok(());
            }
        }
    }

    fn poll_files(&mut self, paths: &LogPaths, ready: &mut Vec<Entry>) -> Result<(), LedgerError> {
        loop {
            // A segment has all its rows once the next one exists, so that is checked first.
            let is_closed = paths.segment(self.at.segment + 1).exists();
            let bytes = self.read_new(paths)?;
            for (_, line) in lines(&bytes) {
                self.at.offset += length(line) + 1;
                let Some(line) = Line::split(line) else { continue };
                let Ok(row) = AuditRow::read(line.json) else { continue };
                self.process(&row, ready)?;
            }
            let segment = match self.retired(paths)? {
                _ if is_closed => self.at.segment + 1,
                Some(oldest) => oldest,
                None => return Ok(()),
            };
            self.at = Position { segment, offset: 0 };
        }
    }

    /// The oldest remaining segment, if ours and the next were retired since the last poll: a
    /// paused follower continues there.
    fn retired(&self, paths: &LogPaths) -> Result<Option<u32>, LedgerError> {
        if paths.segment(self.at.segment).exists() {
            return Ok(None);
        }
        let oldest = paths.segments()?.first().copied();
        Ok(oldest.filter(|oldest| *oldest > self.at.segment))
    }

    fn read_new(&self, paths: &LogPaths) -> Result<Vec<u8>, LedgerError> {
        let path = paths.segment(self.at.segment);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(LedgerError::io("open", &path)(e)),
        };
        let size = file.metadata().map_err(LedgerError::io("look at", &path))?.len();
        let new = usize::try_from(size.saturating_sub(self.at.offset)).unwrap_or(0);
        let mut bytes = vec![0; new];
        file.read_exact_at(&mut bytes, self.at.offset).map_err(LedgerError::io("read", &path))?;
        Ok(bytes)
    }

    fn process(&mut self, row: &AuditRow<'_>, ready: &mut Vec<Entry>) -> Result<(), LedgerError> {
        if let Some(entry) = Entry::begun(row) {
            // A pending approval is shown at once: the owner may want to act on it.
            if !entry.is_unfinished() || entry.decision == "asked" {
                ready.push(entry.clone());
            }
            if entry.is_unfinished() {
                self.open.insert(entry.seq, entry);
            }
        } else if matches!(row.kind, RowKind::Resolved | RowKind::Outcome) {
            self.process_later(row, ready)?;
        }
        while self.open.len() > OPEN_MAX {
            ready.extend(self.open.pop_first().map(|(_, entry)| entry));
        }
        Ok(())
    }

    fn process_later(
        &mut self,
        row: &AuditRow<'_>,
        ready: &mut Vec<Entry>,
    ) -> Result<(), LedgerError> {
        let entry = match self.open.remove(&row.of) {
            Some(mut entry) => {
                entry.join(row);
                Some(entry)
            }
            // It started before we began.
            None => self.reader.entry(row.of)?,
        };
        match entry {
            Some(entry) if entry.is_unfinished() => {
                self.open.insert(entry.seq, entry);
            }
            entry => ready.extend(entry),
        }
        Ok(())
    }
}

fn length(line: &[u8]) -> u64 {
    u64::try_from(line.len()).unwrap_or(0)
}
