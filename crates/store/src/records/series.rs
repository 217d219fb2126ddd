//! A series: the records of one kind, by its number. Records refer to it by number, which keeps
//! every index small.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) id: i64,
    /// No closed record of it lasts longer.
    pub(super) longest_us: i64,
}

/// The list, if anything was ever stored in it.
pub(super) fn find(db: &Connection, service: &str, kind: &str) -> Result<Option<Series>> {
    let mut statement =
        db.prepare_cached("SELECT id, longest_us FROM series WHERE service = ?1 AND kind = ?2")?;
    let found = statement
        .query_row([service, kind], |r| Ok(Series { id: r.get(0)?, longest_us: r.get(1)? }))
        .optional()?;
    Ok(found)
}

pub(super) fn find_or_create(db: &Transaction<'_>, service: &str, kind: &str) -> Result<Series> {
    if let Some(found) = find(db, service, kind)? {
        return Ok(found);
    }
    db.prepare_cached("INSERT INTO series (service, kind) VALUES (?1, ?2)")?
        .execute([service, kind])?;
    Ok(Series { id: db.last_insert_rowid(), longest_us: 0 })
}

/// Sets whose times the records of a list take.
pub(super) fn set_follows(db: &Transaction<'_>, series: i64, kind: &str) -> Result<()> {
    db.prepare_cached("UPDATE series SET follows = ?2 WHERE id = ?1 AND follows IS NOT ?2")?
        .execute((series, kind))?;
    Ok(())
}

pub(super) fn set_longest(db: &Transaction<'_>, series: i64, longest_us: i64) -> Result<()> {
    db.prepare_cached("UPDATE series SET longest_us = ?2 WHERE id = ?1 AND longest_us < ?2")?
        .execute((series, longest_us))?;
    Ok(())
}

/// The lists whose records take their times from records of this kind.
pub(super) fn followers(db: &Transaction<'_>, service: &str, kind: &str) -> Result<Vec<i64>> {
    let mut statement =
        db.prepare_cached("SELECT id FROM series WHERE service = ?1 AND follows = ?2")?;
    let found = statement.query_map([service, kind], |r| r.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// The next change numbers. Taken in the transaction that writes the changes, so that a reader that
/// has seen a number has seen every smaller one.
pub(super) struct SeqAllocator {
    last: i64,
    taken: bool,
}

impl SeqAllocator {
    pub(super) fn load(db: &Transaction<'_>) -> Result<SeqAllocator> {
        let last = db.prepare_cached("SELECT seq FROM meta")?.query_row([], |r| r.get(0))?;
        Ok(SeqAllocator { last, taken: false })
    }

    pub(super) fn next(&mut self) -> i64 {
        self.last += 1;
        self.taken = true;
        self.last
    }

    pub(super) fn store(self, db: &Transaction<'_>) -> Result<()> {
        if self.taken {
            db.prepare_cached("UPDATE meta SET seq = ?1")?.execute([self.last])?;
        }
        Ok(())
    }
}
