//! The hash chain: how a row is bound to the previous one, and the format of a journal line.

use sha2::{Digest, Sha256};

/// SHA-256 as 64 lower-case hexadecimal digits, the form in which a hash is stored and hashed.
pub(crate) type Hash = [u8; HASH_BYTES];

pub(crate) const HASH_BYTES: usize = 64;

/// The previous hash of a ledger's first row.
pub(crate) const GENESIS: Hash = [b'0'; HASH_BYTES];

pub(crate) fn link(previous: &Hash, json: &[u8]) -> Hash {
    hex(&Sha256::new().chain_update(previous).chain_update(json).finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> Hash {
    let mut out = GENESIS;
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        if let [high, low] = pair {
            *high = digit(byte >> 4);
            *low = digit(byte & 15);
        }
    }
    out
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// One line without its newline, split into the stored hash and the JSON bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) hash: &'a Hash,
    pub(crate) json: &'a [u8],
}

impl<'a> Line<'a> {
    pub(crate) fn split(bytes: &'a [u8]) -> Option<Line<'a>> {
        let (hash, rest) = bytes.split_first_chunk::<HASH_BYTES>()?;
        let json = rest.strip_prefix(b" ")?;
        let is_hex = hash.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (is_hex && json.first() == Some(&b'{')).then_some(Line { hash, json })
    }

    pub(crate) fn follows(&self, previous: &Hash) -> bool {
        link(previous, self.json) == *self.hash
    }
}

/// Bytes without a newline that our own writer may have left when it died in the middle of a row.
pub(crate) fn is_beginning_of_a_line(bytes: &[u8]) -> bool {
    let hash = bytes.iter().take(HASH_BYTES);
    let mut rest = bytes.iter().skip(HASH_BYTES);
    hash.clone().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && rest.next().is_none_or(|b| *b == b' ')
        && rest.next().is_none_or(|b| *b == b'{')
        && !bytes.contains(&b'\n')
}

pub(crate) fn as_text(hash: &Hash) -> &str {
    std::str::from_utf8(hash).unwrap_or_default()
}

pub(crate) fn parse_hash(text: &str) -> Option<Hash> {
    let hash: Hash = text.as_bytes().try_into().ok()?;
    hash.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).then_some(hash)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{GENESIS, Line, as_text, is_beginning_of_a_line, link, parse_hash};

    #[test]
    fn a_link_is_the_hash_of_the_previous_digits_and_the_json() {
        // printf '%064d{}' 0 | sha256sum
        let expected = "5508d2b710e64bc470079e1b211d9c58e21011e59d0559e422345dc19d659a75";
        let linked = link(&GENESIS, b"{}");
        assert_eq!(as_text(&linked), expected);
        let line = [&linked[..], b" {}"].concat();
        assert!(Line::split(&line).unwrap().follows(&GENESIS));
        assert!(!Line::split(&line).unwrap().follows(&linked));
        assert_eq!(parse_hash(as_text(&linked)), Some(linked));
    }

    #[test]
    fn only_our_own_lines_split_and_only_their_beginnings_count_as_torn() {
        let line = [&link(&GENESIS, b"{}")[..], b" {}"].concat();
        for cut in 0..line.len() {
            let begun = line.get(..cut).unwrap();
            assert!(is_beginning_of_a_line(begun), "{cut}");
            assert_eq!(Line::split(begun).is_some(), cut > 65, "{cut}");
        }
        for foreign in [&b"garbage"[..], b"\0\0\0", b"0123 {}", b"abc\nabc", &[b'a'; 65][..]] {
            assert!(!is_beginning_of_a_line(foreign), "{foreign:?}");
            assert!(Line::split(foreign).is_none());
        }
    }
}
