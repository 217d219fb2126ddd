//! A database as a kill leaves it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use rusqlite::Connection;

/// A database whose creation was interrupted by a kill: its pages are there, and so is the
/// rollback journal.
pub(crate) fn leave_interrupted_create(path: &Path) {
    let journal = path.with_extension("db-journal");
    let db = Connection::open(path).unwrap();
    db.execute_batch("BEGIN; CREATE TABLE half (made)").unwrap();
    let mut rollback = fs::read(&journal).unwrap();
    // Its first bytes are written when the rest of it is safe on the disk.
    rollback.splice(..8, [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    fs::write(&journal, rollback).unwrap();
}
