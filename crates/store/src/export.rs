//! Exports the owner's records as CSV, JSON lines or Parquet, row by row, so that memory use does
//! not depend on the length of the history. A file under its final name is complete; agents can
//! only write to one folder.

use crate::records::{RecordsError, View};

pub(crate) mod csv;
mod job;
mod jsonl;
mod members;
mod parquet;
mod path;
mod python;
mod temp_file;
mod writer;

pub use csv::CsvSafety;
pub use job::{
    ALL, ExportJob, ExportOptions, ExportResult, ExportStep, WrittenFile, day, nearest_kind,
};
pub use path::PathScope;

/// What a service exports, in the order of its files.
#[derive(Debug)]
pub struct ServiceExports {
    pub service: &'static str,
    pub kinds: &'static [ExportKind],
}

/// One kind of record, with its name in requests and in file names.
#[derive(Debug)]
pub struct ExportKind {
    /// Its name in a request, such as `cycles`.
    pub name: &'static str,
    /// Its file name in a full export, without the extension.
    pub file: &'static str,
    /// A snapshot has no time and is only part of a full export.
    pub is_snapshot: bool,
    pub view: &'static View,
}

impl ExportKind {
    /// A list whose file has its name.
    pub const fn list(name: &'static str, view: &'static View) -> ExportKind {
        ExportKind { name, file: name, is_snapshot: false, view }
    }
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

/// Compression of Parquet files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Supported by every reader.
    #[default]
    Snappy,
    /// Smaller.
    Zstd,
}

/// Why an export failed. The codes are part of the documented interface of the tools.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("{0}")]
    Invalid(String),
    #[error("there are no {0} here yet\nhint: sync first")]
    Empty(String),
    #[error("`{0}` already exists\nhint: allow overwriting, or choose another path")]
    Exists(String),
    #[error("{0}")]
    Refused(String),
    /// The path is outside the folder that an agent may write to.
    #[error("{0}")]
    Outside(String),
    #[error("cannot write `{path}`: {message}")]
    Write { path: String, message: String },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl ExportError {
    /// The error code of the tools.
    pub fn code(&self) -> &'static str {
        match self {
            ExportError::Invalid(_) => "VALIDATION_ERROR",
            ExportError::Empty(_) => "CACHE_EMPTY",
            ExportError::Exists(_) => "FILE_EXISTS",
            ExportError::Refused(_) | ExportError::Outside(_) | ExportError::Write { .. } => {
                "EXPORT_ERROR"
            }
            ExportError::Records(_) => "CACHE_ERROR",
        }
    }
}
