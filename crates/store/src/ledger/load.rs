//! Reads the journal into a state: the newest segment when a ledger is opened, and what others
//! appended before every write.

use std::fs;
use std::io::Write;
use std::path::Path;

use platform::files::{AtOffset as _, FileId};

use super::chain::{self, Hash, Line};
use super::error::LedgerError;
use super::journal::{Cursor, Head, Tail, TailCheck};
use super::paths::{self, LogPaths};
use super::row::{AuditRow, BadLine, RowKind};
use super::state::LedgerState;
use super::sync_mark::{Position, SyncMark};

/// Rows of other processes are read in chunks of this size, or of one row if that is longer.
const CHUNK_BYTES: u64 = 1 << 20;

/// A row that must still be there when the journal is read again from its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRow {
    pub(crate) segment: u32,
    pub(crate) file: FileId,
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
}

/// When a broken tail may be truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Opening a ledger: everything that was never flushed.
    Unflushed,
    /// Running: only the beginning of a row, left by a killed writer.
    Torn,
}

/// Bytes that were truncated from the journal and are kept in a file.
#[derive(Clone, Debug)]
pub(crate) struct TruncatedTail {
    pub(crate) bytes: u64,
    pub(crate) kept_in: String,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) tail: Tail,
    pub(crate) state: LedgerState,
    pub(crate) truncated: Vec<TruncatedTail>,
}

#[derive(Debug)]
pub(super) enum Stop {
    End,
    /// The last bytes are not a complete line.
    Torn,
    Bad(BadLine),
}

/// Reads the journal from the segment that was flushed last, or from the one that contained
/// `known`; none if there is no journal.
pub(crate) fn load(
    paths: &LogPaths,
    known: Option<LastRow>,
    repair: Repair,
) -> Result<Option<Loaded>, LedgerError> {
    let segments = paths.segments()?;
    let mark = SyncMark::read(paths);
    let Some(last) = segments.last().copied() else {
        return match (known, mark) {
            (None, None) => Ok(None),
            _ => Err(LedgerError::Gone(paths.segment(mark.map_or(1, |mark| mark.segment)))),
        };
    };
    if let Some(mark) = mark.filter(|mark| mark.segment > last) {
        return Err(LedgerError::Gone(paths.segment(mark.segment)));
    }
    let wanted = known.map(|known| known.segment).or(mark.map(|mark| mark.segment));
    let wanted = wanted.unwrap_or(last.saturating_sub(1));
    let first = if segments.contains(&wanted) { wanted } else { last };
    let mut load = Load {
        paths,
        mark,
        repair,
        known,
        known_found: false,
        last,
        state: LedgerState::default(),
        truncated: Vec::new(),
    };
    let Some(tail) = load.segments(first)? else { return Ok(None) };
    load.check_known(&tail)?;
    Ok(Some(Loaded { tail, state: load.state, truncated: load.truncated }))
}

struct Load<'a> {
    paths: &'a LogPaths,
    mark: Option<Position>,
    repair: Repair,
    known: Option<LastRow>,
    known_found: bool,
    last: u32,
    state: LedgerState,
    truncated: Vec<TruncatedTail>,
}

