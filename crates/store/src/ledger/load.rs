//! Reads the journal into a state: the newest segment when a ledger is opened, and what others have
//! appended before every turn.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::chain::{self, Hash, Line};
use super::error::LedgerError;
use super::journal::{Head, Look, Tail};
use super::mark::{Mark, Position};
use super::places::{self, Places};
use super::row::{BadLine, Kind, Row};
use super::state::State;

/// What others appended is read in pieces of this size, or of one row if that is longer.
const PIECE_BYTES: u64 = 1 << 20;

/// A row that must still be there when the journal is read again from its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) segment: u32,
    /// Device and inode of that segment.
    pub(crate) file: (u64, u64),
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
}

/// When a broken end may be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mend {
    /// Opening a ledger: whatever was never flushed.
    Unflushed,
    /// Running: only the beginning of a row, which a writer that was killed has left.
    Torn,
}

/// Bytes that were cut off the end of the journal and are kept in a file.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) bytes: u64,
    pub(crate) kept_in: String,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) tail: Tail,
    pub(crate) state: State,
    pub(crate) cuts: Vec<Cut>,
}

#[derive(Debug)]
enum Stop {
    End,
    /// The last bytes are not a whole line.
    Torn,
    Bad(BadLine),
}

/// Reads the journal from the segment that was flushed last, or from the one where `known` was on;
/// nothing if there is no journal.
pub(crate) fn load(
    places: &Places,
    known: Option<Known>,
    mend: Mend,
) -> Result<Option<Loaded>, LedgerError> {
    let segments = places.segments()?;
    let mark = Mark::read(places);
    let Some(last) = segments.last().copied() else {
        return match (known, mark) {
            (None, None) => Ok(None),
            _ => Err(LedgerError::Gone(places.segment(mark.map_or(1, |mark| mark.segment)))),
        };
    };
    if let Some(mark) = mark.filter(|mark| mark.segment > last) {
        return Err(LedgerError::Gone(places.segment(mark.segment)));
    }
    let wanted = known.map(|known| known.segment).or(mark.map(|mark| mark.segment));
    let wanted = wanted.unwrap_or(last.saturating_sub(1));
    let first = if segments.contains(&wanted) { wanted } else { last };
    let mut load = Load {
        places,
        mark,
        mend,
        known,
        met: false,
        last,
        state: State::default(),
        cuts: Vec::new(),
    };
    let Some(tail) = load.segments(first)? else { return Ok(None) };
    load.check_known(&tail)?;
    Ok(Some(Loaded { tail, state: load.state, cuts: load.cuts }))
}

struct Load<'a> {
    places: &'a Places,
    mark: Option<Position>,
    mend: Mend,
    known: Option<Known>,
    met: bool,
    last: u32,
    state: State,
    cuts: Vec<Cut>,
}

