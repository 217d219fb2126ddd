//! From events to bytes.

use bytes::Bytes;

use super::Event;

/// A comment for quiet streams: readers pass over it, proxies see traffic.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// Writes an event. Each line of its data becomes a data line, so a line end inside cannot end the
/// event; CR and CR LF inside data arrive as LF.
pub fn write_event(event: &Event, out: &mut Vec<u8>) {
    if let Some(name) = &event.event {
        write_line(b"event: ", name, out);
    }
    if let Some(id) = &event.id {
        write_line(b"id: ", id, out);
    }
    if let Some(retry) = event.retry_ms {
        write_line(b"retry: ", &retry.to_string(), out);
    }
    write_data(&event.data, out);
}

/// Writes an event that carries only data.
pub fn write_data(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len() + 8);
    let mut rest = data;
    loop {
        let end = memchr::memchr2(b'\n', b'\r', rest);
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
        rest = match after {
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => break,
        };
    }
    out.push(b'\n');
}

/// Writes a comment that readers pass over.
pub fn write_comment(text: &str, out: &mut Vec<u8>) {
    write_line(b": ", text, out);
    out.push(b'\n');
}

/// A one-line field. Characters that would end the line or void the field are left out.
fn write_line(field: &[u8], value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(field);
    out.extend(value.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
    out.push(b'\n');
}

/// A message whose strings hold none of the line ends that only Unicode knows, written as escapes there:
/// some readers of event streams end a line at them, so a server could end an event inside its text and
/// begin one that nobody here has read.
pub fn in_one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(0xC2, 0xE2, &message).is_none() {
        return message;
    }
    let mut out = Vec::with_capacity(message.len() + 64);
    let mut rest = message.as_ref();
    while let Some(at) = memchr::memchr2(0xC2, 0xE2, rest) {
        let (before, found) = rest.split_at(at);
        out.extend_from_slice(before);
        let (escape, bytes): (&[u8], usize) = match found {
            [0xC2, 0x85, ..] => (b"\\u0085", 2),
            [0xE2, 0x80, 0xA8, ..] => (b"\\u2028", 3),
            [0xE2, 0x80, 0xA9, ..] => (b"\\u2029", 3),
            _ => (found.get(..1).unwrap_or_default(), 1),
        };
        out.extend_from_slice(escape);
        rest = found.get(bytes..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.into()
}
