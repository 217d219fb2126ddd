//! Replaces the secrets that the gate gave to a server wherever they occur in what the server says.
//! A message stays valid JSON: text inside strings and whole numbers are replaced, structure is not.

mod decode;
mod patterns;
mod splice;

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;

use super::error::UpstreamError;
use crate::aside::{LARGE_TO_EDIT_BYTES, aside};
use crate::room::made_from;
use decode::View;

pub use patterns::SECRET_BYTES_MIN;

/// A secret shorter than this is not even replaced in what the owner reads.
const SHORT_BYTES_MIN: usize = 4;
/// How often an encoding may be inside another one, such as JSON in a string of JSON.
const LEVELS_MAX: usize = 4;
/// Encoded text is decoded in windows of this size, so that the copies stay small.
const WINDOW_BYTES: usize = 128 * 1024;
/// Each level of encoding may write one byte as up to six (`\u0041`), but rarely all of them.
const ENCODED_GROWTH_MAX: usize = 24;

/// The secrets of one server, ready to be searched for. Not for showing.
pub struct Mask {
    search: AhoCorasick,
    /// The label of each pattern.
    labels: Vec<Arc<str>>,
    pattern_bytes_max: usize,
    /// Secrets too short to be searched for in messages. What the owner reads is without them too.
    short: Vec<(String, String)>,
}

/// A part of a message that is a secret.
#[derive(Clone, Debug)]
struct Found {
    at: Range<usize>,
    label: Arc<str>,
}

impl Found {
    /// Whether it is the next piece of a secret that is searched for in pieces.
    fn follows(&self, last: &Found) -> bool {
        self.at.start == last.at.end && self.label == last.label
    }
}

impl Mask {
    /// The mask for these secrets, each with the name that is shown for it. None where no secret is
    /// long enough to be searched for.
    pub fn new<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s str)>) -> Option<Arc<Mask>> {
        let (mut words, mut labels, mut short) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in secrets {
            let label: Arc<str> = label(name).into();
            if (SHORT_BYTES_MIN..SECRET_BYTES_MIN).contains(&value.trim().len()) {
                short.push((label.to_string(), value.trim().to_owned()));
            }
            for word in patterns::of(value) {
                words.push(word);
                labels.push(Arc::clone(&label));
            }
        }
        if words.is_empty() && short.is_empty() {
            return None;
        }
        let pattern_bytes_max = words.iter().map(Vec::len).max().unwrap_or_default();
        // Overlapping matches are all found, so that one secret does not hide the rest of another.
        let search = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&words);
        match search {
            Ok(search) => Some(Arc::new(Mask { search, labels, pattern_bytes_max, short })),
            Err(error) => {
                tracing::error!(%error, "the secrets of a server cannot be searched for");
                None
            }
        }
    }

    /// The length of the longest form of a secret.
    pub(super) fn bytes_max(&self) -> usize {
        self.pattern_bytes_max
    }

    /// The message without secrets. A large one is searched on another thread.
    pub(super) async fn message(self: &Arc<Mask>, message: Bytes) -> Bytes {
        if message.len() <= LARGE_TO_EDIT_BYTES {
            return self.message_now(message);
        }
        let mask = Arc::clone(self);
        aside(message.len(), move || mask.message_now(message)).await
    }

    fn message_now(&self, message: Bytes) -> Bytes {
        let found = self.find(&message);
        if found.is_empty() {
            return message;
        }
        let masked = Bytes::from(splice::json(&message, &found));
        made_from(&message, masked)
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

    /// An error whose words may come from the server, without secrets.
    pub(super) fn error(&self, error: UpstreamError) -> UpstreamError {
        match error {
            UpstreamError::NeverSent { why } => UpstreamError::NeverSent { why: self.text(why) },
            UpstreamError::Lost { why } => UpstreamError::Lost { why: self.text(why) },
            UpstreamError::Garbled { why } => UpstreamError::Garbled { why: self.text(why) },
            UpstreamError::Status { status, body } => {
                let found = self.find(&body);
                let body = if found.is_empty() { body } else { splice::text(&body, &found).into() };
                UpstreamError::Status { status, body }
            }
            error @ (UpstreamError::TimedOut { .. }
            | UpstreamError::TooLarge { .. }
            | UpstreamError::Closed) => error,
        }
    }

    /// Where secrets are, in order and without overlaps.
    fn find(&self, text: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        self.find_in(text, &mut |at| at, &mut found);
        if decode::may_be_encoded(text) {
            self.find_encoded(text, &mut found);
        }
        merged(found)
    }

    /// Searches each window of an encoded text at every level of decoding.
    fn find_encoded(&self, text: &[u8], found: &mut Vec<Found>) {
        let overlap = self.pattern_bytes_max.saturating_mul(ENCODED_GROWTH_MAX);
        let step = WINDOW_BYTES.max(overlap);
        for begin in (0..text.len()).step_by(step) {
            let end = text.len().min(begin + step + overlap);
            let window = text.get(begin..end).unwrap_or_default();
            let mut view = View::decoded(window);
            for _ in 0..LEVELS_MAX {
                let Some(now) = view else { break };
                let place = |at: Range<usize>| {
                    let Range { start, end } = now.place(at);
                    begin + start..begin + end
                };
                self.find_in(&now.bytes, &mut { place }, found);
                view = now.decoded_again();
            }
        }
    }

    fn find_in(
        &self,
        text: &[u8],
        place: &mut impl FnMut(Range<usize>) -> Range<usize>,
        found: &mut Vec<Found>,
    ) {
        for one in self.search.find_overlapping_iter(text) {
            let Some(label) = self.labels.get(one.pattern().as_usize()) else { continue };
            let at = place(one.range());
            // A text that repeats one byte matches at each place; it is one range.
            if let Some(last) = found.last_mut()
                && last.at.start <= at.start
                && at.start < last.at.end
            {
                last.at.end = last.at.end.max(at.end);
                continue;
            }
            found.push(Found { at, label: Arc::clone(label) });
        }
    }
}

/// What stands in place of a secret. Its name may be anything, so only plain characters of it are kept.
fn label(name: &str) -> String {
    const NAME_CHARS_MAX: usize = 64;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    format!("[secret {}]", name.chars().take(NAME_CHARS_MAX).map(plain).collect::<String>())
}

fn merged(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|one| (one.at.start, std::cmp::Reverse(one.at.end)));
    let mut all: Vec<Found> = Vec::with_capacity(found.len());
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
