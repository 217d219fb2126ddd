//! Acts of the owner that are not in the audit log yet. An act is stored in the transaction of its
//! change and removed when its row is in the log, so that a kill between the two loses nothing.

use std::path::Path;
use std::sync::PoisonError;

use rusqlite::{Connection, OpenFlags, Transaction};

use super::token::push_random;
use super::{Registry, RegistryError, shared, values};
use crate::ledger::{Ledger, LedgerError, Note, timestamp};
use crate::postgres::Address;

/// Identifies one act, in this home and in copies of it.
const MARK_CHARS: usize = 16;
/// A command that has not reported the result of an outside change for so long has ended.
const BEGUN_US_MAX: i64 = 60 * 1_000_000;
/// The number of pending acts that are held in memory at a time.
const TAKEN_AT_ONCE_MAX: u32 = 1_000;

/// Why an act is not in the log yet. It stays in `gate.db` until it is.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl From<rusqlite::Error> for RecordError {
    fn from(error: rusqlite::Error) -> RecordError {
        RecordError::Registry(error.into())
    }
}

/// A change outside `gate.db`, whose act is stored before it.
#[must_use = "an act is done, or nothing was changed"]
pub struct StartedAct {
    mark: String,
    act: String,
    about: String,
}

/// An act that waits for its row.
struct PendingAct {
    number: i64,
    mark: String,
    act: String,
    by: String,
    about: String,
    words: String,
    done_at_us: i64,
    is_begun: bool,
}

impl Registry {
    /// To be called before something outside is changed. If the result is never reported, its row
    /// says that it was started.
    pub fn begin_act(
        &self,
        act: &str,
        about: &str,
        now_us: i64,
    ) -> Result<StartedAct, RegistryError> {
        let mut mark = String::new();
        push_random(&mut mark, MARK_CHARS, &self.random)?;
        self.write_quietly(|db| {
            db.execute(
                "INSERT INTO unrecorded (mark, act, by_whom, about, words, done_at_us, is_begun)
                 VALUES (?1, ?2, ?3, ?4, '', ?5, 1)",
                (&mark, act, &self.actor, about, now_us),
            )?;
            Ok(())
        })?;
        Ok(StartedAct { mark, act: act.to_owned(), about: about.to_owned() })
    }

    /// The started change has happened.
    pub fn finish_act(
        &self,
        begun: &StartedAct,
        words: &str,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            let done = "UPDATE unrecorded SET is_begun = 0, words = ?2 WHERE mark = ?1";
            if db.execute(done, (&begun.mark, words))? == 1 {
                self.is_fresh(begun.mark.clone());
                return Ok(());
            }
            // It was already recorded as started.
            let StartedAct { act, about, .. } = begun;
            self.store_act(db, &Note { act, by: &self.actor, about, words }, now_us)
        })
    }

    /// The started change has not happened.
    pub fn cancel_act(&self, begun: &StartedAct) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            db.execute("DELETE FROM unrecorded WHERE mark = ?1", [&begun.mark])?;
            Ok(())
        })
    }

    fn is_fresh(&self, mark: String) {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).insert(mark);
    }

    /// Stores an act in the transaction that carries it out.
    pub(super) fn store_act(
        &self,
        db: &Transaction<'_>,
        note: &Note<'_>,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let mut mark = String::new();
        push_random(&mut mark, MARK_CHARS, &self.random)?;
        db.execute(
            "INSERT INTO unrecorded (mark, act, by_whom, about, words, done_at_us)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (&mark, note.act, note.by, note.about, note.words, now_us),
        )?;
        self.is_fresh(mark);
        Ok(())
    }

    /// Writes the rows of all pending acts. One that a killed command left is recorded once, with
    /// the time of the change. Returns the number of rows written.
    pub fn record_acts(&self, ledger: &Ledger, now_us: i64) -> Result<usize, RecordError> {
        if self.read(|db| waiting(db, now_us))?.is_empty() {
            return Ok(0);
        }
        // The recorder holds the write lock, so no two record the same act.
        self.transact(|db| {
            let mut written = 0;
            let mut acts = waiting(db, now_us)?;
            while !acts.is_empty() {
                for act in &acts {
                    written += usize::from(self.record(act, db, ledger)?);
                    db.execute("DELETE FROM unrecorded WHERE number = ?1", [act.number])?;
                }
                acts = waiting(db, now_us)?;
            }
            // Also flushes: the row is on disk before the act is deleted here.
            values::put_log(db, &ledger.checkpoint()?, now_us)?;
            Ok(written)
        })
    }

    /// A process that died between the row and its next step has left an act that is already in the
    /// log.
    fn record(
        &self,
        act: &PendingAct,
        db: &Connection,
        ledger: &Ledger,
    ) -> Result<bool, RecordError> {
        let is_fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner).remove(&act.mark);
        if is_fresh {
            ledger.note_change(&act.note(&act.words), &act.mark)?;
            return Ok(true);
        }
        if ledger.has_change(&act.mark, values::log(db)?.as_ref())? {
            return Ok(false);
        }
        let at = timestamp::text(act.done_at_us);
        let late = if act.is_begun {
            format!("started at {at} by a command that ended before it reported the result")
        } else {
            format!("done at {at} by a command that ended before it was recorded")
        };
        let words = match &*act.words {
            "" => late,
            words => format!("{words}; {late}"),
        };
        ledger.note_change(&act.note(&words), &act.mark)?;
        Ok(true)
    }
}

impl PendingAct {
    fn note<'a>(&'a self, words: &'a str) -> Note<'a> {
        Note { act: &self.act, by: &self.by, about: &self.about, words }
    }
}

/// Oldest first.
fn waiting(db: &Connection, now_us: i64) -> Result<Vec<PendingAct>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT number, mark, act, by_whom, about, words, done_at_us, is_begun
         FROM unrecorded WHERE is_begun = 0 OR done_at_us NOT BETWEEN ?1 AND ?2
         ORDER BY number LIMIT ?3",
    )?;
    // One that was started a moment ago is in progress; a changed clock makes none of them wait
    // longer.
    let under_way = (now_us.saturating_sub(BEGUN_US_MAX), now_us.saturating_add(BEGUN_US_MAX));
    let rows = select.query_map((under_way.0, under_way.1, TAKEN_AT_ONCE_MAX), |row| {
        Ok(PendingAct {
            number: row.get(0)?,
            mark: row.get(1)?,
            act: row.get(2)?,
            by: row.get(3)?,
            about: row.get(4)?,
            words: row.get(5)?,
            done_at_us: row.get(6)?,
            is_begun: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether a `gate.db` has acts that are not in the log, readable without the key.
pub fn has_unrecorded_acts(gate_db: &Path) -> bool {
    let Ok(db) = Connection::open_with_flags(gate_db, OpenFlags::SQLITE_OPEN_READ_ONLY) else {
        return false;
    };
    let select = "SELECT EXISTS (SELECT 1 FROM unrecorded)";
    db.query_row(select, [], |row| row.get(0)).unwrap_or(false)
}

/// The same for a registry that replicas share, read from the store alone.
pub fn has_unrecorded_acts_on(store: &Address) -> bool {
    shared::images_of(store, "unrecorded").is_ok_and(|images| !images.is_empty())
}
