//! Masks the secrets of a server in its messages. A message stays valid JSON: text in strings and whole numbers
//! are replaced, structure is not.

mod decode;
mod patterns;
mod splice;

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;

use super::error::{NotSent, UpstreamError};
use crate::runtime::offload::{LARGE_TO_EDIT_BYTES, offload};
use crate::runtime::response_buffer::keep_reserved;
use decode::Decoded;

use patterns::SECRET_BYTES_MIN;
pub use patterns::can_be_masked;

/// A shorter secret is not masked at all.
const SHORT_BYTES_MIN: usize = 4;
/// Levels of nested encoding, such as JSON in a JSON string.
const LEVELS_MAX: usize = 4;
/// Encoded text is decoded in windows of this size, so that the copies stay small.
const WINDOW_BYTES: usize = 128 * 1024;
/// Each level of encoding may turn one byte into six (`\u0041`), but rarely all of them.
const ENCODED_GROWTH_MAX: usize = 24;

/// The secrets of one server, as a search automaton. No `Debug`, so that they are never printed.
pub struct Mask {
    search: AhoCorasick,
    /// The label of each pattern.
    labels: Vec<Arc<str>>,
    pattern_bytes_max: usize,
    /// Secrets too short to be masked in messages. They are masked in text for the owner.
    short: Vec<(String, String)>,
}

/// The position of a secret in a message.
#[derive(Clone, Debug)]
struct SecretMatch {
    at: Range<usize>,
    label: Arc<str>,
}

impl SecretMatch {
    /// Whether it is the next piece of a long secret.
    fn follows(&self, last: &SecretMatch) -> bool {
        self.at.start == last.at.end && self.label == last.label
    }
}

