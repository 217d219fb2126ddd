//! The proof that a call was decided and recorded.

use insights::BlockLength;
use store::ledger::Permit;

/// Stands for a permit in work that outlives the borrow of it.
pub struct Admitted {
    bound: Option<BlockLength>,
}

impl Admitted {
    pub fn by(permit: &Permit) -> Admitted {
        Admitted { bound: permit.aggregate_days().map(BlockLength::at_least) }
    }

    /// Only means of whole blocks of this length may leave.
    pub(crate) fn bound(&self) -> Option<BlockLength> {
        self.bound
    }
}
