//! Permits for messages to servers. Only the ledger creates them.

pub use store::ledger::Permit;

use super::message::UpstreamMessage;

/// A request for which a permit was shown, so that it can be awaited without borrowing the permit.
pub struct PermittedRequest(pub(super) UpstreamMessage);

impl PermittedRequest {
    pub fn new(_permit: &Permit, out: UpstreamMessage) -> PermittedRequest {
        PermittedRequest(out)
    }
}
