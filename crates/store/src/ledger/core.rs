//! The in-memory state of the journal and the operations that keep it current: catching up with
//! other processes, keeping ledger time, closing segments, ending calls.

use std::collections::HashSet;
use std::sync::Arc;

use super::Options;
use super::chain;
use super::error::LedgerError;
use super::facts::{Ending, Note, Outcome};
use super::group_commit::GroupCommit;
use super::journal::{Head, Journal, make_segment};
use super::load::{self, LastRow, Loaded, Repair, TruncatedTail};
use super::lock::FileLock;
use super::paths::LogPaths;
use super::row_writer::{self, End, RowHeader};
use super::snapshot::StateSnapshot;
use super::state::LedgerState;
use super::time;
use super::writers::{self, WriterLock};
use crate::clock::{Clock, Now};
use policy::Code;

pub(crate) struct Core {
    pub(crate) journal: Journal,
    pub(crate) state: LedgerState,
    pub(crate) lock: FileLock,
    boot: String,
    writer: Option<WriterLock>,
    /// Outcomes without a row yet; they are written before anything else.
    pending: Vec<PendingOutcome>,
    /// Broken tails that were truncated and have no rows of their own yet.
    truncated: Vec<TruncatedTail>,
    /// Disk and memory may differ: the disk is read again before the next use.
    pub(crate) needs_reload: bool,
    /// Rows in the batch that are not in the file yet.
    pub(crate) group: Option<GroupCommit>,
    /// Buffer for writing counter keys.
    pub(crate) key_text: String,
}

/// An outcome that still has to be written.
pub(crate) struct PendingOutcome {
    pub(crate) of: u64,
    pub(crate) ending: Ending,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<Code>,
    pub(crate) released: bool,
    pub(crate) latency_us: Option<u64>,
    pub(crate) result_bytes: Option<u64>,
    pub(crate) words: &'static str,
}

