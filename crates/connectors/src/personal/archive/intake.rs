//! Where the entries of an archive go: in batches into the mirror, each batch whole or not at all.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use serde_json::Value;
use store::records::RecordsError;

use super::meter::Meter;
use super::{Given, Progress, Taken, Told};
use crate::personal::mirror::{FROM_ARCHIVE, Forgets, KEPT_PARENT, List, put, whole_us};
use crate::{Desk, Service};

/// Entries of one transaction.
const BATCH_MAX: usize = 1_000;

pub(crate) struct Intake<'a> {
    pub(crate) desk: &'a Desk,
    pub(crate) zone: &'a TimeZone,
    /// What was learned from some files about others.
    pub(crate) notes: HashMap<String, String>,
    service: &'static str,
    told: Told<'a>,
    meter: &'a Meter,
    waiting: BTreeMap<&'static str, (&'static List, Vec<Value>)>,
    waiting_count: usize,
    taken: BTreeMap<&'static str, Taken>,
    /// Which lists the service has shown to their end.
    known_whole: HashMap<&'static str, bool>,
    progress: Progress,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        desk: &'a Desk,
        service: &'static Service,
        given: &Given<'a>,
        meter: &'a Meter,
        total_bytes: u64,
    ) -> Intake<'a> {
        Intake {
            desk,
            zone: given.zone,
            notes: HashMap::new(),
            service: service.name,
            told: given.told,
            meter,
            waiting: BTreeMap::new(),
            waiting_count: 0,
            taken: BTreeMap::new(),
            known_whole: HashMap::new(),
            progress: Progress { done_bytes: 0, total_bytes, rows: 0 },
        }
    }

    pub(crate) fn put(&mut self, list: &'static List, item: Value) -> Result<(), RecordsError> {
        self.taken.entry(list.kind).or_default().rows += 1;
        self.waiting.entry(list.kind).or_insert((list, Vec::new())).1.push(item);
        self.waiting_count += 1;
        if self.waiting_count >= BATCH_MAX { self.flush() } else { Ok(()) }
    }

    /// The same for what the service also shows: there the archive only fills what is missing.
    pub(crate) fn fill(
        &mut self,
        list: &'static List,
        mut item: Value,
    ) -> Result<(), RecordsError> {
        if let Some(item) = item.as_object_mut() {
            item.insert(FROM_ARCHIVE.to_owned(), Value::Bool(true));
        }
        self.put(list, item)
    }

    /// A row that cannot be used.
    pub(crate) fn odd(&mut self, list: &'static List) {
        let taken = self.taken.entry(list.kind).or_default();
        taken.rows += 1;
        taken.odd += 1;
    }

    /// A file is through.
    pub(super) fn passed(&mut self, bytes: u64) {
        self.progress.done_bytes = self.progress.done_bytes.saturating_add(bytes);
        (self.told)(self.progress);
    }

    pub(super) fn finish(mut self) -> Result<BTreeMap<&'static str, Taken>, RecordsError> {
        self.flush()?;
        Ok(self.taken)
    }

    fn flush(&mut self) -> Result<(), RecordsError> {
        for (kind, (list, mut items)) in std::mem::take(&mut self.waiting) {
            let count = items.len();
            if self.is_known_whole(list)? {
                self.leave_stale(list, &mut items)?;
            }
            let fresh = items.len();
            let put = put(self.desk, self.service, list, &items)?;
            let taken = self.taken.entry(kind).or_default();
            taken.written += put.written;
            taken.stale += count - fresh;
            taken.odd += fresh - put.ids.len();
        }
        self.progress.rows += self.waiting_count as u64;
        self.waiting_count = 0;
        let done_bytes = self.progress.done_bytes.saturating_add(self.meter.file_bytes());
        (self.told)(Progress { done_bytes, ..self.progress });
        Ok(())
    }

    /// Has the service shown the whole of a list that is kept as it is there now?
    fn is_known_whole(&mut self, list: &'static List) -> Result<bool, RecordsError> {
        if list.forgets != Forgets::Missing {
            return Ok(false);
        }
        if let Some(known) = self.known_whole.get(list.kind) {
            return Ok(*known);
        }
        let known = whole_us(self.desk, self.service, list.kind)?.is_some();
        self.known_whole.insert(list.kind, known);
        Ok(known)
    }

    /// What the owner has taken back since is not brought back by an older archive.
    fn leave_stale(&self, list: &List, items: &mut Vec<Value>) -> Result<(), RecordsError> {
        let mut fresh = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            let is_here = match (list.id)(&item) {
                Some(id) if id.starts_with(KEPT_PARENT) => true,
                Some(id) => self.desk.records.one(self.service, list.kind, &id)?.is_some(),
                None => true,
            };
            if is_here {
                fresh.push(item);
            }
        }
        *items = fresh;
        Ok(())
    }
}
