//! Keeps the params of a call, sealed, where the owner turned that on for the server. The text is the one that the
//! digest in the audit row covers, so the row proves what was captured.

use std::sync::Arc;

use store::captures::CaptureError;
use store::ledger::Facts;

use super::incoming::{IncomingRequest, Target};
use crate::exchange::digests;

/// Captures the params of one request. A request without params has nothing to capture.
pub(super) async fn params(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
) -> Result<(), CaptureError> {
    let server = &target.access.server;
    let Some(digest) = facts.argument_digest.filter(|_| server.spec.options.capture) else {
        return Ok(());
    };
    let services = Arc::clone(incoming.context.services());
    let params = digests::digested_text(incoming.request);
    let server = server.name.clone();
    let now_us = services.clock.now().wall_us;
    // Seals and writes a file, which may be slow.
    let stored = tokio::task::spawn_blocking(move || {
        let limits = &services.capture_limits;
        services.captures.put(&server, &digest, &params, now_us, limits)
    });
    stored.await.unwrap_or(Err(CaptureError::Interrupted))
}

/// The same for a refused request, which is not sent in any case; a failure is only reported.
pub(super) async fn params_of_refused(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    facts: &Facts<'_>,
) {
    if let Err(error) = params(incoming, target, facts).await {
        let server = &*target.access.server.name;
        tracing::error!(%error, server, "could not capture the arguments of a refused call");
    }
}
