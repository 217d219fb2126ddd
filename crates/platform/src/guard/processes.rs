//! The processes that run now. Each system lists them in its own way.

use std::collections::HashMap;

#[cfg_attr(target_os = "linux", path = "processes/linux.rs")]
#[cfg_attr(target_os = "macos", path = "processes/macos.rs")]
mod system;

pub(super) use system::{all, has_variable, send};

/// A process, distinguished from a later one with the same pid by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    started: u64,
}

/// Everything below these processes.
pub(super) fn below(roots: &[i32], all: &[Process]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found: Vec<Process> =
        roots.iter().flat_map(|root| children.remove(root).unwrap_or_default()).collect();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let more = children.remove(&process.pid).unwrap_or_default();
        found.extend(more);
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_below_is_found_whatever_the_order() {
        let process = |pid, parent| Process { pid, parent, started: 0 };
        let all = vec![process(9, 8), process(8, 5), process(5, 1), process(6, 1), process(7, 5)];
        let mut found: Vec<i32> = below(&[5], &all).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [7, 8, 9]);
    }
}
