//! The permit that the tests send with, from a real ledger, for an act of the gate itself.

use std::path::Path;
use std::sync::OnceLock;

use gateway::upstream::Permit;
use store::clock::Clock;
use store::ledger::{Facts, Ledger, Options};

pub fn permit() -> Permit {
    static LEDGER: OnceLock<Ledger> = OnceLock::new();
    let ledger = LEDGER.get_or_init(|| {
        let folder = format!("{}/audit-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        Ledger::open(Path::new(&folder), Clock::System, Options::default()).unwrap()
    });
    ledger.admit_without_policy(&Facts::default()).unwrap()
}
