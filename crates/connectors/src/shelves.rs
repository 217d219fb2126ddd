//! What the owner can take out of each service, and what has to be made in the mirror for it.

use serde_json::Value;
use store::export::Shelf;
use store::records::{Derived, Records, RecordsError, View};

use crate::personal::mirror::derived;
use crate::whoop::kind::Kind;
use crate::{bilibili, reddit, spotify, steam, whoop, youtube};

/// Every service that has something to take out.
pub const SHELVES: &[&Shelf] = &[
    &whoop::export::SHELF,
    &spotify::mirror::SHELF,
    &youtube::mirror::SHELF,
    &steam::mirror::SHELF,
    &reddit::mirror::SHELF,
    &bilibili::mirror::SHELF,
];

pub fn shelf(service: &str) -> Option<&'static Shelf> {
    SHELVES.iter().copied().find(|shelf| shelf.service == service)
}

/// Brings the mirror to the shapes and views of this program. Cheap when nothing has changed; asks
/// nothing of any service.
pub fn prepare(records: &Records) -> Result<(), RecordsError> {
    let mut views: Vec<&View> =
        SHELVES.iter().flat_map(|shelf| shelf.kinds).map(|kind| kind.view).collect();
    views.push(&whoop::takeout::JOURNAL_VIEW);
    records.declare(&views)?;
    records.reshape(whoop::NAME, whoop::shape::VERSION, whoop_shape)?;
    records.reshape(spotify::NAME, spotify::mirror::VERSION, |kind, raw| {
        derived(spotify::mirror::LISTS, kind, raw)
    })?;
    records.reshape(youtube::NAME, youtube::mirror::VERSION, |kind, raw| {
        derived(youtube::mirror::LISTS, kind, raw)
    })?;
    records.reshape(steam::NAME, steam::mirror::VERSION, |kind, raw| {
        derived(steam::mirror::LISTS, kind, raw)
    })?;
    records.reshape(reddit::NAME, reddit::mirror::VERSION, |kind, raw| {
        derived(reddit::mirror::LISTS, kind, raw)
    })?;
    records.reshape(bilibili::NAME, bilibili::mirror::VERSION, |kind, raw| {
        derived(bilibili::mirror::LISTS, kind, raw)
    })?;
    Ok(())
}

fn whoop_shape(kind: &str, raw: &str) -> Option<Derived> {
    let kind = Kind::parse(kind)?;
    let raw: Value = serde_json::from_str(raw).ok()?;
    let shaped = whoop::shape::shape(kind, &raw);
    let flat = shaped.flat_text();
    Some(Derived {
        start_us: shaped.start_us,
        end_us: shaped.end_us,
        offset_s: shaped.offset_s,
        parent: shaped.parent,
        state: shaped.state,
        flat,
    })
}
