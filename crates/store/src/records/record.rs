//! The types of the records: incoming, stored, and which part a query selects.

use rusqlite::Row as SqlRow;

/// The state of a record from an archive. It is replaced by what the service itself delivers,
/// whatever the timestamps, and does not restore what the service has deleted.
pub const ARCHIVED: &str = "archived";

/// One stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    pub service: String,
    pub kind: String,
    pub id: String,
    pub start_us: Option<i64>,
    /// None while the record is open, and for records without a time.
    pub end_us: Option<i64>,
    pub offset_s: Option<i32>,
    /// When it changed upstream, in upstream's own format.
    pub updated: String,
    pub updated_us: i64,
    pub parent: Option<String>,
    pub state: Option<String>,
    /// The received text, byte for byte.
    pub raw: String,
    /// The JSON object that was derived from it.
    pub flat: String,
    /// The number of the change that brought it here; later changes have larger ones.
    pub seq: i64,
}

/// A record that may still change, with what is needed to fetch it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    pub id: String,
    pub start_us: Option<i64>,
    pub updated_us: i64,
    pub state: Option<String>,
}

/// A record that was just fetched and derived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Incoming<'a> {
    pub kind: &'a str,
    pub id: &'a str,
    pub start_us: Option<i64>,
    pub end_us: Option<i64>,
    pub offset_s: Option<i32>,
    pub updated: &'a str,
    pub updated_us: i64,
    pub parent: Option<&'a str>,
    pub state: Option<&'a str>,
    /// The kind of `parent`, if this record has no times of its own and takes the parent's: now,
    /// and whenever the parent is added or changed later.
    pub follows: Option<&'a str>,
    pub raw: &'a str,
    pub flat: &'a str,
}

/// The result of [`super::Records::keep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upserted {
    pub inserted: usize,
    pub replaced: usize,
    pub unchanged: usize,
}

impl Upserted {
    /// Rows that changed.
    pub fn written(self) -> usize {
        self.inserted + self.replaced
    }
}

impl std::ops::AddAssign for Upserted {
    fn add_assign(&mut self, other: Upserted) {
        self.inserted += other.inserted;
        self.replaced += other.replaced;
        self.unchanged += other.unchanged;
    }
}

/// A time range. Without any bound it also includes records without a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub from_us: Option<i64>,
    /// Exclusive.
    pub to_us: Option<i64>,
    pub limit: Option<usize>,
    pub newest_first: bool,
    /// Includes records that are partly inside (end after `from_us`, start before `to_us`);
    /// otherwise only those that start inside.
    pub overlap: bool,
    /// When an open record is assumed to end, usually now; without it an open record never ends.
    pub open_end_us: Option<i64>,
    /// The maximum duration of an open record: one that was left open does not extend into later
    /// days.
    pub open_lasts_us_max: Option<i64>,
    /// Excludes records in this state.
    pub except_state: Option<&'static str>,
}

impl Window {
    /// Whether open records may be in it.
    pub fn reaches_open(&self) -> bool {
        let from_us = self.from_us.unwrap_or(i64::MIN);
        self.open_end_us.is_none_or(|end_us| end_us > from_us)
    }
}

/// A position in the order of changes by time: everything up to and including it was read.
#[derive(Clone, Copy, Debug)]
pub struct ChangeCursor<'a> {
    pub updated_us: i64,
    pub kind: &'a str,
    pub id: &'a str,
}

impl ChangeCursor<'static> {
    /// Strictly later than an instant: no kind or id at that instant comes after this.
    pub fn instant(updated_us: i64) -> ChangeCursor<'static> {
        ChangeCursor { updated_us, kind: LAST_TEXT, id: LAST_TEXT }
    }
}

/// Sorts after every name of a kind.
pub(super) const LAST_TEXT: &str = "\u{10ffff}";

/// A record that the service has deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedRecord {
    pub kind: String,
    pub id: String,
    pub seq: i64,
    pub at_us: i64,
}

/// One line of the sync history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub id: i64,
    pub service: String,
    pub resource: String,
    pub started_us: i64,
    pub completed_us: Option<i64>,
    /// `running`, `success`, `error`: chosen by the sync.
    pub status: String,
    pub fetched: u64,
    pub upserted: u64,
    pub error: Option<String>,
    pub since: Option<String>,
    pub until: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunEnd<'a> {
    pub completed_us: i64,
    pub status: &'a str,
    pub fetched: u64,
    pub upserted: u64,
    pub error: Option<&'a str>,
    pub until: Option<&'a str>,
}

/// The columns of a [`StoredRecord`] in the order [`row`] reads them.
pub(super) const COLUMNS: &str = "id, start_us, end_us, offset_s, updated, updated_us, parent, \
    state, seq, flat, raw";

pub(super) fn row(service: &str, kind: &str, row: &SqlRow<'_>) -> rusqlite::Result<StoredRecord> {
    Ok(StoredRecord {
        service: service.to_owned(),
        kind: kind.to_owned(),
        id: row.get(0)?,
        start_us: row.get(1)?,
        end_us: row.get(2)?,
        offset_s: row.get(3)?,
        updated: row.get(4)?,
        updated_us: row.get(5)?,
        parent: row.get(6)?,
        state: row.get(7)?,
        seq: row.get(8)?,
        flat: row.get(9)?,
        raw: row.get(10)?,
    })
}
