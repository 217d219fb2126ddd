//! Reads history forwards and backwards, one segment in memory at a time. Needs no lock: rows never
//! change, and a row that is being written is not visible yet.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::chain::{HASH_BYTES, Hash, Line};
use super::entry::Entry;
use super::error::LedgerError;
use super::filter::{Filter, SearchedText};
use super::paths::{LogPaths, SegmentHead};
use super::postgres_table::PostgresTable;
use super::row::{AuditRow, RowKind};
use super::source::LogSource;
use super::timestamp;
use crate::files;
use crate::postgres::Address;

/// No call is held for a human longer than this, so its resolution is not searched for later.
const HELD_US_MAX: u64 = 60 * 60 * 1_000_000;

#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) source: LogSource,
}

/// A row that says what was changed in `gate.db`.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Change {
    pub(crate) seq: u64,
    pub(crate) time: String,
    pub(crate) act: String,
    pub(crate) about: String,
    #[serde(rename = "change")]
    pub(crate) mark: String,
}

impl Reader {
    /// Reads an existing ledger in this folder.
    pub fn open(folder: &Path) -> Result<Reader, LedgerError> {
        // The folder may be read without opening its home.
        files::refuse_special(folder).map_err(LedgerError::io("read", folder))?;
        Reader::of(LogSource::Files(LogPaths::existing(folder)))
    }

    /// Reads an existing ledger on Postgres.
    pub fn open_on_postgres(address: &Address) -> Result<Reader, LedgerError> {
        Reader::of(LogSource::Postgres(Arc::new(PostgresTable::open(address)?)))
    }

    pub(crate) fn of(source: LogSource) -> Result<Reader, LedgerError> {
        if source.segments()?.is_empty() {
            return Err(match &source {
                LogSource::Files(_) => LedgerError::Gone(source.segment_name(1)),
                LogSource::Postgres(table) => LedgerError::NoLog(table.name().to_owned()),
            });
        }
        Ok(Reader { source })
    }

    /// Changes with every row. Costs two system calls, or one question to the store.
    pub fn end(&self) -> Result<(u32, u64), LedgerError> {
        self.source.end()
    }

    /// The number of the newest row. Reads only the end of the last segment.
    pub fn newest_seq(&self) -> Result<u64, LedgerError> {
        self.source.newest_seq()
    }

    pub fn oldest_first(&self, filter: &Filter) -> Result<Entries, LedgerError> {
        self.entries(filter, Direction::Forwards)
    }

    pub fn newest_first(&self, filter: &Filter) -> Result<Entries, LedgerError> {
        self.entries(filter, Direction::Backwards)
    }

    /// The entry of one request or note.
    pub fn entry(&self, seq: u64) -> Result<Option<Entry>, LedgerError> {
        let only = Filter { seq_min: Some(seq), seq_max: Some(seq), ..Filter::default() };
        self.oldest_first(&only)?.next().transpose()
    }

