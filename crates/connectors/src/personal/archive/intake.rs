//! Stores the entries of an archive in the mirror, in atomic batches.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use serde_json::Value;
use store::records::RecordsError;

use super::meter::Meter;
use super::{ImportInput, ImportProgress, KindCounts, OnImportProgress};
use crate::ConnectorContext;
use crate::personal::mirror::{FROM_ARCHIVE, Forgets, KEPT_PARENT, List, put, whole_us};

/// Entries of one transaction.
const BATCH_MAX: usize = 1_000;

pub(crate) struct Intake<'a> {
    pub(crate) ctx: &'a ConnectorContext,
    pub(crate) zone: &'a TimeZone,
    /// Data from the first pass, by key.
    pub(crate) notes: HashMap<String, String>,
    service: &'static str,
    on_progress: OnImportProgress<'a>,
    meter: &'a Meter,
    waiting: BTreeMap<&'static str, (&'static List, Vec<Value>)>,
    waiting_count: usize,
    taken: BTreeMap<&'static str, KindCounts>,
    /// The lists that a sync has walked completely.
    known_whole: HashMap<&'static str, bool>,
    progress: ImportProgress,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        ctx: &'a ConnectorContext,
        service: &'static str,
        given: &ImportInput<'a>,
        meter: &'a Meter,
        total_bytes: u64,
    ) -> Intake<'a> {
        Intake {
            ctx,
            zone: given.zone,
            notes: HashMap::new(),
            service,
            on_progress: given.on_progress,
            meter,
            waiting: BTreeMap::new(),
            waiting_count: 0,
            taken: BTreeMap::new(),
            known_whole: HashMap::new(),
            progress: ImportProgress { done_bytes: 0, total_bytes, rows: 0 },
        }
    }

    pub(crate) fn put(&mut self, list: &'static List, item: Value) -> Result<(), RecordsError> {
        self.taken.entry(list.kind).or_default().rows += 1;
        self.waiting.entry(list.kind).or_insert((list, Vec::new())).1.push(item);
        self.waiting_count += 1;
        if self.waiting_count >= BATCH_MAX { self.flush() } else { Ok(()) }
    }

    /// The same for lists that a sync also fills: the archive only adds missing entries.
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

    /// Counts an invalid row.
    pub(crate) fn odd(&mut self, list: &'static List) {
        let taken = self.taken.entry(list.kind).or_default();
        taken.rows += 1;
        taken.odd += 1;
    }

    /// A file is complete.
    pub(super) fn passed(&mut self, bytes: u64) {
        self.progress.done_bytes = self.progress.done_bytes.saturating_add(bytes);
        (self.on_progress)(self.progress);
    }

    pub(super) fn finish(mut self) -> Result<BTreeMap<&'static str, KindCounts>, RecordsError> {
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
            let put = put(self.ctx, self.service, list, &items)?;
            let taken = self.taken.entry(kind).or_default();
            taken.written += put.written;
            taken.stale += count - fresh;
            taken.odd += fresh - put.ids.len();
        }
        self.progress.rows += self.waiting_count as u64;
        self.waiting_count = 0;
        let done_bytes = self.progress.done_bytes.saturating_add(self.meter.file_bytes());
        (self.on_progress)(ImportProgress { done_bytes, ..self.progress });
        Ok(())
    }

    /// Was a list that follows the service walked completely?
    fn is_known_whole(&mut self, list: &'static List) -> Result<bool, RecordsError> {
        if list.forgets != Forgets::Missing {
            return Ok(false);
        }
        if let Some(known) = self.known_whole.get(list.kind) {
            return Ok(*known);
        }
        let known = whole_us(self.ctx, self.service, list.kind)?.is_some();
        self.known_whole.insert(list.kind, known);
        Ok(known)
    }

    /// An older archive must not restore items that the owner has removed since.
    fn leave_stale(&self, list: &List, items: &mut Vec<Value>) -> Result<(), RecordsError> {
        let mut fresh = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            let is_here = match (list.id)(&item) {
                Some(id) if id.starts_with(KEPT_PARENT) => true,
                Some(id) => self.ctx.records.one(self.service, list.kind, &id)?.is_some(),
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