impl PendingOutcome {
    pub(crate) fn of(end: &End<'_>, words: &'static str) -> PendingOutcome {
        PendingOutcome {
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
    /// Reads or creates the journal. Called with the lock held.
    pub(crate) fn open(
        paths: &LogPaths,
        clock: &Clock,
        options: &Options,
        lock: FileLock,
    ) -> Result<Core, LedgerError> {
        let loaded = load::load(paths, None, Repair::Unflushed)?;
        let Loaded { tail, mut state, truncated } = match loaded {
            Some(loaded) => loaded,
            None => begin(paths, clock.now())?,
        };
        if let Some((tick, wall_us)) = time::stored(paths) {
            state.time.restore_stored(tick, wall_us);
        }
        writers::remove_dead(paths);
        let boot = options.boot_id.clone().or_else(|| clock.boot_id());
        // A system without boot ids: every opening counts as a boot.
        let boot = boot.unwrap_or_else(|| format!("unnamed-{}", tail.head.seq));
        Ok(Core {
            journal: Journal::new(paths.clone(), tail),
            state,
            lock,
            boot,
            writer: None,
            pending: Vec::new(),
            truncated,
            needs_reload: false,
            group: None,
            key_text: String::new(),
        })
    }

    /// Reads what other processes wrote.
    pub(crate) fn catch_up(&mut self) -> Result<(), LedgerError> {
        if self.needs_reload {
            return self.read_again();
        }
        match load::catch_up(&self.journal.paths, &mut self.journal.tail, &mut self.state) {
            Ok(tail) => {
                self.truncated.extend(tail);
                Ok(())
            }
            Err(e) => {
                // It may have been restored, or retired by another process while we slept.
                self.needs_reload = true;
                self.read_again().map_err(|_| e)
            }
        }
    }

    /// From the files, which must still contain the last row we know.
    fn read_again(&mut self) -> Result<(), LedgerError> {
        self.follow_folder()?;
        let tail = &self.journal.tail;
        let Head { seq, hash, .. } = tail.head;
        let known = LastRow { segment: tail.segment, file: tail.id, seq, hash };
        let loaded = load::load(&self.journal.paths, Some(known), Repair::Torn)?;
        let Some(Loaded { tail, state, truncated }) = loaded else {
            return Err(LedgerError::Gone(self.journal.tail.path.clone()));
        };
        self.journal.tail = tail;
        self.journal.begin();
        self.state = state;
        self.truncated.extend(truncated);
        self.needs_reload = false;
        Ok(())
    }

    /// Locks the folder that currently has the name, as other processes do. In a copy, no
    /// process holds our writer's file, so we would be taken for dead: a new writer is announced.
    fn follow_folder(&mut self) -> Result<(), LedgerError> {
        if self.lock.is_current() {
            return Ok(());
        }
        let mut lock = FileLock::open(self.journal.paths.folder())?;
        lock.acquire()?;
        self.lock = lock;
        self.writer = None;
        Ok(())
    }

    pub(crate) fn header(&self, now: Now, tick: u64) -> RowHeader {
        let writer = self.writer.as_ref().map(|writer| Arc::clone(&writer.id));
        RowHeader { seq: self.journal.next_seq(), now, tick, writer }
    }

    /// Writes one row, together with pending outcomes; if a group commit is open, into that.
    pub(crate) fn append(
        &mut self,
        now: Now,
        tick: u64,
        write: impl FnOnce(&RowHeader, &mut Vec<u8>),
    ) -> Result<u64, LedgerError> {
        let grouping = self.group.is_some();
        if !grouping {
            self.journal.begin();
            self.append_pending_outcomes(now, tick);
        }
        let header = self.header(now, tick);
        let seq = self.journal.row(|out| write(&header, out));
        if !grouping {
            self.journal.commit()?;
            self.pending_outcomes_written(tick);
        }
        self.state.time.observe(tick, now.wall_us);
        Ok(seq)
    }

    /// Writes the rows of a group commit together with the outcomes that arrived since.
    pub(crate) fn write_group(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        self.append_pending_outcomes(now, tick);
        if let Err(e) = self.journal.commit() {
            // The state already contains its calls, so the disk is read again.
            self.needs_reload = true;
            return Err(e);
        }
        self.state.time.observe(tick, now.wall_us);
        self.pending_outcomes_written(tick);
        Ok(())
    }

    /// A call that another process has closed is skipped.
    fn append_pending_outcomes(&mut self, now: Now, tick: u64) {
        self.pending.retain(|pending| self.state.open.contains_key(&pending.of));
        for pending in &self.pending {
            let header = self.header(now, tick);
            self.journal.row(|out| row_writer::outcome(&header, &pending.end(), out));
        }
    }

    fn pending_outcomes_written(&mut self, tick: u64) {
        for pending in self.pending.drain(..) {
            self.state.ended(pending.of, tick, pending.released, "");
        }
    }

    /// Writes the outcomes that were not written with another row.
    pub(crate) fn write_pending_outcomes(
        &mut self,
        now: Now,
        tick: u64,
    ) -> Result<(), LedgerError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.journal.begin();
        self.append_pending_outcomes(now, tick);
        if !self.pending.is_empty() {
            self.journal.commit()?;
            self.state.time.observe(tick, now.wall_us);
        }
        self.pending_outcomes_written(tick);
        Ok(())
    }

    /// Brings ledger time up to this boot, and records truncated tails.
    pub(crate) fn sync_time(&mut self, now: Now) -> Result<u64, LedgerError> {
        if !self.state.time.is_of_boot(&self.boot) {
            let anchor = self.state.time.first_of_boot(now);
            let boot = self.boot.clone();
            self.append(now, anchor.tick, |header, out| {
                row_writer::clock(header, &boot, anchor.ahead_us, out);
            })?;
            self.state.time.anchor(&boot, anchor);
        }
        let tick = self.state.time.at(now);
        while let Some(tail) = self.truncated.last().cloned() {
            self.append(now, tick, |header, out| row_writer::truncated(header, &tail, out))?;
            self.truncated.pop();
        }
        Ok(tick)
    }

    /// The writer of this process, announced by a row when first needed.
    pub(crate) fn writer(&mut self, now: Now, tick: u64) -> Result<Arc<str>, LedgerError> {
        if let Some(writer) = &self.writer {
            return Ok(Arc::clone(&writer.id));
        }
        self.write_pending_outcomes(now, tick)?;
        self.journal.begin();
        let writer = WriterLock::open(&self.journal.paths, self.journal.next_seq())?;
        let words = format!("process {}", std::process::id());
        let note =
            Note { act: "writer_opened", about: &writer.id, words: &words, ..Note::default() };
        self.append(now, tick, |header, out| row_writer::note(header, &note, out))?;
        let id = Arc::clone(&writer.id);
        self.writer = Some(writer);
        Ok(id)
    }

    pub(crate) fn close_writer(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let about = Arc::clone(&writer.id);
        let note = Note { act: "writer_closed", about: &about, ..Note::default() };
        self.append(now, tick, |header, out| row_writer::note(header, &note, out))?;
        if let Some(writer) = self.writer.take() {
            writer.close();
        }
        Ok(())
    }

    /// Ends a call, unless another process has closed it.
    pub(crate) fn end(&mut self, now: Now, tick: u64, end: &End<'_>) -> Result<(), LedgerError> {
        if self.state.open.contains_key(&end.of) {
            self.append(now, tick, |header, out| row_writer::outcome(header, end, out))?;
            self.state.ended(end.of, tick, end.released, end.continues);
        }
        Ok(())
    }

    pub(crate) fn queue_outcomes(&mut self, pending: impl IntoIterator<Item = PendingOutcome>) {
        self.pending.extend(pending);
    }

    /// Closes the open calls of dead processes as unknown.
    pub(crate) fn close_calls_of_dead_writers(
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
        let dead = writers::dead(&self.journal.paths, &others)?;
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
            let header = self.header(now, tick);
            let end = End {
                of: *of,
                outcome: Outcome::new(Ending::Unknown),
                released: false,
                words: "its process ended before the call did",
                continues: "",
            };
            self.journal.row(|out| row_writer::outcome(&header, &end, out));
        }
        self.journal.commit()?;
        self.state.time.observe(tick, now.wall_us);
        for of in calls {
            self.state.ended(*of, tick, false, "");
        }
        Ok(())
    }

