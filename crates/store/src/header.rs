//! Reads the first bytes of a database that is open in this process.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use platform::files::{AtOffset as _, FileId};

use crate::files;

const BEGINNING: &[u8; 16] = b"SQLite format 3\0";

/// All handles of this process. They are never closed: closing any handle of a file drops every lock
/// that the process has on it, those of SQLite included. Another process that closes the database
/// would then remove the write-ahead log that connections here still use.
static OPEN: Mutex<Vec<Header>> = Mutex::new(Vec::new());

/// A handle for the first bytes of one file.
#[derive(Clone)]
pub(crate) struct Header {
    id: FileId,
    file: Arc<File>,
}

impl Header {
    /// The one handle of this process for the file at this path.
    pub(crate) fn of(path: &Path) -> io::Result<Header> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let id = FileId::of_path(path)?;
        if let Some(header) = open.iter().find(|header| header.id == id) {
            return Ok(header.clone());
        }
        let file = files::open(path)?;
        // The file may have been replaced in between.
        let header = Header { id: FileId::of(&file)?, file: Arc::new(file) };
        open.push(header.clone());
        Ok(header)
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Whether the file starts like an SQLite database.
    pub(crate) fn is_of_database(&self) -> io::Result<bool> {
        let mut found = [0; BEGINNING.len()];
        match self.file.read_exact_at(&mut found, 0) {
            Ok(()) => Ok(found == *BEGINNING),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}
