//! A sorted set of byte strings that gives, for a probe, every member the probe begins with, longest
//! first. One binary search finds the longest; links lead down to the shorter ones.

#[derive(Debug)]
pub(super) struct Ladder<T> {
    rungs: Vec<Rung<T>>,
}

#[derive(Debug)]
struct Rung<T> {
    key: Box<[u8]>,
    /// The longest other key that this one begins with.
    below: Option<usize>,
    value: T,
}

impl<T> Default for Ladder<T> {
    fn default() -> Self {
        Ladder { rungs: Vec::new() }
    }
}

impl<T> Ladder<T> {
    /// The keys must differ.
    pub(super) fn new(pairs: impl Iterator<Item = (Box<[u8]>, T)>) -> Ladder<T> {
        let mut rungs: Vec<Rung<T>> =
            pairs.map(|(key, value)| Rung { key, below: None, value }).collect();
        rungs.sort_by(|left, right| left.key.cmp(&right.key));
        let links = links(&rungs);
        for (rung, below) in rungs.iter_mut().zip(links) {
            rung.below = below;
        }
        Ladder { rungs }
    }

    /// The members that a text begins with, longest first, with their length.
    pub(super) fn beginnings<'l>(&'l self, text: &'l str) -> impl Iterator<Item = (usize, &'l T)> {
        let text = text.as_bytes();
        self.climb(move |key| key <= text, move |key| text.starts_with(key))
    }

    /// The same from the other end: the keys are reversed, and the text is read backwards.
    pub(super) fn endings<'l>(&'l self, text: &'l str) -> impl Iterator<Item = (usize, &'l T)> {
        let backwards = move || text.bytes().rev();
        self.climb(
            move |key| key.iter().copied().le(backwards()),
            move |key| {
                key.len() <= text.len() && key.iter().copied().eq(backwards().take(key.len()))
            },
        )
    }

    fn climb(
        &self,
        at_or_before: impl Fn(&[u8]) -> bool,
        is_beginning: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = (usize, &T)> {
        // Every key between a beginning of the probe and the probe itself has that same beginning, so
        // the nearest key at or before the probe is linked to all the beginnings there are.
        let after = self.rungs.partition_point(|rung| at_or_before(&rung.key));
        let nearest = after.checked_sub(1).and_then(|at| self.rungs.get(at));
        let down = |rung: &&Rung<T>| rung.below.and_then(|at| self.rungs.get(at));
        std::iter::successors(nearest, down)
            .filter(move |rung| is_beginning(&rung.key))
            .map(|rung| (rung.key.len(), &rung.value))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.rungs.iter().map(|rung| &rung.value)
    }

    /// Each value with the value of the longest other key that its key begins with.
    pub(super) fn with_parents(&self) -> impl Iterator<Item = (&T, Option<&T>)> {
        let below = |rung: &Rung<T>| rung.below.and_then(|at| self.rungs.get(at));
        self.rungs.iter().map(move |rung| (&rung.value, below(rung).map(|below| &below.value)))
    }
}

fn links<T>(rungs: &[Rung<T>]) -> Vec<Option<usize>> {
    let mut open: Vec<(usize, &[u8])> = Vec::new();
    let mut links = Vec::with_capacity(rungs.len());
    for (at, rung) in rungs.iter().enumerate() {
        while open.last().is_some_and(|(_, key)| !rung.key.starts_with(key)) {
            open.pop();
        }
        links.push(open.last().map(|(below, _)| *below));
        open.push((at, &rung.key));
    }
    links
}
