//! Server-sent events: an incremental decoder, and an encoder whose data cannot end an event.

mod decode;
mod encode;
mod lines;

use bytes::Bytes;

pub use decode::{Decoder, TooLong};
pub use encode::{
    DATA, KEEP_ALIVE, escape_line_ends, is_one_line, write_comment, write_data, write_event,
    write_fields,
};

/// One event. Missing fields are `None`; missing data is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    pub id: Option<String>,
    /// The data lines joined with line feeds; not yet known to be UTF-8.
    pub data: Bytes,
    pub retry_ms: Option<u64>,
}
