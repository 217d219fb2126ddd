//! Stores fetched records: one transaction per page, the newer version of a record wins, and
//! storing the same page again changes nothing.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row as SqlRow, Transaction, params};

use super::record::{ARCHIVED, Incoming, Upserted};
use super::series::{self, SeqAllocator};
use super::{Records, Result};

/// The derived columns that say when a record took place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) start_us: Option<i64>,
    pub(super) end_us: Option<i64>,
    pub(super) offset_s: Option<i32>,
}

impl Times {
    pub(super) fn read(row: &SqlRow<'_>, first: usize) -> rusqlite::Result<Times> {
        Ok(Times {
            start_us: row.get(first)?,
            end_us: row.get(first + 1)?,
            offset_s: row.get(first + 2)?,
        })
    }

    fn lasts_us(self) -> i64 {
        match (self.start_us, self.end_us) {
            (Some(start), Some(end)) => end.saturating_sub(start).max(0),
            _ => 0,
        }
    }
}

/// The stored record with the same id.
struct ExistingRecord {
    updated_us: i64,
    raw: String,
    times: Times,
    parent: Option<String>,
    state: Option<String>,
    flat: String,
}

/// What to do with an incoming record.
enum Action {
    Insert,
    Replace,
    /// The same record, but this version derives different columns from it.
    Derive,
    Leave,
}

/// The series that records of a kind are stored in.
#[derive(Clone, Copy)]
struct SeriesInfo<'a> {
    series: i64,
    has_followers: bool,
    /// The kind whose times they take, once it is known.
    follows: Option<&'a str>,
}

