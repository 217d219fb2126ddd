//! Values in mirrored headers: plain ASCII as it is, everything else in the base64 form of the
//! protocol, `=?base64?...?=`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::HeaderValue;

use super::refused::Refused;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// The value of a header that may be sent once; `None` when it was not sent.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Refused> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refused::mismatch(format!("the header `{name}` was sent more than once")));
    }
    let text = value.to_str();
    let text = text.map_err(|_| {
        Refused::mismatch(format!("the header `{name}` holds characters beyond ASCII"))
    })?;
    Ok(Some(text.trim_matches([' ', '\t'])))
}

/// The text that a header value stands for; `None` when its base64 is broken.
pub(super) fn decode(value: &str) -> Option<String> {
    if !looks_encoded(value) {
        return Some(value.to_owned());
    }
    let inside = value.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    String::from_utf8(STANDARD.decode(inside).ok()?).ok()
}

/// A header value for any text.
pub(super) fn encode(text: &str) -> HeaderValue {
    let plain = !text.is_empty()
        && !looks_encoded(text)
        && text.trim().len() == text.len()
        && text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let encoded = || format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text));
    let value = if plain { text.to_owned() } else { encoded() };
    // Both forms are visible ASCII, spaces and tabs, which every header may hold.
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}

fn looks_encoded(text: &str) -> bool {
    text.starts_with(PREFIX) && text.ends_with(SUFFIX)
}
