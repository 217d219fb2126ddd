//! The in-memory state of the journal and the operations that keep it current: catching up with
//! other processes, keeping ledger time, closing segments, ending calls.

use std::collections::HashSet;
use std::sync::Arc;

use super::Options;
use super::chain;
use super::error::LedgerError;
use super::facts::{Ending, Note, Outcome};
use super::group_commit::GroupCommit;
use super::journal::{FileLog, Head, Journal, LogStorage, make_segment};
use super::load::{self, LastRow, Loaded, Repair, TruncatedTail};
use super::lock::FileLock;
use super::paths::LogPaths;
use super::pending_outcome::PendingOutcome;
use super::row_writer::{self, End, RowHeader};
use super::snapshot::StateSnapshot;
use super::source::LogSource;
use super::state::LedgerState;
use super::sync_mark::Position;
use super::time;
use super::writers::{self, WriterLock};
use crate::clock::{Clock, Now};
use replica::Writer;

mod replica;
mod turn;

pub(crate) struct Core {
    pub(crate) journal: Journal,
    pub(crate) state: LedgerState,
    clock: Clock,
    boot: String,
    writer: Option<Writer>,
    /// On Postgres: all writers of this process, each with the epoch in which it was announced.
    own_writers: Vec<(u32, Arc<str>)>,
    /// Outcomes without a row yet; they are written before anything else.
    pending: Vec<PendingOutcome>,
    /// On Postgres: outcomes whose rows are not sent yet.
    unsent_outcomes: Vec<PendingOutcome>,
    /// On Postgres: calls whose rows may or may not have been written.
    unconfirmed: Vec<u64>,
    /// Broken tails that were truncated and have no rows of their own yet.
    truncated: Vec<TruncatedTail>,
    /// Disk and memory may differ: the disk is read again before the next use.
    pub(crate) needs_reload: bool,
    /// Rows in the batch that are not in the file yet.
    pub(crate) group: Option<GroupCommit>,
    /// Buffer for writing counter keys.
    pub(crate) key_text: String,
}

impl Core {
    /// Reads or creates the journal. Called with the lock held.
    pub(crate) fn open(
        source: &LogSource,
        clock: &Clock,
        options: &Options,
    ) -> Result<Core, LedgerError> {
        match source {
            LogSource::Files(paths) => {
                let mut lock = FileLock::open(paths.folder())?;
                lock.acquire()?;
                Core::open_files(paths, clock, options, lock)
            }
            LogSource::Postgres(table) => Core::open_postgres(table, clock, options),
        }
    }

    fn open_files(
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
        let boot = boot.unwrap_or_else(|| format!("unnamed-{}", tail.cursor.head.seq));
        let log = LogStorage::Files(FileLog { paths: paths.clone(), lock, tail });
        Ok(Core { truncated, ..Core::new(log, state, clock, boot) })
    }

    fn new(log: LogStorage, state: LedgerState, clock: &Clock, boot: String) -> Core {
        Core {
            journal: Journal::new(log),
            state,
            clock: clock.clone(),
            boot,
            writer: None,
            own_writers: Vec::new(),
            pending: Vec::new(),
            unsent_outcomes: Vec::new(),
            unconfirmed: Vec::new(),
            truncated: Vec::new(),
            needs_reload: false,
            group: None,
            key_text: String::new(),
        }
    }

    /// Reads what other processes wrote.
    pub(crate) fn catch_up(&mut self) -> Result<(), LedgerError> {
        if self.needs_reload {
            return self.read_again();
        }
        let caught_up = match &mut self.journal.log {
            LogStorage::Files(log) => load::catch_up(&log.paths, &mut log.tail, &mut self.state)
                .map(|tail| {
                    self.truncated.extend(tail);
                    true
                }),
            LogStorage::Postgres(log) => log.catch_up(&mut self.state),
        };
        // The files may have been restored, or retired by another process while we slept; a server
        // that restarted may have lost rows.
        match caught_up {
            Ok(true) => {
                self.journal.begin();
                Ok(())
            }
            Ok(false) => {
                self.needs_reload = true;
                self.read_again()
            }
            Err(e) => {
                self.needs_reload = true;
                self.read_again().map_err(|_| e)
            }
        }
    }

    /// From the log, which must still contain what we know.
    fn read_again(&mut self) -> Result<(), LedgerError> {
        match &self.journal.log {
            LogStorage::Files(_) => self.read_files_again()?,
            LogStorage::Postgres(_) => self.read_table_again()?,
        }
        self.journal.begin();
        self.needs_reload = false;
        Ok(())
    }