impl Load<'_> {
    /// Reads as far as the chain holds; what follows is set aside, if allowed.
    fn segments(&mut self, first: u32) -> Result<Option<Tail>, LedgerError> {
        let mut tail: Option<Tail> = None;
        for number in first..=self.last {
            let head = tail.as_ref().map(|tail| tail.cursor.head);
            let Some(mut next) = self.open(number)? else {
                return self.broken(tail, number, "it is missing");
            };
            let bytes = fs::read(&next.path).map_err(LedgerError::io("read", &next.path))?;
            let Some(head) = head.or_else(|| before(&bytes)) else {
                return self.broken(tail, number, "its first row is invalid");
            };
            next.cursor.head = Head { closed: false, ..head };
            let stop = self.fold(&bytes, &mut next);
            if next.cursor.body_start == 0 {
                return self.broken(
                    tail,
                    number,
                    "its first row does not follow the previous segment",
                );
            }
            let more = number < self.last;
            match stop {
                Stop::End if next.cursor.head.closed || !more => tail = Some(next),
                stop => return self.broken_in(next, &bytes, &stop),
            }
            self.check_flushed(tail.as_ref())?;
        }
        Ok(tail)
    }

    fn open(&self, number: u32) -> Result<Option<Tail>, LedgerError> {
        match Tail::open(self.paths, number) {
            Ok(tail) => Ok(Some(tail)),
            Err(LedgerError::Gone(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn fold(&mut self, bytes: &[u8], tail: &mut Tail) -> Stop {
        let known = self.known;
        let mut known_found = self.known_found;
        let stop = fold(bytes, &mut tail.cursor, &mut self.state, |head| {
            known_found |=
                known.is_some_and(|known| known.seq == head.seq && known.hash == head.hash);
        });
        self.known_found = known_found;
        stop
    }

    /// Whether everything that was flushed is there.
    fn check_flushed(&self, tail: Option<&Tail>) -> Result<(), LedgerError> {
        let Some(tail) = tail else { return Ok(()) };
        match self.mark {
            Some(mark)
                if mark.segment == tail.cursor.segment && tail.cursor.offset < mark.offset =>
            {
                Err(self.damaged(
                    tail.cursor.segment,
                    tail.cursor.offset,
                    "rows that were flushed are missing",
                ))
            }
            _ => Ok(()),
        }
    }

    /// A whole segment does not follow the previous one.
    fn broken(
        &mut self,
        tail: Option<Tail>,
        number: u32,
        why: &str,
    ) -> Result<Option<Tail>, LedgerError> {
        let was_flushed = self.mark.is_some_and(|mark| mark.segment >= number);
        // A ledger whose very first rows never reached the disk does not exist yet.
        let is_all_there_is = tail.is_none() && self.mark.is_none() && number == 1;
        if self.repair == Repair::Torn || was_flushed || (tail.is_none() && !is_all_there_is) {
            return Err(self.damaged(number, 0, why));
        }
        self.set_aside(number)?;
        Ok(tail)
    }

    /// A segment ends in something other than rows, or without its closing row.
    fn broken_in(
        &mut self,
        tail: Tail,
        bytes: &[u8],
        stop: &Stop,
    ) -> Result<Option<Tail>, LedgerError> {
        let start = usize::try_from(tail.cursor.offset).unwrap_or(usize::MAX);
        let rest = bytes.get(start..).unwrap_or_default();
        let at = tail.position();
        if self.mark.is_some_and(|mark| at < mark) {
            return Err(self.damaged(tail.cursor.segment, tail.cursor.offset, describe(stop)));
        }
        if self.repair == Repair::Torn {
            if tail.cursor.segment < self.last {
                return Err(self.damaged(tail.cursor.segment, tail.cursor.offset, describe(stop)));
            }
            let is_torn = matches!(stop, Stop::Torn) && chain::is_beginning_of_a_line(rest);
            if !is_torn {
                return Err(LedgerError::SqliteCopy {
                    path: tail.path.clone(),
                    offset: tail.cursor.offset,
                });
            }
            if self.may_be_restoring(&tail) {
                return Err(self.damaged(tail.cursor.segment, tail.cursor.offset, describe(stop)));
            }
        }
        self.set_aside(tail.cursor.segment + 1)?;
        if !rest.is_empty() {
            self.truncated.push(truncate_tail(self.paths, &tail, rest)?);
        }
        Ok(Some(tail))
    }

    /// Whether this may be a copy that is still being written: it is not the file that we knew, or
    /// our last row is not in it yet. Truncating it would lose rows for good.
    fn may_be_restoring(&self, tail: &Tail) -> bool {
        self.known.is_some_and(|known| {
            !self.known_found || (known.segment == tail.cursor.segment && known.file != tail.id)
        })
    }

    /// Removes segments from the journal, starting with this one, and keeps them.
    fn set_aside(&mut self, from: u32) -> Result<(), LedgerError> {
        for number in from..=self.last {
            let path = self.paths.segment(number);
            let Ok(found) = fs::metadata(&path) else { continue };
            let kept = self.paths.torn(number, 0);
            fs::rename(&path, &kept).map_err(LedgerError::io("set aside", &path))?;
            self.truncated.push(TruncatedTail { bytes: found.len(), kept_in: name_of(&kept) });
            tracing::warn!("set aside a segment that was never flushed: `{}`", kept.display());
        }
        Ok(())
    }

    fn damaged(&self, number: u32, offset: u64, why: &str) -> LedgerError {
        LedgerError::Damaged { path: self.paths.segment(number), offset, why: why.to_owned() }
    }

    /// A journal that no longer contains our last row was rolled back or is another one.
    fn check_known(&self, tail: &Tail) -> Result<(), LedgerError> {
        let Some(known) = self.known else { return Ok(()) };
        let retired = self.state.archived.as_ref().is_some_and(|a| a.last_seq >= known.seq);
        if self.known_found || retired {
            return Ok(());
        }
        Err(tail.replaced(&format!("row {} is missing or different", known.seq)))
    }
}

/// The head that the first row of a segment claims to follow.
pub(super) fn before(bytes: &[u8]) -> Option<Head> {
    let first = bytes.split(|b| *b == b'\n').next()?;
    let row = AuditRow::read(Line::split(first)?.json).ok()?;
    let hash = chain::parse_hash(&row.previous)?;
    (row.kind == RowKind::State).then_some(Head {
        seq: row.seq.checked_sub(1)?,
        hash,
        closed: true,
    })
}

/// Folds complete lines into the state, as far as they are valid.
fn fold(
    bytes: &[u8],
    cursor: &mut Cursor,
    state: &mut LedgerState,
    mut saw: impl FnMut(&Head),
) -> Stop {
    let mut rest = bytes;
    loop {
        if rest.is_empty() {
            return Stop::End;
        }
        let Some(end) = rest.iter().position(|b| *b == b'\n') else { return Stop::Torn };
        let (line, after) = rest.split_at(end);
        if let Err(bad) = fold_line(line, cursor, state) {
            return Stop::Bad(bad);
        }
        saw(&cursor.head);
        rest = after.get(1..).unwrap_or_default();
    }
}

/// Folds one line, without its newline.
pub(super) fn fold_line(
    line: &[u8],
    cursor: &mut Cursor,
    state: &mut LedgerState,
) -> Result<(), BadLine> {
    let wrong = |words: &str| Err(BadLine::Unreadable(words.to_owned()));
    if cursor.head.closed {
        return wrong("it comes after the row that closed its segment");
    }
    let (mut row, hash) = AuditRow::next(line, cursor.head.seq, &cursor.head.hash)?;
    let opens = cursor.body_start == 0;
    if opens != (row.kind == RowKind::State) || (opens && row.segment != cursor.segment) {
        return wrong("it does not belong at this position of its segment");
    }
    state.apply(&mut row, &hash)?;
    cursor.head = Head { seq: row.seq, hash, closed: row.kind == RowKind::Checkpoint };
    cursor.offset += u64::try_from(line.len() + 1).unwrap_or(0);
    if cursor.body_start == 0 {
        cursor.body_start = cursor.offset;
    }
    Ok(())
}

/// Reads what others appended. Called under the lock.
pub(crate) fn catch_up(
    paths: &LogPaths,
    tail: &mut Tail,
    state: &mut LedgerState,
) -> Result<Option<TruncatedTail>, LedgerError> {
    let mut truncated = None;
    loop {
        match tail.check()? {
            TailCheck::Grown(size) => truncated = read_new(paths, tail, state, size)?,
            TailCheck::Same
                if tail.cursor.head.closed && paths.segment(tail.cursor.segment + 1).exists() =>
            {
                let mut next = Tail::open(paths, tail.cursor.segment + 1)?;
                next.cursor = Cursor::before(next.cursor.segment, tail.cursor.head);
                *tail = next;
            }
            TailCheck::Same => return Ok(truncated),
        }
    }
}

fn read_new(
    paths: &LogPaths,
    tail: &mut Tail,
    state: &mut LedgerState,
    size: u64,
) -> Result<Option<TruncatedTail>, LedgerError> {
    let mut chunk_bytes = CHUNK_BYTES;
    while tail.cursor.offset < size {
        let length = (size - tail.cursor.offset).min(chunk_bytes);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = tail.file.read_exact_at(&mut bytes, tail.cursor.offset);
        read.map_err(LedgerError::io("read", &tail.path))?;
        let before = tail.cursor.offset;
        match fold(&bytes, &mut tail.cursor, state, |_| {}) {
            Stop::End => {}
            Stop::Torn if before + length < size => {
                // A row longer than the chunk: read a larger one.
                chunk_bytes =
                    if tail.cursor.offset == before { chunk_bytes * 2 } else { CHUNK_BYTES };
            }
            Stop::Torn => return torn_end(paths, tail, &bytes, before).map(Some),
            Stop::Bad(_) => {
                return Err(LedgerError::SqliteCopy {
                    path: tail.path.clone(),
                    offset: tail.cursor.offset,
                });
            }
        }
    }
    Ok(None)
}

/// The writer of this is dead, because we hold the lock: the row was never acknowledged.
fn torn_end(
    paths: &LogPaths,
    tail: &mut Tail,
    bytes: &[u8],
    before: u64,
) -> Result<TruncatedTail, LedgerError> {
    let start = usize::try_from(tail.cursor.offset - before).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    if !chain::is_beginning_of_a_line(rest) {
        return Err(LedgerError::SqliteCopy {
            path: tail.path.clone(),
            offset: tail.cursor.offset,
        });
    }
    truncate_tail(paths, tail, rest)
}

/// Saves the bytes in a separate file, then truncates them.
fn truncate_tail(paths: &LogPaths, tail: &Tail, rest: &[u8]) -> Result<TruncatedTail, LedgerError> {
    let kept = paths.torn(tail.cursor.segment, tail.cursor.offset);
    let written = paths::create_replacing(&kept).and_then(|mut file| {
        file.write_all(rest)?;
        file.sync_all()
    });
    written.map_err(LedgerError::io("write", &kept))?;
    let truncated = tail.file.set_len(tail.cursor.offset).and_then(|()| tail.file.sync_data());
    truncated.map_err(LedgerError::io("truncate", &tail.path))?;
    let name = name_of(&kept);
    tracing::warn!("truncated {} broken bytes of the audit log; kept in `{name}`", rest.len());
    Ok(TruncatedTail { bytes: u64::try_from(rest.len()).unwrap_or(0), kept_in: name })
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn describe(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "its last rows are missing",
        Stop::Torn => "its last row is incomplete",
        Stop::Bad(BadLine::NotALine) => "a line is not an audit row",
        Stop::Bad(BadLine::WrongHash) => "a row does not follow the row before",
        Stop::Bad(BadLine::Unreadable(_)) => "a row has invalid content",
    }
}