    /// Whether a row after `seq` records this change of `gate.db`. Unescaped quotes occur in no
    /// text of a row, so comparing bytes is enough.
    pub(crate) fn has_change(&self, mark: &str, seq: u64) -> Result<bool, LedgerError> {
        let from = Filter { seq_min: Some(seq), ..Filter::default() };
        let wanted = format!("\"change\":\"{mark}\"");
        for number in self.within(self.source.segments()?, &from)?.into_iter().rev() {
            let bytes = self.segment(number)?.unwrap_or_default();
            if String::from_utf8_lossy(&bytes).contains(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The rows of changes of `gate.db` after this row.
    pub(crate) fn changes_after(&self, seq: u64) -> Result<Vec<Change>, LedgerError> {
        let from = Filter { seq_min: Some(seq.saturating_add(1)), ..Filter::default() };
        // No text of a row has bare quotes.
        let find = memchr::memmem::Finder::new(b",\"change\":\"");
        let mut segments = self.within(self.source.segments()?, &from)?;
        segments.sort_unstable();
        let mut found = Vec::new();
        for number in segments {
            let bytes = self.segment(number)?.unwrap_or_default();
            for line in bytes.split(|byte| *byte == b'\n') {
                if find.find(line).is_none() {
                    continue;
                }
                let json = line.get(HASH_BYTES + 1..).unwrap_or_default();
                let change: Option<Change> = serde_json::from_slice(json).ok();
                found.extend(change.filter(|change| change.seq > seq));
            }
        }
        Ok(found)
    }

    /// The hash of a row; nothing if the row is not in the log.
    pub(crate) fn hash_of(&self, seq: u64) -> Result<Option<Hash>, LedgerError> {
        let only = Filter { seq_min: Some(seq), seq_max: Some(seq), ..Filter::default() };
        // Every row has these fields in this order, and no text of a row has unescaped quotes.
        let wanted = format!("\"seq\":{seq},\"time\":\"");
        let find = memchr::memmem::Finder::new(wanted.as_bytes());
        for number in self.within(self.source.segments()?, &only)? {
            let bytes = self.segment(number)?.unwrap_or_default();
            let Some(at) = find.find(&bytes) else { continue };
            let before = bytes.get(..at).unwrap_or_default();
            let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
            let hash = bytes.get(start..).and_then(|line| line.first_chunk());
            return Ok(hash.copied());
        }
        Ok(None)
    }

    fn entries(&self, filter: &Filter, direction: Direction) -> Result<Entries, LedgerError> {
        let mut todo = self.within(self.source.segments()?, filter)?;
        if direction == Direction::Forwards {
            todo.reverse();
        }
        let (reader, filter) = (self.clone(), filter.clone());
        Ok(Entries { reader, filter, direction, todo, ready: Vec::new() })
    }

    /// The segments that can contain matches.
    fn within(&self, mut segments: Vec<u32>, filter: &Filter) -> Result<Vec<u32>, LedgerError> {
        if let Some(seq) = filter.seq_max {
            segments.truncate(self.first_where(&segments, |head| head.seq > seq)?);
        }
        if let Some(seq) = filter.seq_min {
            let past = self.first_where(&segments, |head| head.seq > seq)?;
            segments.drain(..past.saturating_sub(1));
        }
        if filter.since_us.is_some() || filter.until_us.is_some() {
            self.keep_within(&mut segments, filter)?;
        }
        Ok(segments)
    }

    /// Every segment is checked, because a changed clock leaves times out of order. A change and
    /// its reversal within one segment are covered by also reading the neighbours of the segments
    /// that match.
    fn keep_within(&self, segments: &mut Vec<u32>, filter: &Filter) -> Result<(), LedgerError> {
        let mut begins = Vec::with_capacity(segments.len());
        for number in &*segments {
            begins.push(self.head(*number)?.and_then(|head| timestamp::parse(&head.time)));
        }
        let ends = begins.iter().skip(1).copied().chain([None]);
        let fits: Vec<bool> =
            begins.iter().copied().zip(ends).map(|(b, e)| filter.meets(b, e)).collect();
        let mut at = 0..fits.len();
        segments.retain(|_| {
            let near = at.next().map(|i| i.saturating_sub(1)..fits.len().min(i + 2));
            near.and_then(|near| fits.get(near)).is_some_and(|near| near.contains(&true))
        });
        Ok(())
    }

    /// Binary search over the first rows of the segments.
    fn first_where(
        &self,
        segments: &[u32],
        is_past: impl Fn(&SegmentHead) -> bool,
    ) -> Result<usize, LedgerError> {
        let (mut low, mut high) = (0, segments.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let number = segments.get(middle).copied().unwrap_or_default();
            if self.head(number)?.is_some_and(|head| is_past(&head)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// The bytes of a segment; none if it was retired since.
    pub(crate) fn segment(&self, number: u32) -> Result<Option<Vec<u8>>, LedgerError> {
        self.source.segment(number)
    }

    /// The entries that begin in a segment, joined with their later rows.
    fn joined(&self, number: u32, filter: &Filter) -> Result<Vec<Entry>, LedgerError> {
        let Some(bytes) = self.segment(number)? else { return Ok(Vec::new()) };
        let mut found = EntryCollector { searched: filter.searched(), ..EntryCollector::default() };
        for (offset, line) in lines(&bytes) {
            let row = self.row(number, offset, line)?;
            found.add(&row, line, filter);
        }
        self.find_endings(number, &mut found)?;
        let EntryCollector { entries, .. } = found;
        Ok(entries.into_iter().filter(|f| filter.keeps(f)).map(|f| f.entry).collect())
    }

    fn row<'a>(
        &self,
        number: u32,
        offset: u64,
        line: &'a [u8],
    ) -> Result<AuditRow<'a>, LedgerError> {
        let row = Line::split(line).and_then(|line| AuditRow::read(line.json).ok());
        row.ok_or_else(|| LedgerError::Damaged {
            path: self.source.segment_name(number),
            offset,
            why: "a line is not an audit row".to_owned(),
        })
    }

    /// Most calls end soon; a long-running one is searched for only in the segment at whose end it
    /// is no longer open.
    fn find_endings(&self, number: u32, found: &mut EntryCollector) -> Result<(), LedgerError> {
        let mut next = number + 1;
        while !found.unfinished.is_empty() {
            let Some(head) = self.head(next)? else { return Ok(()) };
            found.unfinished.retain(|_, held_until| *held_until >= head.tick);
            if !self.are_open_after(next, found)? {
                let bytes = self.segment(next)?.unwrap_or_default();
                for (offset, line) in lines(&bytes) {
                    if found.unfinished.is_empty() {
                        break;
                    }
                    found.add_later(&self.row(next, offset, line)?, line);
                }
            }
            next += 1;
        }
        Ok(())
    }

    fn head(&self, number: u32) -> Result<Option<SegmentHead>, LedgerError> {
        self.source.head(number)
    }

    /// Whether all unfinished calls are still open when the segment after this one begins.
    fn are_open_after(&self, number: u32, found: &EntryCollector) -> Result<bool, LedgerError> {
        let Some(line) = self.source.first_line(number + 1)? else { return Ok(false) };
        let row = self.row(number + 1, 0, &line)?;
        let open = row.state.as_ref().map(|state| state.open_calls()).unwrap_or_default();
        Ok(found.unfinished.keys().all(|seq| open.contains(seq)))
    }
}

/// An entry being assembled, and whether the searched text was found.
pub(crate) struct Candidate {
    pub(crate) entry: Entry,
    pub(crate) has_text: bool,
}

#[derive(Default)]
struct EntryCollector {
    entries: Vec<Candidate>,
    by_seq: HashMap<u64, usize>,
    /// Entries that a later row may add to, and until which ledger time.
    unfinished: HashMap<u64, u64>,
    searched: Option<SearchedText>,
}

impl EntryCollector {
    fn add(&mut self, row: &AuditRow<'_>, line: &[u8], filter: &Filter) {
        self.add_later(row, line);
        if !filter.may_keep(row) {
            return;
        }
        let Some(entry) = Entry::begun(row) else { return };
        let (seq, place) = (entry.seq, self.entries.len());
        if let Some(until) = open_until(&entry) {
            self.unfinished.insert(seq, until);
        }
        self.by_seq.insert(seq, place);
        self.entries.push(Candidate { entry, has_text: self.has_text(line) });
    }

    fn has_text(&self, line: &[u8]) -> bool {
        self.searched.as_ref().is_some_and(|searched| searched.is_in(line))
    }

    fn add_later(&mut self, row: &AuditRow<'_>, line: &[u8]) {
        if !matches!(row.kind, RowKind::Resolved | RowKind::Outcome) {
            return;
        }
        let has_text = self.has_text(line);
        let place = self.by_seq.get(&row.of);
        let Some(candidate) = place.and_then(|place| self.entries.get_mut(*place)) else { return };
        candidate.entry.join(row);
        candidate.has_text |= has_text;
        match open_until(&candidate.entry) {
            Some(until) => self.unfinished.insert(row.of, until),
            None => self.unfinished.remove(&row.of),
        };
    }
}

/// Until which ledger time a later row may add to this entry; none if none will.
fn open_until(entry: &Entry) -> Option<u64> {
    let held_until = entry.tick.saturating_add(HELD_US_MAX);
    entry.is_unfinished().then_some(if entry.decision == "asked" { held_until } else { u64::MAX })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forwards,
    Backwards,
}

/// An iterator of entries; holds one segment's worth.
#[derive(Debug)]
pub struct Entries {
    reader: Reader,
    filter: Filter,
    direction: Direction,
    /// Segments to come, the next one last.
    todo: Vec<u32>,
    /// Entries to come, the next one last.
    ready: Vec<Entry>,
}

impl Iterator for Entries {
    type Item = Result<Entry, LedgerError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop() {
                return Some(Ok(entry));
            }
            let number = self.todo.pop()?;
            match self.reader.joined(number, &self.filter) {
                Ok(entries) => self.ready = entries,
                Err(e) => return Some(Err(e)),
            }
            if self.direction == Direction::Forwards {
                self.ready.reverse();
            }
        }
    }
}

/// Complete lines with their byte offsets.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut offset = 0;
    bytes.split_inclusive(|b| *b == b'\n').filter_map(move |line| {
        let start = offset;
        offset += u64::try_from(line.len()).unwrap_or(0);
        line.strip_suffix(b"\n").map(|line| (start, line))
    })
}
