//! What is known of the journal in memory, and the acts that keep it right: catching up with other
//! processes, keeping ledger time, closing segments, ending calls.

use std::collections::HashSet;
use std::sync::Arc;

use super::Options;
use super::chain;
use super::draft::Draft;
use super::error::LedgerError;
use super::facts::{Ending, Note, Outcome};
use super::journal::{Head, Journal, make_segment};
use super::load::{self, Cut, Known, Loaded, Mend};
use super::lock::FileLock;
use super::places::Places;
use super::rows::{self, End, Stamp};
use super::snapshot::Snapshot;
use super::state::State;
use super::time;
use super::writers::{self, Writer};
use crate::clock::{Clock, Now};
use policy::Code;

pub(crate) struct Core {
    pub(crate) journal: Journal,
    pub(crate) state: State,
    pub(crate) lock: FileLock,
    boot: String,
    writer: Option<Writer>,
    /// Endings that have no row yet; they go before anything else.
    owed: Vec<Owed>,
    /// Broken ends that were cut off and have no rows of their own yet.
    cuts: Vec<Cut>,
    /// What is on disk may not be what we remember: read it again first.
    pub(crate) suspect: bool,
    /// Rows in the batch that are not in the file yet.
    pub(crate) draft: Option<Draft>,
    /// For writing the keys of counters.
    pub(crate) key_text: String,
}

/// An ending on its way into the log.
pub(crate) struct Owed {
    pub(crate) of: u64,
    pub(crate) ending: Ending,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<Code>,
    pub(crate) released: bool,
    pub(crate) latency_us: Option<u64>,
    pub(crate) result_bytes: Option<u64>,
    pub(crate) words: &'static str,
}

impl Owed {
    pub(crate) fn of(end: &End<'_>, words: &'static str) -> Owed {
        Owed {
            of: end.of,
            ending: end.outcome.ending,
            status: end.outcome.status,
            code: end.outcome.code,
            released: end.released,
            latency_us: end.outcome.latency_us,
            result_bytes: end.outcome.result_bytes,
            words,
        }
    }

    fn end(&self) -> End<'_> {
        let outcome = Outcome {
            ending: self.ending,
            status: self.status,
            code: self.code,
            latency_us: self.latency_us,
            result_bytes: self.result_bytes,
        };
        let (of, released, words) = (self.of, self.released, self.words);
        End { of, outcome, released, words, continues: "" }
    }
}

impl Core {
    /// Reads the journal or begins one. Called with the lock held.
    pub(crate) fn open(
        places: &Places,
        clock: &Clock,
        options: &Options,
        lock: FileLock,
    ) -> Result<Core, LedgerError> {
        let loaded = load::load(places, None, Mend::Unflushed)?;
        let Loaded { tail, mut state, cuts } = match loaded {
            Some(loaded) => loaded,
            None => begin(places, clock.now())?,
        };
        if let Some((tick, wall_us)) = time::kept(places) {
            state.time.was_kept(tick, wall_us);
        }
        writers::tidy(places);
        let boot = options.boot_id.clone().or_else(|| clock.boot_id());
        // A system that does not name its boots: every opening counts as one.
        let boot = boot.unwrap_or_else(|| format!("unnamed-{}", tail.head.seq));
        Ok(Core {
            journal: Journal::new(places.clone(), tail),
            state,
            lock,
            boot,
            writer: None,
            owed: Vec::new(),
            cuts,
            suspect: false,
            draft: None,
            key_text: String::new(),
        })
    }

    /// Learns what other processes wrote.
    pub(crate) fn catch_up(&mut self) -> Result<(), LedgerError> {
        if self.suspect {
            return self.read_again();
        }
        match load::catch_up(&self.journal.places, &mut self.journal.tail, &mut self.state) {
            Ok(cut) => {
                self.cuts.extend(cut);
                Ok(())
            }
            Err(e) => {
                // It may have been put back, or retired by another process while we slept.
                self.suspect = true;
                self.read_again().map_err(|_| e)
            }
        }
    }

    /// From the files, which must still hold the last row we know.
    fn read_again(&mut self) -> Result<(), LedgerError> {
        self.follow_folder()?;
        let tail = &self.journal.tail;
        let Head { seq, hash, .. } = tail.head;
        let known = Known { segment: tail.segment, file: tail.file_id(), seq, hash };
        let loaded = load::load(&self.journal.places, Some(known), Mend::Torn)?;
        let Some(Loaded { tail, state, cuts }) = loaded else {
            return Err(LedgerError::Gone(self.journal.tail.path.clone()));
        };
        self.journal.tail = tail;
        self.journal.begin();
        self.state = state;
        self.cuts.extend(cuts);
        self.suspect = false;
        Ok(())
    }

