//! Takes the owner's records out: CSV, JSON lines or Parquet, row by row, so memory stays flat
//! however long the history. A file under its final name is complete; agents stay in one folder.

use crate::records::{RecordsError, View};

pub(crate) mod csv;
mod draft;
mod fields;
mod jsonl;
mod order;
mod parquet;
mod place;
mod python;
mod writer;

pub use csv::CsvSafety;
pub use order::{ALL, Done, Order, Plan, Step, Written, day, nearest_kind};
pub use place::Reach;

/// What a service lets out, in the order of its files.
#[derive(Debug)]
pub struct Shelf {
    pub service: &'static str,
    pub kinds: &'static [Kind],
}

/// One kind of record as it is asked for and as its file is named.
#[derive(Debug)]
pub struct Kind {
    /// The word for it in an order, such as `cycles`.
    pub name: &'static str,
    /// The name of its file among all, without the extension.
    pub file: &'static str,
    /// A snapshot has no place in time and comes only with everything.
    pub is_snapshot: bool,
    pub view: &'static View,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Jsonl,
    Parquet,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Csv, Format::Jsonl, Format::Parquet];

    pub fn as_str(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Parquet => "parquet",
        }
    }

    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.as_str() == name)
    }
}

/// How Parquet files are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// What every reader knows.
    #[default]
    Snappy,
    /// Smaller.
    Zstd,
}

/// Why nothing was exported. The codes are part of the documented interface of the tools.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Asked(String),
    #[error("there are no {0} here yet\nhint: sync first")]
    Empty(String),
    #[error("`{0}` holds something already\nhint: ask to overwrite it, or choose another path")]
    Exists(String),
    #[error("{0}")]
    Refused(String),
    /// The path leads out of the folder that an agent may write to.
    #[error("{0}")]
    Outside(String),
    #[error("cannot write `{path}`: {words}")]
    Write { path: String, words: String },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl Fault {
    /// The error code of the tools.
    pub fn code(&self) -> &'static str {
        match self {
            Fault::Asked(_) => "VALIDATION_ERROR",
            Fault::Empty(_) => "CACHE_EMPTY",
            Fault::Exists(_) => "FILE_EXISTS",
            Fault::Refused(_) | Fault::Outside(_) | Fault::Write { .. } => "EXPORT_ERROR",
            Fault::Records(_) => "CACHE_ERROR",
        }
    }
}
