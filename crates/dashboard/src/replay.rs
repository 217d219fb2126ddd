//! Replays the calls of the audit log: against a draft, to show what would change, and into the least policy
//! that would have allowed them. Commands and pages use the same functions.

mod judge;
mod recorded;
mod suggestion;
mod tally;
mod usage;

pub use judge::Judge;
pub use recorded::{PastDecision, Recorded, ReplayError, Tools, each};
pub use suggestion::{LeftOut, Offered, Suggestion};
pub use tally::{DecisionChange, DraftDecision, Group, Key, OTHER_NAMES, Tally};
pub use usage::Usage;

/// `1 call`, `3 calls`.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
