//! Settles permits and waits for their audit rows. The ledger retries an outcome that it cannot
//! write.

use store::ledger::{Ending, LedgerError, Outcome, Permit};

/// Records the outcome of a message with a permit.
pub(crate) fn settle(permit: Permit, ending: Ending) {
    log_failure(permit.settle_soon(&Outcome::new(ending)).leave());
}

/// The same from a result.
pub(crate) fn settle_by<T, E>(permit: Permit, outcome: &Result<T, E>) {
    settle(permit, if outcome.is_ok() { Ending::Ok } else { Ending::Error });
}

/// Releases the quota of a message that was certainly not sent.
pub(crate) fn release(permit: Permit, why: &str) {
    log_failure(permit.release_soon(why).leave());
}

/// Logs that the row will be written later.
pub(crate) fn log_failure(outcome: Result<(), LedgerError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "could not record the outcome; will retry");
    }
}

/// Waits until the row of a permit has the configured durability.
pub(crate) async fn until_durable(permit: &Permit) -> Result<(), LedgerError> {
    if permit.is_durable() {
        return Ok(());
    }
    let (sender, durable) = tokio::sync::oneshot::channel();
    permit.when_durable(Box::new(move |flushed| {
        // The receiver is gone if the call was cancelled.
        let _ = sender.send(flushed);
    }));
    // If the callback is dropped uncalled, block instead: the call must not go out before its row.
    durable.await.unwrap_or_else(|_| permit.wait_durable())
}
