//! What opens the way out: only the ledger makes one.

pub use store::ledger::Permit as Pass;
