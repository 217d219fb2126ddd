//! Decodes lines into events.

use bytes::{Bytes, BytesMut};

use super::Event;
use super::lines::Lines;

/// A line or an event exceeds the decoder's limit. The stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is too long")]
pub struct TooLong;

/// Decodes an event stream. Feed it bytes, then take events until there are none.
#[derive(Debug)]
pub struct Decoder {
    event_bytes_max: usize,
    lines: Lines,
    /// The current event, once it has a field.
    event: Option<Event>,
    has_data: bool,
    broken: bool,
}

impl Decoder {
    /// A decoder for events whose data is at most this many bytes.
    pub fn new(event_bytes_max: usize) -> Decoder {
        let lines = Lines::new(event_bytes_max.saturating_add("data: ".len()));
        Decoder { event_bytes_max, lines, event: None, has_data: false, broken: false }
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.lines.feed(bytes);
        }
    }

    /// Buffered bytes of incomplete events.
    pub fn held_bytes(&self) -> usize {
        self.lines.held_bytes() + self.event.as_ref().map_or(0, |event| event.data.len())
    }

    /// The next complete event, including one with only an id or a retry time. An event cut off by
    /// the end of the stream is dropped.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        let next = if self.broken { Err(TooLong) } else { self.advance() };
        self.broken = next.is_err();
        next
    }

    fn advance(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(range) = self.lines.next_line()? {
            if range.is_empty() {
                self.has_data = false;
                match self.event.take() {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            let field = Field::of(self.lines.line(range.clone()));
            let Some(field) = field else { continue };
            let event = self.event.get_or_insert_default();
            match field {
                Field::Event(name) => event.event = Some(name),
                Field::Id(id) => event.id = Some(id),
                Field::Retry(retry_ms) => event.retry_ms = Some(retry_ms),
                Field::Data(value_bytes) => {
                    let line = self.lines.take(range.end - value_bytes..range.end);
                    if std::mem::replace(&mut self.has_data, true) {
                        event.data = joined(std::mem::take(&mut event.data), &line);
                    } else {
                        event.data = line;
                    }
                }
            }
            if event.data.len() > self.event_bytes_max {
                return Err(TooLong);
            }
        }
        Ok(None)
    }
}

/// Appends a data line. Earlier lines are not copied again.
fn joined(data: Bytes, line: &[u8]) -> Bytes {
    let mut data = BytesMut::from(data);
    data.extend_from_slice(b"\n");
    data.extend_from_slice(line);
    data.freeze()
}

/// One line of an event.
enum Field {
    Event(String),
    Id(String),
    Retry(u64),
    /// The length of the value at the end of the line.
    Data(usize),
}

impl Field {
    /// Comments, unknown fields and invalid values are ignored.
    fn of(line: &[u8]) -> Option<Field> {
        let colon = memchr::memchr(b':', line);
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => Some(Field::Data(value.len())),
            b"event" => Some(Field::Event(text())),
            b"id" if !value.contains(&0) => Some(Field::Id(text())),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                text().parse().ok().map(Field::Retry)
            }
            _ => None,
        }
    }
}
