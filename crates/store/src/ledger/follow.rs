//! Follows the log as it grows: each entry once, as soon as nothing more is to be said about it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::chain::Line;
use super::entry::Entry;
use super::error::LedgerError;
use super::reader::{Reader, lines};
use super::row::{Kind, Row};

/// Calls whose ending is waited for; if there are more, the oldest is shown without one.
const OPEN_MAX: usize = 10_000;

/// A place in the log that moves on with [`Follower::poll`].
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    segment: u32,
    offset: u64,
    open: BTreeMap<u64, Entry>,
}

impl Reader {
    /// Follows from the end of the log as it is now.
    pub fn follow(&self) -> Result<Follower, LedgerError> {
        let segment = self.places.segments()?.last().copied().unwrap_or(1);
        let bytes = self.segment(segment)?.unwrap_or_default();
        let offset = lines(&bytes).last().map_or(0, |(start, line)| start + length(line) + 1);
        Ok(Follower { reader: self.clone(), segment, offset, open: BTreeMap::new() })
    }
}

impl Follower {
    /// What was finished since the last time. Costs next to nothing when there is nothing new.
    pub fn poll(&mut self) -> Result<Vec<Entry>, LedgerError> {
        let mut ready = Vec::new();
        loop {
            // A segment has all its rows when the next one is there, so that is looked at first.
            let is_closed = self.reader.places.segment(self.segment + 1).exists();
            let bytes = self.read_new()?;
            for (_, line) in lines(&bytes) {
                self.offset += length(line) + 1;
                let Some(line) = Line::split(line) else { continue };
                let Ok(row) = Row::read(line.json) else { continue };
                self.see(&row, &mut ready)?;
            }
            self.segment = match self.retired()? {
                _ if is_closed => self.segment + 1,
                Some(oldest) => oldest,
                None => return Ok(ready),
            };
            self.offset = 0;
        }
    }

    /// The oldest segment that is left, if ours and the next were retired since we looked: who was
    /// stopped meanwhile goes on there.
    fn retired(&self) -> Result<Option<u32>, LedgerError> {
        if self.reader.places.segment(self.segment).exists() {
            return Ok(None);
        }
        let oldest = self.reader.places.segments()?.first().copied();
        Ok(oldest.filter(|oldest| *oldest > self.segment))
    }

    fn read_new(&self) -> Result<Vec<u8>, LedgerError> {
        let path = self.reader.places.segment(self.segment);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(LedgerError::io("open", &path)(e)),
        };
        let size = file.metadata().map_err(LedgerError::io("look at", &path))?.len();
        let new = usize::try_from(size.saturating_sub(self.offset)).unwrap_or(0);
        let mut bytes = vec![0; new];
        file.read_exact_at(&mut bytes, self.offset).map_err(LedgerError::io("read", &path))?;
        Ok(bytes)
    }

    fn see(&mut self, row: &Row<'_>, ready: &mut Vec<Entry>) -> Result<(), LedgerError> {
        if let Some(entry) = Entry::begun(row) {
            // One that was asked about is shown at once: the owner may want to act on it.
            if !entry.is_unfinished() || entry.decision == "asked" {
                ready.push(entry.clone());
            }
            if entry.is_unfinished() {
                self.open.insert(entry.seq, entry);
            }
        } else if matches!(row.kind, Kind::Resolved | Kind::Outcome) {
            self.see_later(row, ready)?;
        }
        while self.open.len() > OPEN_MAX {
            ready.extend(self.open.pop_first().map(|(_, entry)| entry));
        }
        Ok(())
    }

    fn see_later(&mut self, row: &Row<'_>, ready: &mut Vec<Entry>) -> Result<(), LedgerError> {
        let entry = match self.open.remove(&row.of) {
            Some(mut entry) => {
                entry.join(row);
                Some(entry)
            }
            // It began before we looked.
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
