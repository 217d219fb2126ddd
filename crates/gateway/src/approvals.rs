//! A call that needs a human is held open for a while, in case the answer comes.

use std::time::Duration;

use policy::Verdict;
use store::ledger::{Admission, Facts, LedgerError, Waiting};

use crate::call::Ask;

/// How often a waiting call looks for its answer. The decision may come from another process.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Keeps the arguments for the human to read, then waits for the decision. The caller hears that the
/// call waits while it is held, if it asked for progress.
pub(crate) async fn wait(
    ask: &Ask<'_>,
    verdict: &Verdict,
    facts: &Facts<'_>,
    waiting: Waiting,
) -> Result<Admission, LedgerError> {
    let gate = &ask.scene.gate;
    let arguments = ask.request.arguments().map_or("{}", |arguments| arguments.raw());
    let now_us = gate.clock.now().wall_us;
    if let Err(error) =
        gate.registry.put_parked(waiting.approval_id(), arguments.as_bytes(), now_us)
    {
        tracing::error!(%error, "the arguments of a waiting call could not be kept for the owner");
    }
    let begin = tokio::time::Instant::now();
    let mut generation = gate.ledger.generation();
    let mut waiting = waiting;
    while begin.elapsed() < gate.bounds.approval_hold {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = gate.ledger.poll()?;
        if now == generation {
            continue;
        }
        generation = now;
        match gate.ledger.resume(waiting, verdict, facts)? {
            Admission::Asked(still) => waiting = still,
            decided => return Ok(decided),
        }
    }
    Ok(Admission::Asked(waiting))
}