impl Records {
    /// Stores a page in one transaction. A record replaces the stored one when it changed later
    /// upstream, or at the same time to something else.
    pub fn upsert(&self, service: &str, page: &[Incoming<'_>]) -> Result<Upserted> {
        let upserted = self.upsert_all(service, &[page])?;
        Ok(upserted.into_iter().next().unwrap_or_default())
    }

    /// Stores several pages in one transaction, which costs little more than one page, because
    /// their records share pages of the file. Returns the result of each.
    pub fn upsert_all<'a>(
        &self,
        service: &str,
        pages: &[impl AsRef<[Incoming<'a>]>],
    ) -> Result<Vec<Upserted>> {
        if pages.iter().all(|page| page.as_ref().is_empty()) {
            return Ok(vec![Upserted::default(); pages.len()]);
        }
        self.write(|db| {
            let mut upsert = Upsert::begin(db, service)?;
            let mut all = Vec::with_capacity(pages.len());
            for page in pages {
                let mut upserted = Upserted::default();
                for incoming in page.as_ref() {
                    upserted += upsert.record(incoming)?;
                }
                all.push(upserted);
            }
            upsert.finish()?;
            Ok(all)
        })
    }

    /// Deletes records that the service has deleted, and leaves a tombstone of each. Returns how
    /// many existed; unknown ids are no error.
    pub fn remove(&self, service: &str, kind: &str, ids: &[String], at_us: i64) -> Result<usize> {
        if ids.is_empty() {
            return Ok(0);
        }
        self.write(|db| {
            let Some(series) = series::find(db, service, kind)? else { return Ok(0) };
            let mut numbers = SeqAllocator::load(db)?;
            let mut removed = 0;
            for id in ids {
                if remove_one(db, series.id, id)? {
                    add_tombstone(db, series.id, id, numbers.next(), at_us)?;
                    removed += 1;
                }
            }
            numbers.store(db)?;
            Ok(removed)
        })
    }
}

fn remove_one(db: &Transaction<'_>, series: i64, id: &str) -> Result<bool> {
    let mut delete = db.prepare_cached("DELETE FROM record WHERE series = ?1 AND id = ?2")?;
    Ok(delete.execute((series, id))? > 0)
}

fn add_tombstone(db: &Transaction<'_>, series: i64, id: &str, seq: i64, at_us: i64) -> Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO gone (series, id, seq, at_us) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((series, id, seq, at_us))?;
    Ok(())
}

/// One page being stored.
struct Upsert<'a> {
    db: &'a Transaction<'a>,
    service: &'a str,
    numbers: SeqAllocator,
    /// Whether any service has ever deleted a record: usually none has, and then incoming records
    /// need not be looked up among the tombstones.
    has_tombstones: bool,
    /// Looked up once per page.
    series: HashMap<&'a str, SeriesInfo<'a>>,
    /// The longest record of this page in each list.
    longest_us: HashMap<i64, i64>,
}

impl<'a> Upsert<'a> {
    fn begin(db: &'a Transaction<'a>, service: &'a str) -> Result<Upsert<'a>> {
        let numbers = SeqAllocator::load(db)?;
        let has_tombstones = db.prepare_cached("SELECT 1 FROM gone LIMIT 1")?.exists([])?;
        let (series, longest_us) = (HashMap::new(), HashMap::new());
        Ok(Upsert { db, service, numbers, has_tombstones, series, longest_us })
    }

    fn finish(self) -> Result<()> {
        for (series, longest_us) in self.longest_us {
            series::set_longest(self.db, series, longest_us)?;
        }
        self.numbers.store(self.db)
    }

    fn record(&mut self, incoming: &Incoming<'a>) -> Result<Upserted> {
        let info = self.series_info(incoming.kind)?;
        let (times, with_times) = self.times(info, incoming)?;
        let incoming =
            &Incoming { flat: with_times.as_deref().unwrap_or(incoming.flat), ..*incoming };
        self.record_with_times(info, incoming, times)
    }

    /// The same, once the times of the record are known.
    fn record_with_times(
        &mut self,
        info: SeriesInfo<'a>,
        incoming: &Incoming<'_>,
        times: Times,
    ) -> Result<Upserted> {
        let stored = stored(self.db, info.series, incoming.id)?;
        if stored.is_none() && is_archived(incoming.state) && self.is_deleted(info, incoming.id)? {
            return Ok(Upserted { unchanged: 1, ..Upserted::default() });
        }
        let (inserted, replaced) = match action_for(stored.as_ref(), incoming, times) {
            Action::Leave => return Ok(Upserted { unchanged: 1, ..Upserted::default() }),
            Action::Derive => {
                derive(self.db, info.series, incoming, times)?;
                (0, 0)
            }
            Action::Insert => {
                insert(self.db, info.series, incoming, times, self.numbers.next())?;
                if self.has_tombstones {
                    remove_tombstone(self.db, info.series, incoming.id)?;
                }
                (1, 0)
            }
            Action::Replace => {
                replace(self.db, info.series, incoming, times, self.numbers.next())?;
                (0, 1)
            }
        };
        self.propagate_times(info, incoming, times)?;
        Ok(Upserted { inserted, replaced, unchanged: 1 - inserted - replaced })
    }

    /// Whether the service deleted it after it had delivered it.
    fn is_deleted(&self, info: SeriesInfo<'a>, id: &str) -> Result<bool> {
        if !self.has_tombstones {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM gone WHERE series = ?1 AND id = ?2";
        Ok(self.db.prepare_cached(sql)?.exists((info.series, id))?)
    }

    fn series_info(&mut self, kind: &'a str) -> Result<SeriesInfo<'a>> {
        if let Some(info) = self.series.get(kind) {
            return Ok(*info);
        }
        let series = series::find_or_create(self.db, self.service, kind)?.id;
        let has_followers = !series::followers(self.db, self.service, kind)?.is_empty();
        let info = SeriesInfo { series, has_followers, follows: None };
        self.series.insert(kind, info);
        Ok(info)
    }

    /// The record's own times, or its parent's if it has none: then also its derived form with
    /// them.
    fn times(
        &mut self,
        info: SeriesInfo<'a>,
        incoming: &Incoming<'a>,
    ) -> Result<(Times, Option<String>)> {
        let own = Times {
            start_us: incoming.start_us,
            end_us: incoming.end_us,
            offset_s: incoming.offset_s,
        };
        let (Some(kind), Some(parent)) = (incoming.follows, incoming.parent) else {
            return Ok((own, None));
        };
        let parents = self.series_info(kind)?.series;
        if info.follows != Some(kind) {
            series::set_follows(self.db, info.series, kind)?;
            if let Some(info) = self.series.get_mut(incoming.kind) {
                info.follows = Some(kind);
            }
            // From now on, incoming parents must update it.
            if let Some(parents) = self.series.get_mut(kind) {
                parents.has_followers = true;
            }
        }
        let followed = times_of(self.db, parents, parent, incoming.flat)?;
        Ok(followed.map_or((own, None), |(times, flat)| (times, Some(flat))))
    }

    /// Passes new times on to the records that take theirs from this one.
    fn propagate_times(
        &mut self,
        info: SeriesInfo<'a>,
        incoming: &Incoming<'_>,
        times: Times,
    ) -> Result<()> {
        self.note_length(info.series, times);
        if !info.has_followers {
            return Ok(());
        }
        for follower in series::followers(self.db, self.service, incoming.kind)? {
            let mut update = self.db.prepare_cached(&format!(
                "UPDATE record SET start_us = ?3, end_us = ?4, offset_s = ?5, flat = {} \
                 WHERE series = ?1 AND parent = ?2",
                with_parent_times("flat", "?6")
            ))?;
            update.execute(params![
                follower,
                incoming.id,
                times.start_us,
                times.end_us,
                times.offset_s,
                incoming.flat
            ])?;
            self.note_length(follower, times);
        }
        Ok(())
    }

    fn note_length(&mut self, series: i64, times: Times) {
        let longest_us = self.longest_us.entry(series).or_default();
        *longest_us = times.lasts_us().max(*longest_us);
    }
}

fn action_for(stored: Option<&ExistingRecord>, incoming: &Incoming<'_>, times: Times) -> Action {
    let Some(stored) = stored else { return Action::Insert };
    // The timestamp is part of the received text, so the same text is the same version. Records
    // without a timestamp carry the time of the sync, which does not make them newer.
    if stored.raw == incoming.raw || is_same_json(&stored.raw, incoming.raw) {
        let is_derived_alike = stored.times == times
            && stored.parent.as_deref() == incoming.parent
            && stored.state.as_deref() == incoming.state
            && stored.flat == incoming.flat;
        return if is_derived_alike { Action::Leave } else { Action::Derive };
    }
    match (is_archived(stored.state.as_deref()), is_archived(incoming.state)) {
        (true, false) => return Action::Replace,
        (false, true) => return Action::Leave,
        _ => {}
    }
    if incoming.updated_us < stored.updated_us { Action::Leave } else { Action::Replace }
}

fn is_archived(state: Option<&str>) -> bool {
    state == Some(ARCHIVED)
}

/// Whitespace and key order are not a change.
fn is_same_json(one: &str, other: &str) -> bool {
    let read = serde_json::from_str::<serde_json::Value>;
    matches!((read(one), read(other)), (Ok(one), Ok(other)) if one == other)
}

fn stored(db: &Transaction<'_>, series: i64, id: &str) -> Result<Option<ExistingRecord>> {
    let mut statement = db.prepare_cached(
        "SELECT updated_us, raw, start_us, end_us, offset_s, parent, state, flat \
         FROM record WHERE series = ?1 AND id = ?2",
    )?;
    let read = |row: &SqlRow<'_>| {
        Ok(ExistingRecord {
            updated_us: row.get(0)?,
            raw: row.get(1)?,
            times: Times::read(row, 2)?,
            parent: row.get(5)?,
            state: row.get(6)?,
            flat: row.get(7)?,
        })
    };
    Ok(statement.query_row((series, id), read).optional()?)
}

/// The times of a record, and the derived form of a record that follows it.
fn times_of(
    db: &Transaction<'_>,
    series: i64,
    id: &str,
    follower: &str,
) -> Result<Option<(Times, String)>> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT start_us, end_us, offset_s, {} FROM record WHERE series = ?1 AND id = ?2",
        with_parent_times("?3", "flat")
    ))?;
    let read = |row: &SqlRow<'_>| Ok((Times::read(row, 0)?, row.get(3)?));
    Ok(statement.query_row((series, id, follower), read).optional()?)
}