    /// From the files, which must still contain the last row we know.
    fn read_files_again(&mut self) -> Result<(), LedgerError> {
        self.follow_folder()?;
        let LogStorage::Files(log) = &mut self.journal.log else { return Ok(()) };
        let cursor = log.tail.cursor;
        let Head { seq, hash, .. } = cursor.head;
        let known = LastRow { segment: cursor.segment, file: log.tail.id, seq, hash };
        let loaded = load::load(&log.paths, Some(known), Repair::Torn)?;
        let Some(Loaded { tail, state, truncated }) = loaded else {
            return Err(LedgerError::Gone(log.tail.path.clone()));
        };
        log.tail = tail;
        self.state = state;
        self.truncated.extend(truncated);
        Ok(())
    }

    /// Locks the folder that currently has the name, as other processes do. In a copy, no
    /// process holds our writer's file, so we would be taken for dead: a new writer is announced.
    fn follow_folder(&mut self) -> Result<(), LedgerError> {
        let LogStorage::Files(log) = &mut self.journal.log else { return Ok(()) };
        if log.lock.is_current() {
            return Ok(());
        }
        let mut lock = FileLock::open(log.paths.folder())?;
        lock.acquire()?;
        log.lock = lock;
        self.writer = None;
        Ok(())
    }

    /// Whether the log's folder no longer has its name.
    pub(crate) fn is_moved(&self) -> bool {
        matches!(&self.journal.log, LogStorage::Files(log) if !log.lock.is_current())
    }

    pub(crate) fn header(&self, now: Now, tick: u64) -> RowHeader {
        let writer = self.writer.as_ref().map(|writer| Arc::clone(writer.id()));
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
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|pending| self.is_open(pending.of, pending.at));
        self.pending = pending;
        for pending in &self.pending {
            let header = self.header(now, tick);
            self.journal.row(|out| row_writer::outcome(&header, &pending.end(), out));
        }
    }

    fn pending_outcomes_written(&mut self, tick: u64) {
        let is_sent = matches!(self.journal.log, LogStorage::Files(_));
        for pending in self.pending.drain(..) {
            self.state.ended(pending.of, tick, pending.released, &pending.continues);
            if !is_sent {
                self.unsent_outcomes.push(pending);
            }
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
        self.follow_clock(now)?;
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
            return Ok(Arc::clone(writer.id()));
        }
        self.write_pending_outcomes(now, tick)?;
        self.journal.begin();
        let seq = self.journal.next_seq();
        let writer = match &self.journal.log {
            LogStorage::Files(log) => Writer::File(WriterLock::open(&log.paths, seq)?),
            LogStorage::Postgres(log) => Writer::Leased(log.new_writer(seq)),
        };
        let id = Arc::clone(writer.id());
        let words = format!("process {}", std::process::id());
        let note = Note { act: "writer_opened", about: &id, words: &words, ..Note::default() };
        self.append(now, tick, |header, out| row_writer::note(header, &note, out))?;
        if let LogStorage::Postgres(log) = &mut self.journal.log {
            log.renew(&id, now);
            self.own_writers.push((log.epoch(), Arc::clone(&id)));
        }
        self.writer = Some(writer);
        Ok(id)
    }

    pub(crate) fn close_writer(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let about = Arc::clone(writer.id());
        let note = Note { act: "writer_closed", about: &about, ..Note::default() };
        self.append(now, tick, |header, out| row_writer::note(header, &note, out))?;
        match self.writer.take() {
            Some(Writer::File(lock)) => lock.close(),
            Some(Writer::Leased(_)) => self.renew_writers(now),
            None => {}
        }
        Ok(())
    }

    /// Ends a call, unless another process has closed it.
    pub(crate) fn end(
        &mut self,
        now: Now,
        tick: u64,
        end: &End<'_>,
        at: Position,
    ) -> Result<(), LedgerError> {
        if self.is_open(end.of, at) {
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
        let ours = self.writer.as_ref().map(|writer| Arc::clone(writer.id()));
        let others: HashSet<Arc<str>> = (self.state.open.values())
            .map(|call| Arc::clone(&call.writer))
            .filter(|writer| Some(writer) != ours.as_ref())
            .filter(|writer| self.own_writers.iter().all(|(_, id)| id != writer))
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let dead = match &mut self.journal.log {
            LogStorage::Files(log) => writers::dead(&log.paths, &others)?,
            LogStorage::Postgres(log) => log.dead_writers(&others, &self.clock)?,
        };
        if dead.is_empty() {
            return Ok(());
        }
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
        let cursor = self.journal.cursor();
        let grown = cursor.offset.saturating_sub(cursor.body_start);
        grown > times.saturating_mul(segment_bytes_max.max(cursor.body_start))
    }

    /// Closes the segment and starts the next one with the state. If the machine stops in between,
    /// the next holder of the lock continues from there.
    pub(crate) fn rotate(&mut self, now: Now, tick: u64) -> Result<(), LedgerError> {
        let number = self.journal.cursor().segment;
        if !self.journal.head().closed {
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
    let mut state = LedgerState { ledger: Some(tail.cursor.head.hash), ..LedgerState::default() };
    state.time.observe(tick, now.wall_us);
    Ok(Loaded { tail, state, truncated: Vec::new() })
}
