//! Calls that a newer server answered at once though their older client wanted a task: the result waits
//! here, as a task that has ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Results kept at one time, and the bytes of all of them; the oldest go first.
const RESULTS_MAX: usize = 1024;
const RESULTS_BYTES_MAX: usize = 32 << 20;
/// A larger result is not kept; its client is told to call without `task`.
pub(crate) const RESULT_BYTES_MAX: usize = 4 << 20;
/// So long one is kept, whatever its client asks for.
pub(crate) const KEPT_MS_MAX: i64 = 10 * 60 * 1000;

#[derive(Default)]
pub(crate) struct AtOnce {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    kept: VecDeque<Kept>,
    bytes: usize,
}

/// One result, as its server would tell of the task.
pub(crate) struct Kept {
    pub(crate) grant: String,
    pub(crate) server: String,
    pub(crate) id: String,
    /// JSON, in the words of the newer era.
    pub(crate) task: String,
    pub(crate) until_us: i64,
}

impl Inside {
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.bytes = self.bytes.saturating_sub(oldest.task.len());
        }
    }
}

impl AtOnce {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, kept: Kept) {
        let mut inside = self.inside();
        inside.bytes += kept.task.len();
        inside.kept.push_back(kept);
        while inside.kept.len() > RESULTS_MAX || inside.bytes > RESULTS_BYTES_MAX {
            inside.drop_oldest();
        }
    }

    /// What there is to tell of a task, if it is one of these.
    pub(crate) fn find(&self, grant: &str, server: &str, id: &str, now_us: i64) -> Option<String> {
        let mut inside = self.inside();
        while inside.kept.front().is_some_and(|oldest| oldest.until_us <= now_us) {
            inside.drop_oldest();
        }
        let is_it = |kept: &&Kept| kept.id == id && kept.grant == grant && kept.server == server;
        let found = inside.kept.iter().filter(|kept| kept.until_us > now_us).find(is_it);
        found.map(|kept| kept.task.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: usize, bytes: usize, until_us: i64) -> Kept {
        let (grant, server, id) = ("g".to_owned(), "s".to_owned(), id.to_string());
        Kept { grant, server, id, task: "x".repeat(bytes), until_us }
    }

    #[test]
    fn results_are_kept_for_their_grant_and_for_a_time() {
        let all = AtOnce::default();
        all.keep(kept(1, 1, 100));
        let find = |grant: &str, now_us: i64| all.find(grant, "s", "1", now_us).is_some();
        assert!(find("g", 99));
        assert!(!find("other", 99));
        assert!(!find("g", 100), "its time is over");
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many_or_too_large_ones() {
        let all = AtOnce::default();
        let has = |id: usize| all.find("g", "s", &id.to_string(), 0).is_some();
        (0..=RESULTS_MAX).for_each(|id| all.keep(kept(id, 1, 1)));
        assert!(!has(0) && has(1) && has(RESULTS_MAX));
        all.keep(kept(5000, RESULTS_BYTES_MAX - 1, 1));
        assert!(!has(RESULTS_MAX - 1) && has(RESULTS_MAX) && has(5000));
    }
}
