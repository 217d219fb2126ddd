//! Linux and macOS: SIGINT, SIGTERM and SIGHUP.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) struct Listeners {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

pub(super) fn listen() -> io::Result<Listeners> {
    let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
    // A process under `nohup` outlives its terminal.
    let hang_up = SignalKind::hangup();
    let hang_up = if is_ignored(hang_up) { None } else { Some(signal(hang_up)?) };
    Ok(Listeners { interrupt: signal(interrupt)?, terminate: signal(terminate)?, hang_up })
}

/// Whether this process was started with the signal ignored.
#[cfg(target_os = "linux")]
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

/// `ps` prints the ignored signals as a mask, eight or more hexadecimal digits.
#[cfg(target_os = "macos")]
fn is_ignored(kind: SignalKind) -> bool {
    let mut command = std::process::Command::new("/bin/ps");
    command.args(["-o", "ignored=", "-p", &std::process::id().to_string()]);
    let printed = command.output().map(|printed| printed.stdout).unwrap_or_default();
    let digits = String::from_utf8_lossy(&printed);
    let mask = u64::from_str_radix(digits.trim(), 16).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

impl Listeners {
    pub(super) async fn next(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hang_up => {}
        }
    }
}
