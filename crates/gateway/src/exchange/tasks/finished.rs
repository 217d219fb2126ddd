//! Results of calls that a modern server answered at once although the legacy client wanted a task. They are
//! kept as finished tasks.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number and total size of results. The oldest are evicted first.
const RESULTS_MAX: usize = 1024;
const RESULTS_BYTES_MAX: usize = 32 << 20;
/// A larger result is not kept; its client is told to call without `task`.
pub(crate) const RESULT_BYTES_MAX: usize = 4 << 20;
/// The longest time one is kept.
pub(crate) const KEPT_MS_MAX: i64 = 10 * 60 * 1000;

#[derive(Default)]
pub(crate) struct FinishedTasks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: VecDeque<FinishedTask>,
    bytes: usize,
}

/// One result, as a finished task of its server.
pub(crate) struct FinishedTask {
    pub(crate) grant: String,
    pub(crate) server: String,
    pub(crate) id: String,
    /// JSON in the modern form.
    pub(crate) task: String,
    pub(crate) until_us: i64,
}

impl State {
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.bytes = self.bytes.saturating_sub(oldest.task.len());
        }
    }
}

impl FinishedTasks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, kept: FinishedTask) {
        let mut state = self.state();
        state.bytes += kept.task.len();
        state.kept.push_back(kept);
        while state.kept.len() > RESULTS_MAX || state.bytes > RESULTS_BYTES_MAX {
            state.drop_oldest();
        }
    }

    /// The stored task with this id.
    pub(crate) fn find(&self, grant: &str, server: &str, id: &str, now_us: i64) -> Option<String> {
        let mut state = self.state();
        while state.kept.front().is_some_and(|oldest| oldest.until_us <= now_us) {
            state.drop_oldest();
        }
        let is_it =
            |kept: &&FinishedTask| kept.id == id && kept.grant == grant && kept.server == server;
        let found = state.kept.iter().filter(|kept| kept.until_us > now_us).find(is_it);
        found.map(|kept| kept.task.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: usize, bytes: usize, until_us: i64) -> FinishedTask {
        let (grant, server, id) = ("g".to_owned(), "s".to_owned(), id.to_string());
        FinishedTask { grant, server, id, task: "x".repeat(bytes), until_us }
    }

    #[test]
    fn results_are_kept_for_their_grant_and_for_a_time() {
        let all = FinishedTasks::default();
        all.keep(kept(1, 1, 100));
        let find = |grant: &str, now_us: i64| all.find(grant, "s", "1", now_us).is_some();
        assert!(find("g", 99));
        assert!(!find("other", 99));
        assert!(!find("g", 100), "its time is over");
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many_or_too_large_ones() {
        let all = FinishedTasks::default();
        let has = |id: usize| all.find("g", "s", &id.to_string(), 0).is_some();
        (0..=RESULTS_MAX).for_each(|id| all.keep(kept(id, 1, 1)));
        assert!(!has(0) && has(1) && has(RESULTS_MAX));
        all.keep(kept(5000, RESULTS_BYTES_MAX - 1, 1));
        assert!(!has(RESULTS_MAX - 1) && has(RESULTS_MAX) && has(5000));
    }
}
