//! Collects the problems and warnings of one load, and the pattern budget that its parts share.

use crate::operator;
use crate::problem::{Complaint, Problems};
use crate::tree::Node;

/// The state of one load.
#[derive(Default)]
pub(crate) struct Loader {
    pub(crate) problems: Problems,
    pub(crate) warnings: Problems,
    warned_of_links: bool,
    pub(crate) pattern_budget: operator::PatternBudget,
}

impl Loader {
    /// The value; an error is recorded with its position.
    pub(crate) fn take<T>(
        &mut self,
        node: &Node,
        pointer: &str,
        result: Result<T, Complaint>,
    ) -> Option<T> {
        result.map_err(|complaint| self.problems.add(node.position, pointer, complaint)).ok()
    }

    /// Warns once per policy that `path_under` cannot see symbolic links.
    pub(crate) fn warn_of_links(&mut self, node: &Node, pointer: &str) {
        if std::mem::replace(&mut self.warned_of_links, true) {
            return;
        }
        let message = "`path_under` compares the text of a path: a symbolic link below the folder can lead out of it";
        let hint = "keep links out of the folder, or run the server where it can open nothing else";
        self.warnings.add(node.position, pointer, Complaint::new(message).hint(hint));
    }
}
