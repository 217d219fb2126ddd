//! Single records, such as a profile: one row that changes only when its content changes, whatever
//! the order of keys.

use policy::json::{Bounds, Doc, canonical};
use sha2::{Digest, Sha256};

/// The id of the row.
pub const CURRENT: &str = "current";

/// The content of a snapshot, independent of the order of keys and of white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot([u8; 32]);

impl Snapshot {
    /// `None` if the text is not JSON.
    pub fn of(text: &str) -> Option<Snapshot> {
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).ok()?;
        let mut bytes = Vec::with_capacity(text.len());
        canonical(doc.root(), &mut bytes);
        Some(Snapshot(Sha256::digest(&bytes).into()))
    }
}

/// Do two texts have the same content?
pub fn is_same(one: &str, other: &str) -> bool {
    match (Snapshot::of(one), Snapshot::of(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_counts_and_its_order_does_not() {
        assert!(is_same(r#"{"a":1,"b":"x"}"#, r#"{ "b" : "x", "a" : 1.0 }"#));
        assert!(!is_same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!is_same(r#"{"a":1}"#, "not json"));
    }
}
