//! The size limits of a policy, as a table for the reference. A policy beyond any of them fails to load
//! with the position named.

use crate::duration::SECONDS_MAX;
use crate::entry::RULES_MAX;
use crate::limits::COUNTER_CHARACTERS_MAX;
use crate::operator::PATTERN_BYTES_MAX;
use crate::shape::ENTRIES_MAX;
use crate::tree::BOUNDS;

/// One bound of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub description: &'static str,
    pub max: u64,
}

/// Every bound of the language.
pub fn bounds() -> Vec<Bound> {
    let row =
        |description, max: usize| Bound { description, max: max.try_into().unwrap_or(u64::MAX) };
    vec![
        row("bytes of a document", BOUNDS.bytes_max),
        row("entries of one section, or names of one list", ENTRIES_MAX),
        row("rules and limits of one entry", RULES_MAX),
        row("levels of nesting", BOUNDS.depth_max),
        row("bytes of one text", BOUNDS.string_bytes_max),
        row("characters of one number", BOUNDS.number_bytes_max),
        row("values and keys of a document", BOUNDS.nodes_max),
        row("bytes of all compiled patterns", PATTERN_BYTES_MAX),
        row("characters of a counter's name", COUNTER_CHARACTERS_MAX),
        Bound { description: "seconds of a window or a timeout", max: SECONDS_MAX },
    ]
}
