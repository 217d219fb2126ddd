//! The type for values that must never be shown, and redaction for text that may quote them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::hex;

/// The replacement for a secret in all output.
pub const SHOWN: &str = "[secret]";

/// A shorter value is not redacted by [`redact_known`]: replacing every `a` or `1` would make a log
/// unreadable, and so short a value protects nothing.
pub const KNOWN_BYTES_MIN: usize = 4;

/// A value that prints as `[secret]`, is wiped when dropped, and is read by [`Secret::expose`] only.
#[derive(Clone)]
pub struct Secret<T: Zeroize = String>(T);

impl<T: Zeroize> Secret<T> {
    pub fn new(value: impl Into<T>) -> Secret<T> {
        Secret(value.into())
    }

    /// The value itself. Every use deserves a look in a review.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

impl<T: Zeroize> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    /// Constant-time comparison.
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().ct_eq(other.0.as_ref()).into()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

/// `text` with every known secret redacted, also without its scheme (`Bearer …`), escaped as JSON
/// or in a URL, or in base64.
pub fn redact_known<'t>(text: &'t str, secrets: &[&str]) -> Cow<'t, str> {
    let needles: BTreeSet<String> = secrets.iter().flat_map(|secret| spellings(secret)).collect();
    let mut found: Vec<Range<usize>> = needles
        .iter()
        .flat_map(|needle| text.match_indices(needle.as_str()))
        .map(|(start, part)| start..start + part.len())
        .collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|range| range.start);
    Cow::Owned(blank(text, &found))
}

fn spellings(secret: &str) -> Vec<String> {
    let last_word = secret.split_whitespace().next_back().unwrap_or_default();
    let mut all = Vec::new();
    for plain in [secret, secret.trim(), last_word] {
        if plain.len() < KNOWN_BYTES_MIN {
            continue;
        }
        let quoted = serde_json::Value::from(plain).to_string();
        all.extend(quoted.get(1..quoted.len() - 1).map(str::to_owned));
        all.push(url_escaped(plain));
        all.push(STANDARD_NO_PAD.encode(plain));
        all.push(URL_SAFE_NO_PAD.encode(plain));
        all.push(plain.to_owned());
    }
    all
}

fn url_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex::encode(&[byte]).to_ascii_uppercase());
        }
    }
    out
}

/// Redacts sorted ranges; overlapping ranges are merged, so that no tail of a longer secret
/// remains.
fn blank(text: &str, ranges: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept_to = 0;
    for range in ranges {
        if range.start >= kept_to {
            out.push_str(text.get(kept_to..range.start).unwrap_or_default());
            out.push_str(SHOWN);
        }
        kept_to = kept_to.max(range.end);
    }
    out.push_str(text.get(kept_to..).unwrap_or_default());
    out
}
