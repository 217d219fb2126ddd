//! The descendants of this process, read from /proc. As a subreaper it finds all of them, because orphans
//! become its children.

use std::collections::HashMap;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// A process, distinguished from a later one with the same pid by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pid: i32,
    parent: i32,
    started: u64,
}

/// Signals all running descendants that are found in /proc and returns them.
pub(super) fn signal_descendants(signal: Signal) -> Vec<Process> {
    let all = below(getpid().as_raw_nonzero().get(), running());
    for process in &all {
        send(*process, signal);
    }
    all
}

/// Opens the pidfd before checking the process, so that a reused pid is not signalled.
fn send(process: Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if read(process.pid).is_some_and(|now| now.started == process.started) {
        pidfd_send_signal(handle, signal).ok();
    }
}

fn below(root: i32, processes: Vec<Process>) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<Process> = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let more = children.remove(&process.pid).unwrap_or_default();
        found.extend(more);
        next += 1;
    }
    found
}

fn running() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/PID/stat`. The name may contain anything, so fields are counted from its last parenthesis.
/// Dead processes are skipped, unless only their first thread has ended.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    const PARENT: usize = 1;
    const THREADS: usize = 17;
    const STARTED: usize = 19;
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let threads: u32 = fields.get(THREADS)?.parse().ok()?;
    if matches!(*fields.first()?, "Z" | "X") && threads <= 1 {
        return None;
    }
    Some(Process {
        pid,
        parent: fields.get(PARENT)?.parse().ok()?,
        started: fields.get(STARTED)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) S 1 (b) S 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 9 9";
        let expected = Process { pid: 7, parent: 3, started: 12345 };
        assert_eq!(parse(7, stat), Some(expected));
        assert_eq!(parse(7, &stat.replace(") S 3", ") Z 3")), None);
        let first_thread_ended = stat.replace(") S 3", ") Z 3").replace(" 20 0 1 ", " 20 0 4 ");
        assert_eq!(parse(7, &first_thread_ended), Some(expected));
        assert_eq!(parse(7, "rubbish"), None);
    }

    #[test]
    fn everything_below_is_found_whatever_the_order() {
        let process = |pid, parent| Process { pid, parent, started: 0 };
        let all = vec![process(9, 8), process(8, 5), process(5, 1), process(6, 1), process(7, 5)];
        let mut found: Vec<i32> = below(5, all).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [7, 8, 9]);
    }

    #[test]
    fn this_process_can_be_read() {
        let me = read(getpid().as_raw_nonzero().get()).unwrap();
        assert!(me.started > 0);
    }
}
