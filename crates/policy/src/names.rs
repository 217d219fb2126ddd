//! Finds the entry that speaks for a name: the exact one, or the glob with the longest literal prefix.
//! The cost does not grow with the number of entries, whether they are exact names or globs.

use std::borrow::Cow;

use hashbrown::HashMap;
use unicode_normalization::UnicodeNormalization;

use glob::Glob;
use ladder::{End, Ladder};
pub(crate) use odd::{Oddness, oddness};

pub(crate) mod fold;
mod glob;
mod ladder;
mod odd;

/// A name as it is compared: in NFC, and whether globs may speak for it.
#[derive(Debug)]
pub(crate) struct Name<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) oddness: Option<Oddness>,
}

impl<'a> Name<'a> {
    pub(crate) fn of(text: &'a str) -> Name<'a> {
        let oddness = oddness(text);
        let text = if text.is_ascii() { text.into() } else { nfc(text).into() };
        Name { text, oddness }
    }
}

pub(crate) fn nfc(text: &str) -> String {
    text.nfc().collect()
}

/// Why a name is not what it seems, when it is not: globs never speak for it, and lists show it with this
/// warning.
pub fn name_warning(name: &str) -> Option<&'static str> {
    oddness(name).map(Oddness::words)
}

/// The index of the entry that speaks for a name.
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
    globs: Ladder<Ladder<Vec<Middle>>>,
}

/// What stands between the literal prefix and the literal suffix of a glob.
#[derive(Debug)]
struct Middle {
    parts: Box<[Box<str>]>,
    entry: u32,
}

/// Two patterns between which no order exists: the later one and the earlier one, by index.
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

    /// The entry that speaks for a name. An odd name is only ever found exactly.
    pub(crate) fn find(&self, name: &Name<'_>) -> Option<Match> {
        match self.exact.get(name.text.as_ref()) {
            Some(&entry) => Some(Match::Exact(entry)),
            None => self.find_glob_where(name, |_| true).map(Match::Glob),
        }
    }

    /// The glob that speaks for a name among those that are wanted, whether or not the name is written out.
    pub(crate) fn find_glob_where(
        &self,
        name: &Name<'_>,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if name.oddness.is_some() { None } else { self.find_glob(&name.text, wanted) }
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

fn index(globs: Vec<(Glob, u32)>) -> Ladder<Ladder<Vec<Middle>>> {
    let mut by_prefix: HashMap<Box<str>, HashMap<Box<str>, Vec<Middle>>> = HashMap::new();
    for (glob, entry) in globs {
        let suffixes = by_prefix.entry(glob.prefix).or_default();
        suffixes.entry(glob.suffix).or_default().push(Middle { parts: glob.middles, entry });
    }
    let ladders = by_prefix
        .into_iter()
        .map(|(prefix, suffixes)| (prefix, Ladder::new(End::Back, suffixes.into_iter())));
    Ladder::new(End::Front, ladders)
}

/// Globs with the same literal prefix tie when some name matches both. That is so exactly when the suffix
/// of one ends in the suffix of the other: the prefix, all middle parts of both and the longer suffix,
/// written one after the other, make such a name.
fn find_ties(globs: &Ladder<Ladder<Vec<Middle>>>) -> Vec<Tie> {
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
