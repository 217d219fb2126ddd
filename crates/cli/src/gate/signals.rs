//! Requests to stop, such as Ctrl-C: the first shuts the gate down after in-flight calls are settled, the
//! second exits at once.

use anyhow::{Context as _, Result};
use platform::signals::StopRequests;
use tokio::sync::watch;

/// The exit code after a second signal.
const EXIT_AT_ONCE: i32 = 130;

/// Turns true at the first signal.
pub(crate) fn stop() -> Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut requests = StopRequests::listen().context("cannot listen for signals")?;
    tokio::spawn(async move {
        requests.next().await;
        tracing::info!("shutting down after running calls finish");
        sender.send_replace(true);
        requests.next().await;
        std::process::exit(EXIT_AT_ONCE);
    });
    Ok(receiver)
}
