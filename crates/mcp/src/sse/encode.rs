//! Encodes events.

use bytes::Bytes;

use super::Event;

/// A comment for quiet streams: clients ignore it, proxies see traffic.
pub const KEEP_ALIVE: &[u8] = b":\n\n";
/// The prefix of a data line.
pub const DATA: &[u8] = b"data: ";

/// Writes an event. Each line of its data becomes a data line, so a line end in the data cannot end
/// the event; CR and CR LF arrive as LF.
pub fn write_event(event: &Event, out: &mut Vec<u8>) {
    if let Some(name) = &event.event {
        write_line(b"event: ", name, out);
    }
    write_fields(event.id.as_deref(), event.retry_ms, out);
    write_data(&event.data, out);
}

/// Writes the fields before the data of an unnamed event.
pub fn write_fields(id: Option<&str>, retry_ms: Option<u64>, out: &mut Vec<u8>) {
    if let Some(id) = id {
        write_line(b"id: ", id, out);
    }
    if let Some(retry) = retry_ms {
        write_line(b"retry: ", &retry.to_string(), out);
    }
}

/// Writes the data of an event.
pub fn write_data(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len() + 8);
    let mut rest = data;
    loop {
        let end = memchr::memchr2(b'\n', b'\r', rest);
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        out.extend_from_slice(DATA);
        out.extend_from_slice(line);
        out.push(b'\n');
        rest = match after {
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => break,
        };
    }
    out.push(b'\n');
}

/// Writes a comment, which clients ignore.
pub fn write_comment(text: &str, out: &mut Vec<u8>) {
    write_line(b": ", text, out);
    out.push(b'\n');
}

/// A one-line field. Characters that would end the line or invalidate the field are removed.
fn write_line(field: &[u8], value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(field);
    out.extend(value.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
    out.push(b'\n');
}

/// Whether a message contains nothing that any parser takes for a line end.
pub fn is_one_line(message: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', message).is_none()
        && memchr::memchr2_iter(0xC2, 0xE2, message)
            .all(|at| escape_of(message.get(at..).unwrap_or_default()).is_none())
}

/// The escape of a Unicode line end, and its length in bytes.
fn escape_of(text: &[u8]) -> Option<(&'static [u8], usize)> {
    match text {
        [0xC2, 0x85, ..] => Some((b"\\u0085", 2)),
        [0xE2, 0x80, 0xA8, ..] => Some((b"\\u2028", 3)),
        [0xE2, 0x80, 0xA9, ..] => Some((b"\\u2029", 3)),
        _ => None,
    }
}

/// Escapes Unicode line ends in a message: some parsers of event streams end a line there, so a
/// server could end an event inside a string and start one that was never checked.
pub fn escape_line_ends(message: Bytes) -> Bytes {
    if memchr::memchr2(0xC2, 0xE2, &message).is_none() {
        return message;
    }
    let mut out = Vec::with_capacity(message.len() + 64);
    let mut rest = message.as_ref();
    while let Some(at) = memchr::memchr2(0xC2, 0xE2, rest) {
        let (before, found) = rest.split_at(at);
        out.extend_from_slice(before);
        let (escape, bytes) = escape_of(found).unwrap_or((found.get(..1).unwrap_or_default(), 1));
        out.extend_from_slice(escape);
        rest = found.get(bytes..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.into()
}
