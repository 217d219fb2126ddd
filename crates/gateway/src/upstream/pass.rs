//! What opens the way out. One line to swap when the ledger's permit takes its place.

/// Proof that the message may leave.
pub struct Pass;
