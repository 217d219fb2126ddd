//! Values of mirrored headers: visible ASCII as it is, everything else in the base64 form of the
//! protocol, `=?base64?...?=`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::HeaderValue;

use crate::error::ProtocolError;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// The value of a header that may be sent once; `None` when it was not sent.
pub(super) fn single<'h>(
    headers: &'h HeaderMap,
    name: &str,
) -> Result<Option<&'h str>, ProtocolError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ProtocolError::mismatch(format!(
            "the header `{name}` was sent more than once"
        )));
    }
    let text = value.to_str();
    let text = text.map_err(|_| {
        ProtocolError::mismatch(format!("the header `{name}` contains non-ASCII characters"))
    })?;
    Ok(Some(text.trim_matches([' ', '\t'])))
}

/// The decoded text of a header value; `None` when its base64 is invalid.
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
    // Both forms are visible ASCII, spaces and tabs, which every header may contain.
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}

fn looks_encoded(text: &str) -> bool {
    text.starts_with(PREFIX) && text.ends_with(SUFFIX)
}
