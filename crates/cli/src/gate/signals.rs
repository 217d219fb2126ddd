//! SIGINT, SIGTERM and SIGHUP: the first signal shuts the gate down after in-flight calls are settled, the
//! second exits at once.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The exit code after a second signal.
const EXIT_AT_ONCE: i32 = 130;

/// Turns true at the first signal.
pub(crate) fn stop() -> Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut signals =
        Signals { interrupt: listen(INTERRUPT)?, terminate: listen(TERMINATE)?, hang_up: None };
    // A process under `nohup` outlives its terminal.
    if !is_ignored(HANG_UP) {
        signals.hang_up = Some(listen(HANG_UP)?);
    }
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("shutting down after running calls finish");
        sender.send_replace(true);
        signals.next().await;
        std::process::exit(EXIT_AT_ONCE);
    });
    Ok(receiver)
}

const INTERRUPT: SignalKind = SignalKind::interrupt();
const TERMINATE: SignalKind = SignalKind::terminate();
const HANG_UP: SignalKind = SignalKind::hangup();

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot listen for signals")
}

/// Whether this process was started with the signal ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    async fn next(&mut self) {
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