impl Mask {
    /// The mask for these named secrets. None if no secret is long enough.
    pub fn new<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s str)>) -> Option<Arc<Mask>> {
        let (mut patterns, mut labels, mut short) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in secrets {
            let label: Arc<str> = label(name).into();
            if (SHORT_BYTES_MIN..SECRET_BYTES_MIN).contains(&value.trim().len()) {
                short.push((label.to_string(), value.trim().to_owned()));
            }
            for word in patterns::of(value) {
                patterns.push(word);
                labels.push(Arc::clone(&label));
            }
        }
        if patterns.is_empty() && short.is_empty() {
            return None;
        }
        let pattern_bytes_max = patterns.iter().map(Vec::len).max().unwrap_or_default();
        // Finds overlapping matches, so that one secret does not hide a part of another.
        let search = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&patterns);
        match search {
            Ok(search) => Some(Arc::new(Mask { search, labels, pattern_bytes_max, short })),
            Err(error) => {
                tracing::error!(%error, "cannot search for the secrets of a server");
                None
            }
        }
    }

    /// The length of the longest pattern.
    pub(super) fn bytes_max(&self) -> usize {
        self.pattern_bytes_max
    }

    /// The message without secrets. A large one is searched on another thread.
    pub(super) async fn message(self: &Arc<Mask>, message: Bytes) -> Bytes {
        if message.len() <= LARGE_TO_EDIT_BYTES {
            return self.message_now(message);
        }
        let mask = Arc::clone(self);
        offload(message.len(), move || mask.message_now(message)).await
    }

    fn message_now(&self, message: Bytes) -> Bytes {
        let found = self.find(&message);
        if found.is_empty() {
            return message;
        }
        let masked = Bytes::from(splice::json(&message, &found));
        keep_reserved(&message, masked)
    }

    /// Stored JSON without secrets.
    pub(crate) fn json(&self, text: String) -> String {
        let found = self.find(text.as_bytes());
        if found.is_empty() {
            return text;
        }
        String::from_utf8_lossy(&splice::json(text.as_bytes(), &found)).into_owned()
    }

    /// Text without secrets.
    pub(super) fn text(&self, mut text: String) -> String {
        for (label, secret) in &self.short {
            if text.contains(secret) {
                text = text.replace(secret, label);
            }
        }
        let found = self.find(text.as_bytes());
        if found.is_empty() {
            return text;
        }
        String::from_utf8_lossy(&splice::text(text.as_bytes(), &found)).into_owned()
    }

    /// An error without secrets, because its text may come from the server.
    pub(super) fn error(&self, error: UpstreamError) -> UpstreamError {
        match error {
            UpstreamError::NeverSent { why } => UpstreamError::NeverSent {
                why: match why {
                    NotSent::NotConnected(error) => {
                        NotSent::NotConnected(Box::new(self.error(*error)))
                    }
                    NotSent::NotRunning(reason) => NotSent::NotRunning(self.text(reason)),
                    NotSent::Other(why) => NotSent::Other(self.text(why)),
                },
            },
            UpstreamError::Lost { why } => UpstreamError::Lost { why: self.text(why) },
            UpstreamError::Malformed { why } => UpstreamError::Malformed { why: self.text(why) },
            UpstreamError::SignIn { why, page } => {
                UpstreamError::SignIn { why: self.text(why), page }
            }
            UpstreamError::Status { status, body } => {
                let found = self.find(&body);
                let body = if found.is_empty() { body } else { splice::text(&body, &found).into() };
                UpstreamError::Status { status, body }
            }
            error @ (UpstreamError::TimedOut { .. }
            | UpstreamError::TooLarge { .. }
            | UpstreamError::NotAsJudged
            | UpstreamError::Closed) => error,
        }
    }

    /// The positions of secrets, sorted and merged.
    fn find(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut found = Vec::new();
        self.find_in(text, &mut |at| at, &mut found);
        if decode::may_be_encoded(text) {
            self.find_encoded(text, &mut found);
        }
        merged(found)
    }

    /// Searches each window of an encoded text at every level of decoding.
    fn find_encoded(&self, text: &[u8], found: &mut Vec<SecretMatch>) {
        let overlap = self.pattern_bytes_max.saturating_mul(ENCODED_GROWTH_MAX);
        let step = WINDOW_BYTES.max(overlap);
        for begin in (0..text.len()).step_by(step) {
            let end = text.len().min(begin + step + overlap);
            let window = text.get(begin..end).unwrap_or_default();
            let mut decoded_text = Decoded::read(window);
            for _ in 0..LEVELS_MAX {
                let Some(now) = decoded_text else { break };
                let origin = |at: Range<usize>| {
                    let Range { start, end } = now.origin(at);
                    begin + start..begin + end
                };
                self.find_in(&now.bytes, &mut { origin }, found);
                decoded_text = now.decoded_again();
            }
        }
    }

    fn find_in(
        &self,
        text: &[u8],
        origin: &mut impl FnMut(Range<usize>) -> Range<usize>,
        found: &mut Vec<SecretMatch>,
    ) {
        for one in self.search.find_overlapping_iter(text) {
            let Some(label) = self.labels.get(one.pattern().as_usize()) else { continue };
            let at = origin(one.range());
            // Text that repeats one byte matches at every position; merged into one range.
            if let Some(last) = found.last_mut()
                && last.at.start <= at.start
                && at.start < last.at.end
            {
                last.at.end = last.at.end.max(at.end);
                continue;
            }
            found.push(SecretMatch { at, label: Arc::clone(label) });
        }
    }
}

/// The label of a secret. Its name may contain anything, so only safe characters are kept.
fn label(name: &str) -> String {
    const NAME_CHARS_MAX: usize = 64;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    format!("[secret {}]", name.chars().take(NAME_CHARS_MAX).map(plain).collect::<String>())
}

fn merged(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    found.sort_by_key(|one| (one.at.start, std::cmp::Reverse(one.at.end)));
    let mut all: Vec<SecretMatch> = Vec::with_capacity(found.len());
    for one in found {
        match all.last_mut() {
            Some(last) if one.at.start < last.at.end || one.follows(last) => {
                last.at.end = last.at.end.max(one.at.end);
            }
            _ => all.push(one),
        }
    }
    all
}

#[cfg(test)]
mod tests;
