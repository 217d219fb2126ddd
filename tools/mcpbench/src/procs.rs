//! Memory and processor time of a process and everything below it, from /proc.

use std::collections::HashMap;

#[derive(Default, Debug, Clone, Copy)]
pub struct Usage {
    pub rss_kib: u64,
    pub peak_kib: u64,
    pub cpu_ticks: u64,
    pub processes: u64,
}

/// Clock ticks a second: 100 on every Linux this runs on.
pub const TICKS: f64 = 100.0;

fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name is in parentheses and may contain spaces.
    let after = &text[text.rfind(')')? + 2..];
    let f: Vec<&str> = after.split_ascii_whitespace().collect();
    let ppid = f.get(1)?.parse().ok()?;
    let ticks: u64 = f.get(11)?.parse::<u64>().ok()? + f.get(12)?.parse::<u64>().ok()?;
    Some((ppid, ticks))
}

fn status_kib(pid: u32, key: &str) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .ok()
        .and_then(|t| {
            t.lines()
                .find(|l| l.starts_with(key))
                .and_then(|l| l.split_ascii_whitespace().nth(1).and_then(|v| v.parse().ok()))
        })
        .unwrap_or(0)
}

/// What `root` and its descendants use now.
pub fn tree(root: u32) -> Usage {
    let mut parent: HashMap<u32, (u32, u64)> = HashMap::new();
    if let Ok(dir) = std::fs::read_dir("/proc") {
        for e in dir.flatten() {
            if let Some(pid) = e.file_name().to_str().and_then(|n| n.parse::<u32>().ok())
                && let Some(s) = stat(pid)
            {
                parent.insert(pid, s);
            }
        }
    }
    let mut usage = Usage::default();
    for (&pid, &(_, ticks)) in &parent {
        let mut at = pid;
        let mut hops = 0;
        let inside = loop {
            if at == root {
                break true;
            }
            match parent.get(&at) {
                Some(&(up, _)) if up != 0 && hops < 64 => {
                    at = up;
                    hops += 1;
                }
                _ => break false,
            }
        };
        if inside {
            usage.rss_kib += status_kib(pid, "VmRSS:");
            usage.peak_kib += status_kib(pid, "VmHWM:");
            usage.cpu_ticks += ticks;
            usage.processes += 1;
        }
    }
    usage
}
