//! Repairs a database whose creation was interrupted by a kill. SQLite rolls that back by itself,
//! but not through a read-only connection, and ours check before they write: such a file was
//! rejected for ever.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// Header of a rollback journal: its magic, then up to here the previous number of pages.
const HEADER_BYTES: usize = 20;
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const NO_PAGES: [u8; 4] = [0; 4];

/// Whether a process was killed while creating this database. A database that had content before
/// does not count.
pub(crate) fn is_interrupted(path: &Path) -> bool {
    let mut header = [0; HEADER_BYTES];
    let journal = File::open(path.with_extension("db-journal"));
    journal.and_then(|mut journal| journal.read_exact(&mut header)).is_ok()
        && header.starts_with(&MAGIC)
        && header.ends_with(&NO_PAGES)
}

/// Turns it back into an empty file. For the process that holds the right to create it.
pub(crate) fn roll_back(path: &Path, wait_max: Duration) -> rusqlite::Result<()> {
    if !is_interrupted(path) {
        return Ok(());
    }
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.busy_timeout(wait_max)?;
    // The first read makes SQLite process the journal.
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}
