//! Finds the entry that matches a name: the exact one, or the glob with the longest literal prefix.
//! The cost does not grow with the number of entries, whether they are exact names or globs.

use std::borrow::Cow;

use hashbrown::HashMap;
use unicode_normalization::UnicodeNormalization;

pub(crate) use deceptive::{DeceptiveName, deceptive, is_invisible};
use glob::Glob;
use prefix_index::{End, PrefixIndex};

mod deceptive;
pub(crate) mod fold;
mod glob;
mod prefix_index;

/// A name in NFC, and whether globs may match it.
#[derive(Debug)]
pub(crate) struct Name<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) deceptive: Option<DeceptiveName>,
}

impl<'a> Name<'a> {
    pub(crate) fn of(text: &'a str) -> Name<'a> {
        let deceptive = deceptive(text);
        let text = if text.is_ascii() { text.into() } else { nfc(text).into() };
        Name { text, deceptive }
    }
}

pub(crate) fn nfc(text: &str) -> String {
    text.nfc().collect()
}

/// The warning for a deceptive name. Globs never match such a name, and lists show it with the warning.
pub fn name_warning(name: &str) -> Option<&'static str> {
    deceptive(name).map(DeceptiveName::message)
}

/// The index of the entry that matches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    Exact(u32),
    Glob(u32),
}

impl Match {
    pub(crate) const fn entry(self) -> u32 {
        match self {
            Match::Exact(entry) | Match::Glob(entry) => entry,
        }
    }
}

/// Names and globs with the index of the entry each belongs to.
#[derive(Debug, Default)]
pub(crate) struct Names {
    exact: HashMap<Box<str>, u32>,
    globs: PrefixIndex<PrefixIndex<Vec<Middle>>>,
}

/// The part between the literal prefix and the literal suffix of a glob.
#[derive(Debug)]
struct Middle {
    parts: Box<[Box<str>]>,
    entry: u32,
}

/// Two patterns of equal precedence, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tie {
    pub(crate) later: u32,
    pub(crate) earlier: u32,
}

impl Names {
    /// Takes patterns in order; the index of each is its place in that order.
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> (Names, Vec<Tie>) {
        let mut exact = HashMap::new();
        let mut ties = Vec::new();
        let mut globs: Vec<(Glob, u32)> = Vec::new();
        for (pattern, entry) in patterns.zip(0_u32..) {
            match Glob::parse(pattern) {
                Some(glob) => globs.push((glob, entry)),
                None => {
                    if let Some(&earlier) = exact.get(pattern) {
                        ties.push(Tie { later: entry, earlier });
                    } else {
                        exact.insert(pattern.into(), entry);
                    }
                }
            }
        }
        let globs = index(globs);
        ties.extend(find_ties(&globs));
        (Names { exact, globs }, ties)
    }

    /// The entry that matches a name. A deceptive name only matches exactly.
    pub(crate) fn find(&self, name: &Name<'_>) -> Option<Match> {
        match self.exact.get(name.text.as_ref()) {
            Some(&entry) => Some(Match::Exact(entry)),
            None => self.find_glob_where(name, |_| true).map(Match::Glob),
        }
    }

    /// The glob that matches a name among those that `wanted` accepts, even if an exact entry exists.
    pub(crate) fn find_glob_where(
        &self,
        name: &Name<'_>,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if name.deceptive.is_some() { None } else { self.find_glob(&name.text, wanted) }
    }

    /// The same by text alone, for names that were folded.
    pub(crate) fn find_text(&self, text: &str) -> Option<u32> {
        self.exact.get(text).copied().or_else(|| self.find_glob(text, |_| true))
    }

    fn find_glob(&self, name: &str, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        for (prefix_len, suffixes) in self.globs.climb(name) {
            for (suffix_len, middles) in suffixes.climb(name) {
                // A name shorter than prefix and suffix together has no middle.
                let end = name.len() - suffix_len;
                let Some(between) = name.get(prefix_len..end) else { continue };
                let matching = middles.iter().find(|middle| {
                    wanted(middle.entry) && glob::contains_in_order(between, &middle.parts)
                });
                if let Some(middle) = matching {
                    return Some(middle.entry);
                }
            }
        }
        None
    }
}

fn index(globs: Vec<(Glob, u32)>) -> PrefixIndex<PrefixIndex<Vec<Middle>>> {
    let mut by_prefix: HashMap<Box<str>, HashMap<Box<str>, Vec<Middle>>> = HashMap::new();
    for (glob, entry) in globs {
        let suffixes = by_prefix.entry(glob.prefix).or_default();
        suffixes.entry(glob.suffix).or_default().push(Middle { parts: glob.middles, entry });
    }
    let suffix_indexes = by_prefix
        .into_iter()
        .map(|(prefix, suffixes)| (prefix, PrefixIndex::new(End::Back, suffixes.into_iter())));
    PrefixIndex::new(End::Front, suffix_indexes)
}

/// Globs with the same literal prefix tie when some name matches both. That is so exactly when the suffix
/// of one ends in the suffix of the other: the prefix, all middle parts of both and the longer suffix,
/// written one after the other, make such a name.
fn find_ties(globs: &PrefixIndex<PrefixIndex<Vec<Middle>>>) -> Vec<Tie> {
    let mut ties = Vec::new();
    for suffixes in globs.values() {
        for (middles, shorter) in suffixes.with_below() {
            let entries = middles.iter().chain(shorter.into_iter().flatten()).map(|m| m.entry);
            let mut entries: Vec<u32> = entries.collect();
            entries.sort_unstable();
            let pairs = entries.iter().zip(entries.iter().skip(1));
            ties.extend(pairs.map(|(&earlier, &later)| Tie { later, earlier }));
        }
    }
    ties.sort_unstable();
    ties.dedup_by_key(|tie| tie.later);
    ties
}

#[cfg(test)]
mod tests;
