//! The threads behind an opened ledger: one keeps it in order (flushes, closes full segments, closes
//! the calls of dead processes, retires old rows), one serves those who wait for a flush.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::error::LedgerError;
use super::flush::{Beat, Durability};
use super::inner::{Inner, Turn};
use super::mark::Position;
use super::verify::Checkpoint;

/// Half of the second within which a row must be on disk.
const BEAT_MS: u64 = 500;

/// While a call waits for a human, decisions made by other processes are noticed within this time.
const BEAT_MS_WHILE_ASKED: u64 = 150;

/// Looking after dead processes happens every so many beats, and after old rows.
const SWEEP_BEATS: u32 = 2;
const RETIRE_BEATS: u32 = 120;

#[derive(Debug)]
pub(crate) struct Keeper {
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Keeper, LedgerError> {
        let mut keeper = Keeper { threads: Vec::new() };
        keeper.spawn(inner, "ledger-keeper", keep)?;
        if inner.flush.durability() == Durability::Power {
            keeper.spawn(inner, "ledger-flusher", serve_flushes)?;
        }
        Ok(keeper)
    }

    fn spawn(
        &mut self,
        inner: &Arc<Inner>,
        name: &str,
        work: fn(&Inner),
    ) -> Result<(), LedgerError> {
        let inner = Arc::clone(inner);
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(&inner));
        self.threads.push(thread.map_err(LedgerError::io("start", "a thread".as_ref()))?);
        Ok(())
    }

    pub(crate) fn stop(&mut self, inner: &Inner) {
        inner.flush.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to do.
            let _ = thread.join();
        }
        if inner.flush.is_dirty() {
            inner.flush.sync();
        }
    }
}

fn keep(inner: &Inner) {
    let mut beats = 0_u32;
    let mut asked = false;
    let mut trouble = String::new();
    let mut unsealed = Unsealed::default();
    loop {
        let pause = if asked { BEAT_MS_WHILE_ASKED } else { BEAT_MS };
        let done = match inner.flush.next_beat(Duration::from_millis(pause)) {
            Beat::Stop => return,
            Beat::Rotate => rotate(inner),
            Beat::Time => {
                beats = beats.wrapping_add(1);
                flush_if_dirty(inner);
                let sealed = unsealed.seal(inner);
                look_after(inner, beats, &mut asked, &mut unsealed).and(sealed)
            }
        };
        report(done, &mut trouble);
    }
}

fn rotate(inner: &Inner) -> Result<(), LedgerError> {
    inner.turn(|turn| {
        if turn.core.is_full(inner.options.segment_bytes_max, 1) {
            turn.core.rotate(turn.now, turn.tick)?;
        }
        Ok::<_, LedgerError>(())
    })?;
    // A process that opens the ledger reads from the segment that was flushed last.
    inner.flush.sync();
    inner.retire()
}

/// The last row at the last beat. It is sealed when it is on disk, with no flush of its own.
#[derive(Default)]
struct Unsealed {
    row: Option<(Checkpoint, Position)>,
    sealed_seq: u64,
}

impl Unsealed {
    fn see(&mut self, turn: &Turn<'_>) {
        if self.row.is_none() && turn.core.journal.tail.head.seq > self.sealed_seq {
            self.row = Some((turn.head(), turn.position()));
        }
    }

    fn seal(&mut self, inner: &Inner) -> Result<(), LedgerError> {
        let Some((row, at)) = &self.row else { return Ok(()) };
        if inner.seal(row, *at)? {
            self.sealed_seq = row.seq;
            self.row = None;
        }
        Ok(())
    }
}

fn look_after(
    inner: &Inner,
    beats: u32,
    asked: &mut bool,
    unsealed: &mut Unsealed,
) -> Result<(), LedgerError> {
    inner.turn(|turn| {
        if inner.options.seal.is_some() {
            unsealed.see(turn);
        }
        *asked = turn.core.state.approvals.any_pending(turn.tick);
        // The log may lie in another folder by now and be the same files.
        turn.core.suspect |= !turn.core.lock.is_current();
        if beats.is_multiple_of(SWEEP_BEATS) {
            turn.core.close_calls_of_the_dead(turn.now, turn.tick)?;
            turn.core.state.forget_expired(turn.tick);
        }
        Ok::<_, LedgerError>(())
    })?;
    if beats.is_multiple_of(RETIRE_BEATS) {
        inner.keep_time()?;
        inner.retire()?;
    }
    Ok(())
}

fn flush_if_dirty(inner: &Inner) {
    let wanted = inner.flush.durability() != Durability::Unflushed || inner.flush.has_failed();
    if wanted && inner.flush.is_dirty() {
        inner.flush.sync();
    }
}

fn serve_flushes(inner: &Inner) {
    while inner.flush.next_wish() {
        if inner.flush.is_dirty() {
            inner.flush.sync();
        }
    }
}

/// Says what is wrong once, not twice a second.
fn report(done: Result<(), LedgerError>, trouble: &mut String) {
    let words = done.err().map(|e| e.to_string()).unwrap_or_default();
    if words != *trouble && !words.is_empty() {
        tracing::warn!("the ledger cannot be kept in order: {words}");
    }
    *trouble = words;
}
