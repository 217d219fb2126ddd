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

    /// The members that the probe begins with, longest first, with their length.
    pub(super) fn climb<P>(&self, probe: P) -> impl Iterator<Item = (usize, &T)>
    where
        P: Iterator<Item = u8> + Clone,
    {
        // Every key between a beginning of the probe and the probe itself has that same beginning, so
        // the nearest key at or before the probe is linked to all the beginnings there are.
        let after = self.rungs.partition_point(|rung| rung.key.iter().copied().le(probe.clone()));
        let nearest = after.checked_sub(1).and_then(|at| self.rungs.get(at));
        let down = |rung: &&Rung<T>| rung.below.and_then(|at| self.rungs.get(at));
        std::iter::successors(nearest, down)
            .filter(move |rung| begins_with(probe.clone(), &rung.key))
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

fn begins_with(mut probe: impl Iterator<Item = u8>, key: &[u8]) -> bool {
    key.iter().all(|byte| probe.next() == Some(*byte))
}