    /// Whether the segment is large enough to be closed. After a long state row the bound is
    /// relative to it.
    pub(crate) fn is_full(&self, segment_bytes_max: u64, times: u64) -> bool {
        let tail = &self.journal.tail;
        let grown = tail.offset.saturating_sub(tail.body_start);
        grown > times.saturating_mul(segment_bytes_max.max(tail.body_start))
    }

    /// Closes the segment and starts the next one with the state. If the machine stops in between,
    /// the next holder of the lock continues from there.
    pub(crate) fn rotate(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        let number = self.journal.tail.segment;
        if !self.journal.tail.head.closed {
            self.journal.begin();
            let header = self.header(now, tick);
            self.journal.close_segment(|out| row_writer::checkpoint(&header, number, out))?;
        }
        self.state.time.observe(tick, now.wall_us);
        self.state.forget_expired(tick);
        self.journal.begin();
        let header = self.header(now, tick);
        let previous = self.journal.last_hash();
        let snapshot = StateSnapshot::of(&self.state);
        self.journal.open_segment(number + 1, |out| {
            row_writer::state(&header, number + 1, chain::as_text(&previous), Some(&snapshot), out);
        })
    }
}

/// The first segment of a new ledger.
fn begin(paths: &LogPaths, now: Now) -> Result<Loaded, LedgerError> {
    let tick = u64::try_from(now.wall_us).unwrap_or(0);
    let header = RowHeader { seq: 1, now, tick, writer: None };
    let genesis = chain::as_text(&chain::GENESIS);
    let tail = make_segment(paths, 1, Head::GENESIS, |out| {
        row_writer::state(&header, 1, genesis, None, out);
    })?;
    let mut state = LedgerState { ledger: Some(tail.head.hash), ..LedgerState::default() };
    state.time.observe(tick, now.wall_us);
    Ok(Loaded { tail, state, truncated: Vec::new() })
}
