//! Long lists in parts: which part a visit asks for, and the links to its neighbours. Every part has its own
//! address; the JSON twin has the whole list.

use std::ops::Range;

use crate::request::{Format, Visit};

/// One part of a list.
pub(crate) struct Paging {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) parts: usize,
    path: String,
    shown: Range<usize>,
}

impl Paging {
    /// The part that `?page=` names, of a list of this length.
    pub(crate) fn new(visit: &Visit, path: &str, length: usize, per_page: usize) -> Paging {
        if visit.format == Format::Json {
            return Paging { number: 1, parts: 1, path: path.to_owned(), shown: 0..length };
        }
        let parts = length.div_ceil(per_page).max(1);
        let asked = visit.param("page").and_then(|number| number.parse().ok()).unwrap_or(1);
        let number = std::cmp::Ord::clamp(asked, 1, parts);
        let from = (number - 1) * per_page;
        let shown = from..length.min(from + per_page);
        Paging { number, parts, path: path.to_owned(), shown }
    }

    pub(crate) fn of<'l, T>(&self, list: &'l [T]) -> &'l [T] {
        list.get(self.shown.clone()).unwrap_or_default()
    }

    pub(crate) fn previous(&self) -> Option<String> {
        (self.number > 1).then(|| self.address(self.number - 1))
    }

    pub(crate) fn next(&self) -> Option<String> {
        (self.number < self.parts).then(|| self.address(self.number + 1))
    }

    fn address(&self, number: usize) -> String {
        let joint = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{joint}page={number}", self.path)
    }
}
