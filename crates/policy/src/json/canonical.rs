//! One spelling per meaning, for digests: RFC 8785 wherever its numbers reach, exact decimals beyond.

use super::bounds::Bounds;
use super::doc::{Doc, Kind, Value};
use super::number::ExactNumber;
use super::text::write_string;

/// Writes a value with sorted keys, the fewest escapes and normalised numbers. Values that differ only
/// in key order, white space, escapes or the spelling of numbers give the same bytes.
pub fn canonical(value: Value<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        _ if value.is_unopened() => write_unopened(value, out),
        Kind::Null | Kind::Bool => out.extend_from_slice(value.raw().as_bytes()),
        Kind::Number => write_number(value.raw(), out),
        Kind::String => write_string(&value.as_str().unwrap_or_default(), out),
        Kind::Array => write_array(value, out),
        Kind::Object => write_object(value, out),
    }
}

fn write_array(array: Value<'_>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, item) in array.items().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        canonical(item, out);
    }
    out.push(b']');
}

fn write_object(object: Value<'_>, out: &mut Vec<u8>) {
    let mut members: Vec<_> = object.entries().map(|(key, value)| (key.text(), value)).collect();
    // RFC 8785 orders keys by their UTF-16 units, which for ASCII are its bytes. The sort is stable,
    // so even repeated keys stay put.
    if members.iter().all(|(key, _)| key.is_ascii()) {
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
    } else {
        members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    }
    out.push(b'{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        canonical(*value, out);
    }
    out.push(b'}');
}

/// Whether a text or a number is certainly written as [`canonical`] writes it. False for all else, and
/// where it would take writing it to find out.
pub fn is_surely_canonical(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::String => value.is_unescaped(),
        Kind::Number => is_small_whole(value.raw()),
        _ => false,
    }
}

/// Digits only, and few enough to be written plainly; the grammar forbids zeros in front.
fn is_small_whole(text: &str) -> bool {
    text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number whose exponent needs more than 64 bits stays as written.
fn write_number(text: &str, out: &mut Vec<u8>) {
    if is_small_whole(text) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    match ExactNumber::of(text) {
        Some(number) => number.write(out),
        None => out.extend_from_slice(text.as_bytes()),
    }
}

/// Reads what a shallow document passed over. It was valid then, so it is valid now.
fn write_unopened(value: Value<'_>, out: &mut Vec<u8>) {
    let raw = value.raw().as_bytes();
    let unlimited = Bounds {
        bytes_max: raw.len(),
        nodes_max: raw.len(),
        depth_max: usize::MAX,
        ..Bounds::ANSWER
    };
    match Doc::read(raw, &unlimited) {
        Ok(doc) => canonical(doc.root(), out),
        Err(_) => out.extend_from_slice(raw),
    }
}