impl Load<'_> {
    /// Reads on as far as the chain holds; what comes after is set aside, if it may be.
    fn segments(&mut self, first: u32) -> Result<Option<Tail>, LedgerError> {
        let mut tail: Option<Tail> = None;
        for number in first..=self.last {
            let head = tail.as_ref().map(|tail| tail.head);
            let Some(mut next) = self.open(number)? else {
                return self.broken(tail, number, "it is missing");
            };
            let bytes = fs::read(&next.path).map_err(LedgerError::io("read", &next.path))?;
            let Some(head) = head.or_else(|| before(&bytes)) else {
                return self.broken(tail, number, "its first row is not one");
            };
            next.head = Head { closed: false, ..head };
            let stop = self.fold(&bytes, &mut next);
            if next.body_start == 0 {
                return self.broken(tail, number, "its first row does not follow what was before");
            }
            let more = number < self.last;
            match stop {
                Stop::End if next.head.closed || !more => tail = Some(next),
                stop => return self.broken_in(next, &bytes, &stop),
            }
            self.check_flushed(tail.as_ref())?;
        }
        Ok(tail)
    }

    fn open(&self, number: u32) -> Result<Option<Tail>, LedgerError> {
        match Tail::open(self.places, number) {
            Ok(tail) => Ok(Some(tail)),
            Err(LedgerError::Gone(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn fold(&mut self, bytes: &[u8], tail: &mut Tail) -> Stop {
        let known = self.known;
        let mut met = self.met;
        let stop = fold(bytes, tail, &mut self.state, |head| {
            met |= known.is_some_and(|known| known.seq == head.seq && known.hash == head.hash);
        });
        self.met = met;
        stop
    }

    /// Is everything that was flushed there?
    fn check_flushed(&self, tail: Option<&Tail>) -> Result<(), LedgerError> {
        let Some(tail) = tail else { return Ok(()) };
        match self.mark {
            Some(mark) if mark.segment == tail.segment && tail.offset < mark.offset => {
                Err(self.damaged(tail.segment, tail.offset, "rows that were flushed are missing"))
            }
            _ => Ok(()),
        }
    }

    /// A whole segment does not follow the one before.
    fn broken(
        &mut self,
        tail: Option<Tail>,
        number: u32,
        why: &str,
    ) -> Result<Option<Tail>, LedgerError> {
        let was_flushed = self.mark.is_some_and(|mark| mark.segment >= number);
        // A ledger whose very first rows never reached the disk is no ledger yet.
        let is_all_there_is = tail.is_none() && self.mark.is_none() && number == 1;
        if self.mend == Mend::Torn || was_flushed || (tail.is_none() && !is_all_there_is) {
            return Err(self.damaged(number, 0, why));
        }
        self.set_aside(number)?;
        Ok(tail)
    }

    /// A segment ends in something else than rows, or without the row that closes it.
    fn broken_in(
        &mut self,
        tail: Tail,
        bytes: &[u8],
        stop: &Stop,
    ) -> Result<Option<Tail>, LedgerError> {
        let start = usize::try_from(tail.offset).unwrap_or(usize::MAX);
        let rest = bytes.get(start..).unwrap_or_default();
        let at = tail.position();
        if self.mark.is_some_and(|mark| at < mark) {
            return Err(self.damaged(tail.segment, tail.offset, told(stop)));
        }
        if self.mend == Mend::Torn {
            if tail.segment < self.last {
                return Err(self.damaged(tail.segment, tail.offset, told(stop)));
            }
            let is_torn = matches!(stop, Stop::Torn) && chain::is_beginning_of_a_line(rest);
            if !is_torn {
                return Err(LedgerError::Foreign { path: tail.path.clone(), offset: tail.offset });
            }
            if self.may_be_coming_back(&tail) {
                return Err(self.damaged(tail.segment, tail.offset, told(stop)));
            }
        }
        self.set_aside(tail.segment + 1)?;
        if !rest.is_empty() {
            self.cuts.push(cut(self.places, &tail, rest)?);
        }
        Ok(Some(tail))
    }

    /// Whether this may be a copy that somebody is still writing: it is not the file that we knew, or
    /// our last row is not in it yet. What we cut off would be missing in it for good.
    fn may_be_coming_back(&self, tail: &Tail) -> bool {
        self.known.is_some_and(|known| {
            !self.met || (known.segment == tail.segment && known.file != tail.file_id())
        })
    }

    /// Takes segments out of the journal, from this one on, and keeps them.
    fn set_aside(&mut self, from: u32) -> Result<(), LedgerError> {
        for number in from..=self.last {
            let path = self.places.segment(number);
            let Ok(found) = fs::metadata(&path) else { continue };
            let kept = self.places.torn(number, 0);
            fs::rename(&path, &kept).map_err(LedgerError::io("set aside", &path))?;
            self.cuts.push(Cut { bytes: found.len(), kept_in: name_of(&kept) });
            tracing::warn!("set aside a segment that was never flushed: `{}`", kept.display());
        }
        Ok(())
    }

    fn damaged(&self, number: u32, offset: u64, why: &str) -> LedgerError {
        LedgerError::Damaged { path: self.places.segment(number), offset, why: why.to_owned() }
    }

    /// A journal that no longer holds our last row was rolled back or is another one.
    fn check_known(&self, tail: &Tail) -> Result<(), LedgerError> {
        let Some(known) = self.known else { return Ok(()) };
        let retired = self.state.archived.as_ref().is_some_and(|a| a.last_seq >= known.seq);
        if self.met || retired {
            return Ok(());
        }
        Err(tail.replaced(&format!("row {} is missing or different", known.seq)))
    }
}

/// The head that the first row of a segment says it follows.
fn before(bytes: &[u8]) -> Option<Head> {
    let first = bytes.split(|b| *b == b'\n').next()?;
    let row = Row::read(Line::split(first)?.json).ok()?;
    let hash = chain::parse_hash(&row.previous)?;
    (row.kind == Kind::State).then_some(Head { seq: row.seq.checked_sub(1)?, hash, closed: true })
}

/// Folds whole lines into the state, as far as they are right.
fn fold(bytes: &[u8], tail: &mut Tail, state: &mut State, mut saw: impl FnMut(&Head)) -> Stop {
    let mut rest = bytes;
    loop {
        if rest.is_empty() {
            return Stop::End;
        }
        let Some(end) = rest.iter().position(|b| *b == b'\n') else { return Stop::Torn };
        let (line, after) = rest.split_at(end);
        if let Err(bad) = fold_line(line, tail, state) {
            return Stop::Bad(bad);
        }
        tail.offset += u64::try_from(end + 1).unwrap_or(0);
        if tail.body_start == 0 {
            tail.body_start = tail.offset;
        }
        saw(&tail.head);
        rest = after.get(1..).unwrap_or_default();
    }
}

fn fold_line(line: &[u8], tail: &mut Tail, state: &mut State) -> Result<(), BadLine> {
    let wrong = |words: &str| Err(BadLine::Unreadable(words.to_owned()));
    if tail.head.closed {
        return wrong("it comes after the row that closed its segment");
    }
    let (mut row, hash) = Row::next(line, tail.head.seq, &tail.head.hash)?;
    let opens = tail.body_start == 0;
    if opens != (row.kind == Kind::State) || (opens && row.segment != tail.segment) {
        return wrong("it does not belong at this place of this segment");
    }
    state.apply(&mut row, &hash)?;
    tail.head = Head { seq: row.seq, hash, closed: row.kind == Kind::Checkpoint };
    Ok(())
}

/// Reads what others appended since. Called under the lock.
pub(crate) fn catch_up(
    places: &Places,
    tail: &mut Tail,
    state: &mut State,
) -> Result<Option<Cut>, LedgerError> {
    let mut was_cut = None;
    loop {
        match tail.look()? {
            Look::Grown(size) => was_cut = read_new(places, tail, state, size)?,
            Look::Same if tail.head.closed && places.segment(tail.segment + 1).exists() => {
                let mut next = Tail::open(places, tail.segment + 1)?;
                next.head = Head { closed: false, ..tail.head };
                *tail = next;
            }
            Look::Same => return Ok(was_cut),
        }
    }
}

fn read_new(
    places: &Places,
    tail: &mut Tail,
    state: &mut State,
    size: u64,
) -> Result<Option<Cut>, LedgerError> {
    let mut piece_bytes = PIECE_BYTES;
    while tail.offset < size {
        let length = (size - tail.offset).min(piece_bytes);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = tail.file.read_exact_at(&mut bytes, tail.offset);
        read.map_err(LedgerError::io("read", &tail.path))?;
        let before = tail.offset;
        match fold(&bytes, tail, state, |_| {}) {
            Stop::End => {}
            Stop::Torn if before + length < size => {
                // A row that is longer than the piece: take a larger one.
                piece_bytes = if tail.offset == before { piece_bytes * 2 } else { PIECE_BYTES };
            }
            Stop::Torn => return torn_end(places, tail, &bytes, before).map(Some),
            Stop::Bad(_) => {
                return Err(LedgerError::Foreign { path: tail.path.clone(), offset: tail.offset });
            }
        }
    }
    Ok(None)
}

/// Whoever wrote this is dead, for we hold the lock: the row was never acknowledged.
fn torn_end(
    places: &Places,
    tail: &mut Tail,
    bytes: &[u8],
    before: u64,
) -> Result<Cut, LedgerError> {
    let start = usize::try_from(tail.offset - before).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    if !chain::is_beginning_of_a_line(rest) {
        return Err(LedgerError::Foreign { path: tail.path.clone(), offset: tail.offset });
    }
    cut(places, tail, rest)
}

/// Keeps the bytes in a file of their own, then cuts them off.
fn cut(places: &Places, tail: &Tail, rest: &[u8]) -> Result<Cut, LedgerError> {
    let kept = places.torn(tail.segment, tail.offset);
    let written = places::make_anew(&kept).and_then(|mut file| {
        file.write_all(rest)?;
        file.sync_all()
    });
    written.map_err(LedgerError::io("write", &kept))?;
    let cut = tail.file.set_len(tail.offset).and_then(|()| tail.file.sync_data());
    cut.map_err(LedgerError::io("cut", &tail.path))?;
    let name = name_of(&kept);
    tracing::warn!("cut {} broken bytes off the audit log; kept in `{name}`", rest.len());
    Ok(Cut { bytes: u64::try_from(rest.len()).unwrap_or(0), kept_in: name })
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn told(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "its last rows are missing",
        Stop::Torn => "its last row is cut off",
        Stop::Bad(BadLine::NotALine) => "a row is not one of ours",
        Stop::Bad(BadLine::WrongHash) => "a row does not follow the row before",
        Stop::Bad(BadLine::Unreadable(_)) => "a row says what it cannot say",
    }
}
