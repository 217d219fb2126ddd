//! The proof that a call was decided and recorded.

use store::ledger::Permit;

/// Stands for a permit in work that outlives the borrow of it.
pub struct Admitted(());

impl Admitted {
    pub fn by(_permit: &Permit) -> Admitted {
        Admitted(())
    }
}
