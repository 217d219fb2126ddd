//! The one way into the mirror: what came is kept byte for byte, with everything that is derived
//! from it, a page in one transaction.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use store::records::{Incoming, Kept, RecordsError};

use super::SERVICE;
use super::kind::Kind;
use super::shape::{CURRENT, INVALID, Shaped, shape};
use super::takeout;
use crate::Desk;
use crate::sync::{Page, is_same};
use crate::when::utc_micros;

/// What became of a page.
#[derive(Debug)]
pub struct KeptPage {
    /// In the order of the page.
    pub shaped: Vec<Shaped>,
    /// Readable records that were new or had changed.
    pub written: usize,
    /// What could not be read, and what could not be kept.
    pub warnings: Vec<String>,
    /// Records whose times cannot be.
    pub doubtful: usize,
}

/// Keeps a page of a list. A record that cannot be read is kept, too, and said; what an export had
/// brought of the same gives way.
pub fn keep(desk: &Desk, kind: Kind, raws: &[impl AsRef<str>]) -> Result<KeptPage, RecordsError> {
    let raws = || raws.iter().map(AsRef::as_ref);
    let derived = Derived::of(kind, raws());
    let kept = desk.records.keep_all(SERVICE.name, &derived.rows(kind, raws()))?;
    let kept = derived.kept(kind, &kept);
    if kept.written > 0 {
        takeout::give_way_to(desk, kind, &kept.shaped)?;
    }
    Ok(kept)
}

/// A page that a sync has fetched.
pub(super) struct Fetched {
    kind: Kind,
    raws: Vec<Box<RawValue>>,
    derived: Derived,
}

impl Fetched {
    /// Derives what can be derived here, while the thread that writes has enough to do.
    pub(super) fn new(kind: Kind, raws: Vec<Box<RawValue>>) -> Fetched {
        let mut derived = Derived::of(kind, raws.iter().map(|raw| raw.get()));
        // Their texts are enough from here on, and pages that wait should be small.
        for flat in derived.shaped.iter_mut().filter_map(|shaped| shaped.flat.as_mut().ok()) {
            *flat = Map::new();
        }
        Fetched { kind, raws, derived }
    }

    pub(super) fn kept(self, kept: &[Kept]) -> KeptPage {
        self.derived.kept(self.kind, kept)
    }
}

impl Page for Fetched {
    fn rows(&self) -> Vec<Vec<Incoming<'_>>> {
        self.derived.rows(self.kind, self.raws.iter().map(|raw| raw.get())).into()
    }
}

/// What is derived from the records of a page, in their order.
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

    /// What can be kept, oldest first: the readable records, and those that cannot be read.
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
        // WHOOP lists the newest first. Written the other way round, records that follow each other in
        // time follow each other in the file, and whoever walks through them need not seek each one.
        good.reverse();
        invalid.reverse();
        [good, invalid]
    }

    fn kept(self, kind: Kind, kept: &[Kept]) -> KeptPage {
        let mut warnings = Vec::new();
        for shaped in &self.shaped {
            warnings.extend(shaped.warning(kind));
            warnings.extend(shaped.doubt_words(kind));
            if shaped.id.is_none() || shaped.updated.is_none() {
                warnings.push(format!("{}: a record without id or `updated_at` came", kind.name()));
            }
        }
        let written = kept.first().map_or(0, |good| good.written());
        let doubtful = self.shaped.iter().filter(|shaped| shaped.doubt.is_some()).count();
        KeptPage { shaped: self.shaped, written, warnings, doubtful }
    }
}

/// Keeps the only row of a snapshot; answers whether its content changed.
pub fn keep_snapshot(desk: &Desk, kind: Kind, raw: &str) -> Result<bool, RecordsError> {
    let known = desk.records.one(SERVICE.name, kind.name(), CURRENT)?;
    if known.is_some_and(|known| is_same(&known.raw, raw)) {
        return Ok(false);
    }
    let mut shaped = read(kind, raw);
    let now_us = desk.clock.now().wall_us;
    if shaped.updated.is_none() {
        // WHOOP does not say when it changed, so it changed when we saw it.
        shaped.updated = Some(utc_micros(now_us));
        shaped.updated_us = now_us;
    }
    let flat = shaped.flat_text();
    let updated = shaped.updated.clone().unwrap_or_default();
    let row = incoming(kind, CURRENT, &updated, &shaped, raw, &flat);
    Ok(desk.records.keep(SERVICE.name, &[row])?.written() > 0)
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
        // A recovery has no times of its own; it happens when its cycle does.
        follows: (kind == Kind::Recoveries).then_some(Kind::Cycles.name()),
        raw,
        flat,
    }
}
