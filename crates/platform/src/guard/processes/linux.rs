//! The processes of Linux, read from `/proc`.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Process;

/// Opens the pidfd before checking the process, so that a reused pid is not signalled.
pub(in super::super) fn send(process: Process, signal: Signal) {
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

/// All running processes.
pub(in super::super) fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

/// Whether the program of a process was started with this entry in its environment. The environments of other users'
/// processes cannot be read; a guard may not signal them either.
pub(in super::super) fn has_variable(pid: i32, entry: &str) -> bool {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|had| had == entry.as_bytes())
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
    fn this_process_can_be_read() {
        let me = read(rustix::process::getpid().as_raw_nonzero().get()).unwrap();
        assert!(me.started > 0);
    }
}
