//! The pass that the tests send with: a permit of a real ledger, for an act of the gate's own.

use std::path::Path;
use std::sync::OnceLock;

use gateway::upstream::Pass;
use store::clock::Clock;
use store::ledger::{Facts, Ledger, Options};

pub fn pass() -> Pass {
    static LEDGER: OnceLock<Ledger> = OnceLock::new();
    let ledger = LEDGER.get_or_init(|| {
        let folder = format!("{}/audit-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        Ledger::open(Path::new(&folder), Clock::System, Options::default()).unwrap()
    });
    ledger.own_act(&Facts::default()).unwrap()
}
