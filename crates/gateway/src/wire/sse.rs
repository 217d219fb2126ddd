//! Server-sent events, one piece at a time: the decoder takes bytes as they come, the encoder never
//! lets data end an event.

mod decode;
mod encode;
mod lines;

use bytes::Bytes;

pub use decode::{Decoder, TooLong};
pub use encode::{
    DATA, KEEP_ALIVE, in_one_line, is_one_line, write_comment, write_data, write_event,
    write_fields,
};

/// One event. Fields that were not sent are absent; data that was not sent is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    pub id: Option<String>,
    /// The data lines joined with line feeds, as they were sent: not yet known to be UTF-8.
    pub data: Bytes,
    pub retry_ms: Option<u64>,
}
