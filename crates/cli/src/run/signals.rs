//! Ctrl-C and the signals of service managers: the first asks the gate to stop and settle what is in
//! flight, the second ends it at once.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a process that was ended by a signal it did not wait out.
const ENDED_AT_ONCE: i32 = 130;

/// Turns true at the first signal.
pub(crate) fn stop() -> Result<watch::Receiver<bool>> {
    let (tell, told) = watch::channel(false);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    tokio::spawn(async move {
        next(&mut interrupt, &mut terminate).await;
        tracing::info!("stopping; what is in flight is settled first");
        tell.send_replace(true);
        next(&mut interrupt, &mut terminate).await;
        std::process::exit(ENDED_AT_ONCE);
    });
    Ok(told)
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot listen for signals")
}

async fn next(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
