//! Reading the audit log of a home: the reader, one entry as a line, and the evidence that is kept
//! outside the log.

use anyhow::Result;
use store::ledger::{Entry, Reader};

use crate::context::Stores;

mod lines;
pub(crate) mod seal;

pub(crate) use lines::line;

/// Whether an entry is the log's note about itself; hidden by default.
pub(crate) fn is_housekeeping(entry: &Entry) -> bool {
    matches!(entry.act.as_str(), "clock" | "writer_opened" | "writer_closed")
}

/// Opens the log for reading; creates it first if nothing was ever recorded.
pub(crate) fn reader(stores: &Stores) -> Result<Reader> {
    if let Ok(reader) = stores.read_log() {
        return Ok(reader);
    }
    Ok(stores.ledger()?.reader()?)
}
