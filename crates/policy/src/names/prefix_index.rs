//! An index of prefixes (or suffixes): for a name, every member it begins (or ends) with, longest first.
//! A binary search over the member lengths finds the longest, so the number of members does not matter;
//! links lead to the shorter ones.

use std::collections::HashMap;

/// Which end of a name the members are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum End {
    #[default]
    Front,
    Back,
}

impl End {
    /// The first or last so many bytes of a name.
    fn take(self, name: &[u8], length: usize) -> Option<&[u8]> {
        match self {
            End::Front => name.get(..length),
            End::Back => name.get(name.len().checked_sub(length)?..),
        }
    }
}

#[derive(Debug)]
pub(super) struct PrefixIndex<T> {
    end: End,
    rungs: Vec<Rung<T>>,
    /// The lengths that occur, ascending.
    lengths: Vec<usize>,
    /// Every member, and every part of one where the search must turn towards the longer lengths, with
    /// the longest member it begins with.
    signs: HashMap<Box<[u8]>, Option<usize>>,
}

#[derive(Debug)]
struct Rung<T> {
    length: usize,
    /// The longest other member that this one begins with.
    below: Option<usize>,
    value: T,
}

impl<T> Default for PrefixIndex<T> {
    fn default() -> Self {
        PrefixIndex {
            end: End::default(),
            rungs: Vec::new(),
            lengths: Vec::new(),
            signs: HashMap::new(),
        }
    }
}

impl<T> PrefixIndex<T> {
    /// The members must differ.
    pub(super) fn new(end: End, members: impl Iterator<Item = (Box<str>, T)>) -> PrefixIndex<T> {
        let mut members: Vec<(Box<str>, T)> = members.collect();
        members.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
        let mut lengths: Vec<usize> = members.iter().map(|(text, _)| text.len()).collect();
        lengths.dedup();
        let known: HashMap<&[u8], usize> =
            members.iter().enumerate().map(|(at, (text, _))| (text.as_bytes(), at)).collect();
        // The longest member no longer than `most` that a text begins with.
        let longest = |text: &[u8], most: usize| {
            let shorter = lengths.iter().rev().filter(|length| **length <= most);
            shorter.copied().find_map(|length| known.get(end.take(text, length)?)).copied()
        };

        let mut signs = HashMap::new();
        let mut belows = Vec::with_capacity(members.len());
        for (text, _) in &members {
            let text = text.as_bytes();
            belows.push(text.len().checked_sub(1).and_then(|most| longest(text, most)));
            for length in turns(&lengths, text.len()) {
                if let Some(part) = end.take(text, length) {
                    signs.entry(part.into()).or_insert_with(|| longest(part, length));
                }
            }
        }
        let rungs = members.into_iter().zip(belows);
        let rungs = rungs.map(|((text, value), below)| Rung { length: text.len(), below, value });
        PrefixIndex { end, rungs: rungs.collect(), lengths, signs }
    }

    /// The members that a name begins with, longest first, with their length.
    pub(super) fn climb(&self, name: &str) -> impl Iterator<Item = (usize, &T)> {
        let down = |rung: &&Rung<T>| rung.below.and_then(|at| self.rungs.get(at));
        std::iter::successors(self.longest(name.as_bytes()), down)
            .map(|rung| (rung.length, &rung.value))
    }

    /// A sign says that a longer member may follow, so the search goes on above it; where there is none,
    /// no member of that length or on the way to a longer one begins like this.
    fn longest(&self, name: &[u8]) -> Option<&Rung<T>> {
        let mut best = None;
        let (mut low, mut high) = (0, self.lengths.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let part = self.lengths.get(middle).and_then(|length| self.end.take(name, *length));
            match part.and_then(|part| self.signs.get(part)) {
                Some(found) => {
                    best = *found;
                    low = middle + 1;
                }
                None => high = middle,
            }
        }
        best.and_then(|at| self.rungs.get(at))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.rungs.iter().map(|rung| &rung.value)
    }

    /// Each value with the value of the longest other member that its own begins with.
    pub(super) fn with_below(&self) -> impl Iterator<Item = (&T, Option<&T>)> {
        let below = |rung: &Rung<T>| rung.below.and_then(|at| self.rungs.get(at));
        self.rungs.iter().map(move |rung| (&rung.value, below(rung).map(|below| &below.value)))
    }
}

/// The lengths at which a search for a member of this length turns towards the longer ones, its own last.
fn turns(lengths: &[usize], wanted: usize) -> Vec<usize> {
    let mut turns = Vec::new();
    let (mut low, mut high) = (0, lengths.len());
    while let Some(&length) = lengths.get(usize::midpoint(low, high)).filter(|_| low < high) {
        if length <= wanted {
            turns.push(length);
            low = usize::midpoint(low, high) + 1;
        } else {
            high = usize::midpoint(low, high);
        }
    }
    turns
}
