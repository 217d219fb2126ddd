//! The only writer of WHOOP's mirror: records are stored byte for byte, with everything derived from
//! them, one page per transaction.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use store::records::{Incoming, RecordsError, Upserted};

use super::SERVICE;
use super::kind::Kind;
use super::shape::{CURRENT, INVALID, Shaped, shape};
use super::takeout;
use crate::ConnectorContext;
use crate::sync::{StorablePage, is_same};
use crate::when::utc_micros;

/// The result of storing a page.
#[derive(Debug)]
pub struct StoredPage {
    /// In the order of the page.
    pub shaped: Vec<Shaped>,
    /// Readable records that were new or had changed.
    pub written: usize,
    /// Warnings about records that could not be read or stored.
    pub warnings: Vec<String>,
    /// The number of records with impossible times.
    pub doubtful: usize,
}

/// Stores a page of a list. An unreadable record is stored with a warning; the same record from an
/// export is replaced.
pub fn store_page(
    ctx: &ConnectorContext,
    kind: Kind,
    raws: &[impl AsRef<str>],
) -> Result<StoredPage, RecordsError> {
    let raws = || raws.iter().map(AsRef::as_ref);
    let derived = Derived::of(kind, raws());
    let kept = ctx.records.upsert_all(SERVICE.name, &derived.rows(kind, raws()))?;
    let kept = derived.kept(kind, &kept);
    if kept.written > 0 {
        takeout::give_way_to(ctx, kind, &kept.shaped)?;
    }
    Ok(kept)
}

/// A page that a sync has fetched.
pub(super) struct FetchedPage {
    kind: Kind,
    raws: Vec<Box<RawValue>>,
    derived: Derived,
}

impl FetchedPage {
    /// Derives the columns here, to keep that work off the writer thread.
    pub(super) fn new(kind: Kind, raws: Vec<Box<RawValue>>) -> FetchedPage {
        let mut derived = Derived::of(kind, raws.iter().map(|raw| raw.get()));
        // Only the texts are needed from here on; queued pages should be small.
        for flat in derived.shaped.iter_mut().filter_map(|shaped| shaped.flat.as_mut().ok()) {
            *flat = Map::new();
        }
        FetchedPage { kind, raws, derived }
    }

    pub(super) fn kept(self, kept: &[Upserted]) -> StoredPage {
        self.derived.kept(self.kind, kept)
    }
}

impl StorablePage for FetchedPage {
    fn rows(&self) -> Vec<Vec<Incoming<'_>>> {
        self.derived.rows(self.kind, self.raws.iter().map(|raw| raw.get())).into()
    }
}

/// The derived records of a page, in their order.
struct Derived {
    shaped: Vec<Shaped>,
    texts: Vec<String>,
}

impl Derived {
    fn of<'a>(kind: Kind, raws: impl Iterator<Item = &'a str>) -> Derived {
        let shaped: Vec<Shaped> = raws.map(|raw| read(kind, raw)).collect();
        let texts = shaped.iter().map(Shaped::flat_text).collect();
        Derived { shaped, texts }
    }

    /// The rows to store, oldest first: readable and unreadable records.
    fn rows<'a>(
        &'a self,
        kind: Kind,
        raws: impl Iterator<Item = &'a str>,
    ) -> [Vec<Incoming<'a>>; 2] {
        let (mut good, mut invalid) = (Vec::new(), Vec::new());
        for ((raw, shaped), flat) in raws.zip(&self.shaped).zip(&self.texts) {
            let (Some(id), Some(updated)) = (&shaped.id, &shaped.updated) else { continue };
            let row = incoming(kind, id, updated, shaped, raw, flat);
            if shaped.flat.is_ok() { good.push(row) } else { invalid.push(row) }
        }
        // WHOOP lists the newest first. Stored in reverse, records that are adjacent in time are
        // adjacent in the file, and a scan needs no seek for each one.
        good.reverse();
        invalid.reverse();
        [good, invalid]
    }

    fn kept(self, kind: Kind, kept: &[Upserted]) -> StoredPage {
        let mut warnings = Vec::new();
        for shaped in &self.shaped {
            warnings.extend(shaped.warning(kind));
            warnings.extend(shaped.doubt_message(kind));
            if shaped.id.is_none() || shaped.updated.is_none() {
                warnings.push(format!("{}: a record without id or `updated_at` came", kind.name()));
            }
        }
        let written = kept.first().map_or(0, |good| good.written());
        let doubtful = self.shaped.iter().filter(|shaped| shaped.doubt.is_some()).count();
        StoredPage { shaped: self.shaped, written, warnings, doubtful }
    }
}

/// Stores the only row of a snapshot; returns whether its content changed.
pub fn store_snapshot(ctx: &ConnectorContext, kind: Kind, raw: &str) -> Result<bool, RecordsError> {
    let known = ctx.records.one(SERVICE.name, kind.name(), CURRENT)?;
    if known.is_some_and(|known| is_same(&known.raw, raw)) {
        return Ok(false);
    }
    let mut shaped = read(kind, raw);
    let now_us = ctx.clock.now().wall_us;
    if shaped.updated.is_none() {
        // WHOOP has no time of change, so the time of the fetch counts.
        shaped.updated = Some(utc_micros(now_us));
        shaped.updated_us = now_us;
    }
    let flat = shaped.flat_text();
    let updated = shaped.updated.clone().unwrap_or_default();
    let row = incoming(kind, CURRENT, &updated, &shaped, raw, &flat);
    Ok(ctx.records.upsert(SERVICE.name, &[row])?.written() > 0)
}

fn read(kind: Kind, raw: &str) -> Shaped {
    shape(kind, &serde_json::from_str(raw).unwrap_or(Value::Null))
}

fn incoming<'a>(
    kind: Kind,
    id: &'a str,
    updated: &'a str,
    shaped: &'a Shaped,
    raw: &'a str,
    flat: &'a str,
) -> Incoming<'a> {
    Incoming {
        kind: kind.name(),
        id,
        start_us: shaped.start_us,
        end_us: shaped.end_us,
        offset_s: shaped.offset_s,
        updated,
        updated_us: shaped.updated_us,
        parent: shaped.parent.as_deref(),
        state: if shaped.flat.is_ok() { shaped.state.as_deref() } else { Some(INVALID) },
        // A recovery has no times of its own; its cycle's count.
        follows: (kind == Kind::Recoveries).then_some(Kind::Cycles.name()),
        raw,
        flat,
    }
}
