//! Rows that are known from outside the log: a checkpoint that the owner kept, the row that
//! `gate.db` remembers, the sealed row. A log that was rewritten and re-chained does not contain
//! them.

use serde::Serialize;

use super::verify::Checkpoint;

/// A row that must be in the log, and its source.
#[derive(Clone, Copy, Debug)]
pub enum Witness<'a> {
    /// A checkpoint from the owner.
    Given(&'a Checkpoint),
    /// The row that `gate.db` remembers. It may have been retired long ago.
    Remembered(&'a Checkpoint),
    /// The sealed row. It is among the newest, so it is not retired.
    Sealed(&'a Checkpoint),
}

impl<'a> Witness<'a> {
    pub(crate) fn row(self) -> &'a Checkpoint {
        match self {
            Witness::Given(row) | Witness::Remembered(row) | Witness::Sealed(row) => row,
        }
    }

    /// What a row with another hash says about the log.
    pub(crate) fn rewritten(self) -> &'static str {
        match self {
            Witness::Given(_) => {
                "this is not the row of the checkpoint: the log was rewritten here or before"
            }
            Witness::Remembered(_) => {
                "this is not the row that `gate.db` remembers: the log was rewritten here or before"
            }
            Witness::Sealed(_) => {
                "this is not the row that was sealed: the log was rewritten here or before"
            }
        }
    }

    pub(crate) fn another_ledger(self) -> &'static str {
        match self {
            Witness::Sealed(_) => "this is not the ledger that was sealed",
            _ => "this is not the ledger that the checkpoint is of",
        }
    }
}

/// A note in the log that it was not the expected one when it was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    pub seq: u64,
    pub time: String,
    pub act: String,
    pub words: String,
}

impl Alarm {
    pub(crate) const ACTS: [&'static str; 3] = ["seal_broken", "log_lost", "registry_older"];

    /// A log that did not match its seal or the row in `gate.db` stays doubtful; a checkpoint of a
    /// later row accepts it.
    pub fn is_open(&self, checkpoint: Option<&Checkpoint>) -> bool {
        checkpoint.is_none_or(|row| row.seq < self.seq)
    }
}
