//! What opens the way out: only the ledger makes one.

pub use store::ledger::Permit as Pass;

use super::message::Outgoing;

/// A request that a pass was shown for. It may be waited for by whoever holds it, without the pass.
pub struct Passed(pub(super) Outgoing);

impl Passed {
    pub fn new(_pass: &Pass, out: Outgoing) -> Passed {
        Passed(out)
    }
}
