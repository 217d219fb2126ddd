//! A database whose making was cut short by a kill. SQLite undoes that by itself, but not through a
//! connection that only reads, and ours look before they write: such a file was refused for ever.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// How a rollback journal begins: its mark, and up to here the number of pages there were before.
const HEAD_BYTES: usize = 20;
const MARK: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const NO_PAGES: [u8; 4] = [0; 4];

/// Was a process killed while it made this database? One that held anything before is not meant.
pub(crate) fn is_left(path: &Path) -> bool {
    let mut head = [0; HEAD_BYTES];
    let journal = File::open(path.with_extension("db-journal"));
    journal.and_then(|mut journal| journal.read_exact(&mut head)).is_ok()
        && head.starts_with(&MARK)
        && head.ends_with(&NO_PAGES)
}

/// Makes it the empty file again that it was. For whoever has the turn to make it.
pub(crate) fn undo(path: &Path, wait_max: Duration) -> rusqlite::Result<()> {
    if !is_left(path) {
        return Ok(());
    }
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.busy_timeout(wait_max)?;
    // Whoever reads first has SQLite look at the journal.
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}
