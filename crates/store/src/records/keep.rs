//! Keeps what was fetched: one transaction a page, the newer version of a record wins, and keeping
//! the same page again changes nothing.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row as SqlRow, Transaction, params};

use super::row::{ARCHIVED, Incoming, Kept};
use super::series::{self, Numbers};
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

/// What lies there under the same id.
struct Present {
    updated_us: i64,
    raw: String,
    times: Times,
    parent: Option<String>,
    state: Option<String>,
    flat: String,
}

/// What a record that comes in means for the one that is there.
enum Judgement {
    Insert,
    Replace,
    /// The same record, but this program derives other columns from it than the one that kept it.
    Derive,
    Leave,
}

/// Where records of a kind go.
#[derive(Clone, Copy)]
struct Place<'a> {
    series: i64,
    has_followers: bool,
    /// The kind whose times they take, once it was noted.
    follows: Option<&'a str>,
}

impl Records {
    /// Keeps a page in one transaction. A record replaces the one that is there when it changed
    /// later upstream, or at the same time into something else.
    pub fn keep(&self, service: &str, page: &[Incoming<'_>]) -> Result<Kept> {
        let kept = self.keep_all(service, &[page])?;
        Ok(kept.into_iter().next().unwrap_or_default())
    }

    /// Keeps several pages in one transaction, which costs little more than one page: their records
    /// lie on the same pages of the file. Answers for each what became of it.
    pub fn keep_all<'a>(
        &self,
        service: &str,
        pages: &[impl AsRef<[Incoming<'a>]>],
    ) -> Result<Vec<Kept>> {
        if pages.iter().all(|page| page.as_ref().is_empty()) {
            return Ok(vec![Kept::default(); pages.len()]);
        }
        self.write(|db| {
            let mut keeping = Keeping::begin(db, service)?;
            let mut all = Vec::with_capacity(pages.len());
            for page in pages {
                let mut kept = Kept::default();
                for incoming in page.as_ref() {
                    kept += keeping.keep(incoming)?;
                }
                all.push(kept);
            }
            keeping.finish()?;
            Ok(all)
        })
    }

    /// Drops records that the service has deleted, and leaves a note of each. Answers how many there
    /// were; ids that are not here are no error.
    pub fn remove(&self, service: &str, kind: &str, ids: &[String], at_us: i64) -> Result<usize> {
        if ids.is_empty() {
            return Ok(0);
        }
        self.write(|db| {
            let Some(series) = series::find(db, service, kind)? else { return Ok(0) };
            let mut numbers = Numbers::take_over(db)?;
            let mut removed = 0;
            for id in ids {
                if remove_one(db, series.id, id)? {
                    note_gone(db, series.id, id, numbers.next(), at_us)?;
                    removed += 1;
                }
            }
            numbers.put_back(db)?;
            Ok(removed)
        })
    }
}

fn remove_one(db: &Transaction<'_>, series: i64, id: &str) -> Result<bool> {
    let mut delete = db.prepare_cached("DELETE FROM record WHERE series = ?1 AND id = ?2")?;
    Ok(delete.execute((series, id))? > 0)
}

fn note_gone(db: &Transaction<'_>, series: i64, id: &str, seq: i64, at_us: i64) -> Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO gone (series, id, seq, at_us) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((series, id, seq, at_us))?;
    Ok(())
}

/// One page on its way in.
struct Keeping<'a> {
    db: &'a Transaction<'a>,
    service: &'a str,
    numbers: Numbers,
    /// Whether any service has ever taken a record away: mostly none has, and then none that comes
    /// need be looked for among those.
    has_gone: bool,
    /// Looked up once a page.
    places: HashMap<&'a str, Place<'a>>,
    /// The longest record of this page in each list.
    longest_us: HashMap<i64, i64>,
}

impl<'a> Keeping<'a> {
    fn begin(db: &'a Transaction<'a>, service: &'a str) -> Result<Keeping<'a>> {
        let numbers = Numbers::take_over(db)?;
        let has_gone = db.prepare_cached("SELECT 1 FROM gone LIMIT 1")?.exists([])?;
        let (places, longest_us) = (HashMap::new(), HashMap::new());
        Ok(Keeping { db, service, numbers, has_gone, places, longest_us })
    }

    fn finish(self) -> Result<()> {
        for (series, longest_us) in self.longest_us {
            series::set_longest(self.db, series, longest_us)?;
        }
        self.numbers.put_back(self.db)
    }

    fn keep(&mut self, incoming: &Incoming<'a>) -> Result<Kept> {
        let place = self.place(incoming.kind)?;
        let (times, dated) = self.times(place, incoming)?;
        let incoming = &Incoming { flat: dated.as_deref().unwrap_or(incoming.flat), ..*incoming };
        self.keep_dated(place, incoming, times)
    }

    /// The same once it is known when the record took place.
    fn keep_dated(
        &mut self,
        place: Place<'a>,
        incoming: &Incoming<'_>,
        times: Times,
    ) -> Result<Kept> {
        let present = present(self.db, place.series, incoming.id)?;
        if present.is_none() && is_archived(incoming.state) && self.is_gone(place, incoming.id)? {
            return Ok(Kept { unchanged: 1, ..Kept::default() });
        }
        let (inserted, replaced) = match judge(present.as_ref(), incoming, times) {
            Judgement::Leave => return Ok(Kept { unchanged: 1, ..Kept::default() }),
            Judgement::Derive => {
                derive(self.db, place.series, incoming, times)?;
                (0, 0)
            }
            Judgement::Insert => {
                insert(self.db, place.series, incoming, times, self.numbers.next())?;
                if self.has_gone {
                    forget_gone(self.db, place.series, incoming.id)?;
                }
                (1, 0)
            }
            Judgement::Replace => {
                replace(self.db, place.series, incoming, times, self.numbers.next())?;
                (0, 1)
            }
        };
        self.pass_on(place, incoming, times)?;
        Ok(Kept { inserted, replaced, unchanged: 1 - inserted - replaced })
    }

    /// Did the service take it away after it had brought it?
    fn is_gone(&self, place: Place<'a>, id: &str) -> Result<bool> {
        if !self.has_gone {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM gone WHERE series = ?1 AND id = ?2";
        Ok(self.db.prepare_cached(sql)?.exists((place.series, id))?)
    }

    fn place(&mut self, kind: &'a str) -> Result<Place<'a>> {
        if let Some(place) = self.places.get(kind) {
            return Ok(*place);
        }
        let series = series::find_or_make(self.db, self.service, kind)?.id;
        let has_followers = !series::followers(self.db, self.service, kind)?.is_empty();
        let place = Place { series, has_followers, follows: None };
        self.places.insert(kind, place);
        Ok(place)
    }

    /// The record's own times, or its parent's when it has none: then also its derived form with them.
    fn times(
        &mut self,
        place: Place<'a>,
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
        let parents = self.place(kind)?.series;
        if place.follows != Some(kind) {
            series::set_follows(self.db, place.series, kind)?;
            if let Some(place) = self.places.get_mut(incoming.kind) {
                place.follows = Some(kind);
            }
            // From now on the parents that come must look for it.
            if let Some(parents) = self.places.get_mut(kind) {
                parents.has_followers = true;
            }
        }
        let followed = times_of(self.db, parents, parent, incoming.flat)?;
        Ok(followed.map_or((own, None), |(times, flat)| (times, Some(flat))))
    }

    /// Hands new times to the records that take theirs from this one.
    fn pass_on(&mut self, place: Place<'a>, incoming: &Incoming<'_>, times: Times) -> Result<()> {
        self.note_length(place.series, times);
        if !place.has_followers {
            return Ok(());
        }
        for follower in series::followers(self.db, self.service, incoming.kind)? {
            let mut update = self.db.prepare_cached(&format!(
                "UPDATE record SET start_us = ?3, end_us = ?4, offset_s = ?5, flat = {} \
                 WHERE series = ?1 AND parent = ?2",
                dated("flat", "?6")
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

fn judge(present: Option<&Present>, incoming: &Incoming<'_>, times: Times) -> Judgement {
    let Some(present) = present else { return Judgement::Insert };
    // The stamp is part of what came, so the same text is the same version. Records without a stamp
    // of their own carry the time of the sync, which does not make them newer.
    if present.raw == incoming.raw || is_same_json(&present.raw, incoming.raw) {
        let is_derived_alike = present.times == times
            && present.parent.as_deref() == incoming.parent
            && present.state.as_deref() == incoming.state
            && present.flat == incoming.flat;
        return if is_derived_alike { Judgement::Leave } else { Judgement::Derive };
    }
    match (is_archived(present.state.as_deref()), is_archived(incoming.state)) {
        (true, false) => return Judgement::Replace,
        (false, true) => return Judgement::Leave,
        _ => {}
    }
    if incoming.updated_us < present.updated_us { Judgement::Leave } else { Judgement::Replace }
}

fn is_archived(state: Option<&str>) -> bool {
    state == Some(ARCHIVED)
}

/// Spacing and the order of keys are no change.
fn is_same_json(one: &str, other: &str) -> bool {
    let read = serde_json::from_str::<serde_json::Value>;
    matches!((read(one), read(other)), (Ok(one), Ok(other)) if one == other)
}

fn present(db: &Transaction<'_>, series: i64, id: &str) -> Result<Option<Present>> {
    let mut statement = db.prepare_cached(
        "SELECT updated_us, raw, start_us, end_us, offset_s, parent, state, flat \
         FROM record WHERE series = ?1 AND id = ?2",
    )?;
    let read = |row: &SqlRow<'_>| {
        Ok(Present {
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

/// The times of a record, and what a derived form that follows it becomes by them.
fn times_of(
    db: &Transaction<'_>,
    series: i64,
    id: &str,
    follower: &str,
) -> Result<Option<(Times, String)>> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT start_us, end_us, offset_s, {} FROM record WHERE series = ?1 AND id = ?2",
        dated("?3", "flat")
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

/// SQL for the derived form `flat` with the times of `parent`. What is not an object stays as it is.
pub(super) fn dated(flat: &str, parent: &str) -> String {
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

/// It is there again.
fn forget_gone(db: &Transaction<'_>, series: i64, id: &str) -> Result<()> {
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