/// The members of derived objects that say when a record took place. A record that follows another
/// takes those that it has itself.
const TIME_MEMBERS: [&str; 8] = [
    "start_utc",
    "end_utc",
    "start_local",
    "end_local",
    "timezone_offset",
    "start",
    "end",
    "local_date",
];

/// SQL for the derived form `flat` with the times of `parent`. Anything but an object stays
/// unchanged.
pub(super) fn with_parent_times(flat: &str, parent: &str) -> String {
    let times: Vec<String> =
        TIME_MEMBERS.iter().map(|name| format!("'$.{name}', {parent} ->> '$.{name}'")).collect();
    format!(
        "CASE WHEN json_valid({flat}) AND json_valid({parent}) \
         THEN json_replace({flat}, {}) ELSE {flat} END",
        times.join(", ")
    )
}

fn insert(
    db: &Transaction<'_>,
    series: i64,
    incoming: &Incoming<'_>,
    times: Times,
    seq: i64,
) -> Result<()> {
    let Incoming { id, updated, updated_us, parent, state, flat, raw, .. } = *incoming;
    let Times { start_us, end_us, offset_s } = times;
    db.prepare_cached(
        "INSERT INTO record (series, id, start_us, end_us, offset_s, updated, updated_us, parent, \
         state, seq, flat, raw) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        series, id, start_us, end_us, offset_s, updated, updated_us, parent, state, seq, flat, raw
    ])?;
    Ok(())
}

/// The record exists again.
fn remove_tombstone(db: &Transaction<'_>, series: i64, id: &str) -> Result<()> {
    db.prepare_cached("DELETE FROM gone WHERE series = ?1 AND id = ?2")?.execute((series, id))?;
    Ok(())
}

fn replace(
    db: &Transaction<'_>,
    series: i64,
    incoming: &Incoming<'_>,
    times: Times,
    seq: i64,
) -> Result<()> {
    derive(db, series, incoming, times)?;
    let Incoming { id, updated, updated_us, raw, .. } = *incoming;
    db.prepare_cached(
        "UPDATE record SET updated = ?3, updated_us = ?4, seq = ?5, raw = ?6 \
         WHERE series = ?1 AND id = ?2",
    )?
    .execute(params![series, id, updated, updated_us, seq, raw])?;
    Ok(())
}

fn derive(db: &Transaction<'_>, series: i64, incoming: &Incoming<'_>, times: Times) -> Result<()> {
    let Incoming { id, parent, state, flat, .. } = *incoming;
    let Times { start_us, end_us, offset_s } = times;
    db.prepare_cached(
        "UPDATE record SET start_us = ?3, end_us = ?4, offset_s = ?5, parent = ?6, state = ?7, \
         flat = ?8 WHERE series = ?1 AND id = ?2",
    )?
    .execute(params![series, id, start_us, end_us, offset_s, parent, state, flat])?;
    Ok(())
}