    /// Locks the folder that has the name now, because the others do. In a copy nobody holds the file
    /// of our writer, so that we would be taken for dead: another is announced.
    fn follow_folder(&mut self) -> Result<(), LedgerError> {
        if self.lock.is_current() {
            return Ok(());
        }
        let mut lock = FileLock::open(self.journal.places.folder())?;
        lock.acquire()?;
        self.lock = lock;
        self.writer = None;
        Ok(())
    }

    pub(crate) fn stamp(&self, now: Now, tick: u64) -> Stamp {
        let writer = self.writer.as_ref().map(|writer| Arc::clone(&writer.id));
        Stamp { seq: self.journal.next_seq(), now, tick, writer }
    }

    /// Writes one row, and with the same write the endings that came before it; where there is a
    /// draft, into that.
    pub(crate) fn append(
        &mut self,
        now: Now,
        tick: u64,
        write: impl FnOnce(&Stamp, &mut Vec<u8>),
    ) -> Result<u64, LedgerError> {
        let drafting = self.draft.is_some();
        if !drafting {
            self.journal.begin();
            self.add_owed(now, tick);
        }
        let stamp = self.stamp(now, tick);
        let seq = self.journal.row(|out| write(&stamp, out));
        if !drafting {
            self.journal.commit()?;
            self.owed_is_written(tick);
        }
        self.state.time.saw(tick, now.wall_us);
        Ok(seq)
    }

    /// Writes the rows of a draft, and with the same write the endings that came meanwhile.
    pub(crate) fn commit_draft(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        self.add_owed(now, tick);
        if let Err(e) = self.journal.commit() {
            // Of the calls in it the state knows already: what is on disk is the truth.
            self.suspect = true;
            return Err(e);
        }
        self.state.time.saw(tick, now.wall_us);
        self.owed_is_written(tick);
        Ok(())
    }

    /// A call that others have closed meanwhile is left as it is.
    fn add_owed(&mut self, now: Now, tick: u64) {
        self.owed.retain(|owed| self.state.open.contains_key(&owed.of));
        for owed in &self.owed {
            let stamp = self.stamp(now, tick);
            self.journal.row(|out| rows::outcome(&stamp, &owed.end(), out));
        }
    }

    fn owed_is_written(&mut self, tick: u64) {
        for owed in self.owed.drain(..) {
            self.state.ended(owed.of, tick, owed.released, "");
        }
    }

    /// Writes the endings that no other row took along.
    pub(crate) fn write_owed(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        if self.owed.is_empty() {
            return Ok(());
        }
        self.journal.begin();
        self.add_owed(now, tick);
        if !self.owed.is_empty() {
            self.journal.commit()?;
            self.state.time.saw(tick, now.wall_us);
        }
        self.owed_is_written(tick);
        Ok(())
    }

    /// Brings ledger time up to this boot, and tells of a broken end that was cut off.
    pub(crate) fn keep_time(&mut self, now: Now) -> Result<u64, LedgerError> {
        if !self.state.time.is_of_boot(&self.boot) {
            let anchor = self.state.time.first_of_boot(now);
            let boot = self.boot.clone();
            self.append(now, anchor.tick, |stamp, out| {
                rows::clock(stamp, &boot, anchor.ahead_us, out);
            })?;
            self.state.time.anchor(&boot, anchor);
        }
        let tick = self.state.time.at(now);
        while let Some(cut) = self.cuts.last().cloned() {
            self.append(now, tick, |stamp, out| rows::cut(stamp, &cut, out))?;
            self.cuts.pop();
        }
        Ok(tick)
    }

    /// The writer of this process, announced by a row when it is first needed.
    pub(crate) fn writer(&mut self, now: Now, tick: u64) -> Result<Arc<str>, LedgerError> {
        if let Some(writer) = &self.writer {
            return Ok(Arc::clone(&writer.id));
        }
        self.write_owed(now, tick)?;
        self.journal.begin();
        let writer = Writer::open(&self.journal.places, self.journal.next_seq())?;
        let words = format!("process {}", std::process::id());
        let note =
            Note { act: "writer_opened", about: &writer.id, words: &words, ..Note::default() };
        self.append(now, tick, |stamp, out| rows::note(stamp, &note, out))?;
        let id = Arc::clone(&writer.id);
        self.writer = Some(writer);
        Ok(id)
    }

