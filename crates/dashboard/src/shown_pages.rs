//! The consent pages that were shown and not answered yet. Each is answered once, so that a recorded form cannot be
//! sent again. They are kept in memory: after a restart the client starts again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use subtle::ConstantTimeEq as _;

const PAGES_MAX: usize = 64;
/// As long as clients wait for an answer.
const PAGE_US_MAX: i64 = 15 * 60 * 1_000_000;

#[derive(Default)]
pub(crate) struct ShownPages {
    /// The binding of each page and when it ends, oldest first.
    pages: Mutex<VecDeque<(String, i64)>>,
}

impl ShownPages {
    pub(crate) fn add(&self, binding: &str, now_us: i64) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= PAGES_MAX {
            pages.pop_front();
        }
        pages.push_back((binding.to_owned(), now_us.saturating_add(PAGE_US_MAX)));
    }

    /// Uses a page up; false if it was answered before or is too old.
    pub(crate) fn take(&self, binding: &str, now_us: i64) -> bool {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|(_, until_us)| *until_us > now_us);
        let is_it = |(shown, _): &(String, i64)| -> bool {
            shown.as_bytes().ct_eq(binding.as_bytes()).into()
        };
        let found = pages.iter().position(is_it);
        found.and_then(|at| pages.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_answered_once_and_in_time() {
        let pages = ShownPages::default();
        pages.add("a", 0);
        pages.add("b", 0);
        assert!(pages.take("a", 1) && !pages.take("a", 2));
        assert!(!pages.take("b", PAGE_US_MAX));
        for number in 0..=PAGES_MAX {
            pages.add(&number.to_string(), 0);
        }
        assert!(!pages.take("0", 1) && pages.take("1", 1));
    }
}