    pub(crate) fn close_writer(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let about = Arc::clone(&writer.id);
        let note = Note { act: "writer_closed", about: &about, ..Note::default() };
        self.append(now, tick, |stamp, out| rows::note(stamp, &note, out))?;
        if let Some(writer) = self.writer.take() {
            writer.close();
        }
        Ok(())
    }

    /// Ends a call. One that others have closed meanwhile is left as it is.
    pub(crate) fn end(&mut self, now: Now, tick: u64, end: &End<'_>) -> Result<(), LedgerError> {
        if self.state.open.contains_key(&end.of) {
            self.append(now, tick, |stamp, out| rows::outcome(stamp, end, out))?;
            self.state.ended(end.of, tick, end.released, end.continues);
        }
        Ok(())
    }

    pub(crate) fn owe(&mut self, owed: impl IntoIterator<Item = Owed>) {
        self.owed.extend(owed);
    }

    /// Closes as unknown what processes that are no longer there had open.
    pub(crate) fn close_calls_of_the_dead(
        &mut self,
        now: Now,
        tick: u64,
    ) -> Result<(), LedgerError> {
        let ours = self.writer.as_ref().map(|writer| Arc::clone(&writer.id));
        let others: HashSet<Arc<str>> = (self.state.open.values())
            .map(|call| Arc::clone(&call.writer))
            .filter(|writer| Some(writer) != ours.as_ref())
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let dead = writers::dead(&self.journal.places, &others)?;
        let mut left: Vec<u64> = (self.state.open.iter())
            .filter(|(_, call)| dead.contains(&call.writer))
            .map(|(seq, _)| *seq)
            .collect();
        left.sort_unstable();
        self.end_as_unknown(now, tick, &left)
    }

    fn end_as_unknown(&mut self, now: Now, tick: u64, calls: &[u64]) -> Result<(), LedgerError> {
        self.journal.begin();
        for of in calls {
            let stamp = self.stamp(now, tick);
            let end = End {
                of: *of,
                outcome: Outcome::new(Ending::Unknown),
                released: false,
                words: "its process ended before the call did",
                continues: "",
            };
            self.journal.row(|out| rows::outcome(&stamp, &end, out));
        }
        self.journal.commit()?;
        self.state.time.saw(tick, now.wall_us);
        for of in calls {
            self.state.ended(*of, tick, false, "");
        }
        Ok(())
    }

    /// Has the segment grown enough to be closed? A long state row may be followed by as much again.
    pub(crate) fn is_full(&self, segment_bytes_max: u64, times: u64) -> bool {
        let tail = &self.journal.tail;
        let grown = tail.offset.saturating_sub(tail.body_start);
        grown > times.saturating_mul(segment_bytes_max.max(tail.body_start))
    }

    /// Closes the segment and opens the next one with the state. If the machine stops in between, the
    /// next turn goes on from there.
    pub(crate) fn rotate(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        let number = self.journal.tail.segment;
        if !self.journal.tail.head.closed {
            self.journal.begin();
            let stamp = self.stamp(now, tick);
            self.journal.close_segment(|out| rows::checkpoint(&stamp, number, out))?;
        }
        self.state.time.saw(tick, now.wall_us);
        self.state.forget_expired(tick);
        self.journal.begin();
        let stamp = self.stamp(now, tick);
        let previous = self.journal.last_hash();
        let snapshot = Snapshot::of(&self.state);
        self.journal.open_segment(number + 1, |out| {
            rows::state(&stamp, number + 1, chain::as_text(&previous), Some(&snapshot), out);
        })
    }
}

/// The first segment of a new ledger.
fn begin(places: &Places, now: Now) -> Result<Loaded, LedgerError> {
    let tick = u64::try_from(now.wall_us).unwrap_or(0);
    let stamp = Stamp { seq: 1, now, tick, writer: None };
    let genesis = chain::as_text(&chain::GENESIS);
    let tail = make_segment(places, 1, Head::GENESIS, |out| {
        rows::state(&stamp, 1, genesis, None, out);
    })?;
    let mut state = State { ledger: Some(tail.head.hash), ..State::default() };
    state.time.saw(tick, now.wall_us);
    Ok(Loaded { tail, state, cuts: Vec::new() })
}
