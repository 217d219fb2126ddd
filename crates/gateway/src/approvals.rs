//! A call that needs a human is held open for a while, in case the answer comes.

use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use policy::Verdict;
use store::ledger::{Admission, ApprovalStatus, Facts, LedgerError, Waiting};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::answers;
use crate::call::Ask;
use crate::outbound::{Outbound, PIECES_WAITING_MAX};
use crate::receive;
use crate::scene::Scene;
use crate::session::Outgoing;
use crate::wire::{Era, Id, Method, notification_body};

/// How often a waiting call looks for its answer. The decision may come from another process.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// A client that asked for progress hears this often that the call still waits.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

/// Waits for the decision on a call whose client wants no progress.
pub(crate) async fn wait(
    ask: &Ask<'_>,
    verdict: &Verdict,
    facts: &Facts<'_>,
    waiting: Waiting,
) -> Result<Admission, LedgerError> {
    let gate = &ask.scene.gate;
    keep_arguments(ask, &waiting);
    let begin = Instant::now();
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

/// Keeps the arguments sealed, for the human to read.
fn keep_arguments(ask: &Ask<'_>, waiting: &Waiting) {
    let gate = &ask.scene.gate;
    let arguments = ask.request.arguments().map_or("{}", |arguments| arguments.raw());
    let now_us = gate.clock.now().wall_us;
    if let Err(error) =
        gate.registry.put_parked(waiting.approval_id(), arguments.as_bytes(), now_us)
    {
        tracing::error!(%error, "the arguments of a waiting call could not be kept for the owner");
    }
}

/// A held call with its message, so that it can be judged anew when the human has decided.
struct Held {
    scene: Scene,
    body: Bytes,
    headers: Option<HeaderMap>,
    id: Id,
    era: Era,
    is_call: bool,
    token: String,
    waiting: Waiting,
}

/// Holds a call open with signs of life.
pub(crate) fn hold(ask: &Ask<'_>, waiting: Waiting) -> Outbound {
    keep_arguments(ask, &waiting);
    let held = Held {
        scene: ask.scene.clone(),
        body: ask.body.clone(),
        headers: ask.headers.cloned(),
        id: ask.request.id.clone(),
        era: ask.era,
        is_call: ask.request.method == Method::ToolsCall,
        token: ask.request.progress_token().unwrap_or("0").to_owned(),
        waiting,
    };
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    tokio::spawn(held.run(sender));
    Outbound::Many(pieces)
}

impl Held {
    async fn run(self, to: mpsc::Sender<Outgoing>) {
        let gate = &self.scene.gate;
        let begin = Instant::now();
        let (mut told_at, mut steps) = (begin, 0_u64);
        let mut generation = gate.ledger.generation();
        while begin.elapsed() < gate.bounds.approval_hold {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = to.closed() => return,
            }
            // A ledger that cannot be read is told by the judgement below.
            let now = gate.ledger.poll().unwrap_or(generation + 1);
            if now != generation && !self.is_pending() {
                let outbound = receive::again(
                    &self.scene,
                    &self.body,
                    self.headers.as_ref(),
                    Some(self.waiting),
                )
                .await;
                return pass_on(outbound, &to).await;
            }
            generation = now;
            if steps == 0 || told_at.elapsed() >= PROGRESS_EVERY {
                (told_at, steps) = (Instant::now(), steps + 1);
                if to.send(Outgoing::plain(self.progress(steps))).await.is_err() {
                    return;
                }
            }
        }
        let denial = self.waiting.denial();
        let body = if self.is_call {
            answers::denied_call(&self.id, denial, self.era)
        } else {
            answers::denied(&self.id, denial)
        };
        // The client may have gone.
        let _ = to.send(Outgoing::plain(body)).await;
    }

    fn is_pending(&self) -> bool {
        let approvals = self.scene.gate.ledger.approvals().unwrap_or_default();
        approvals.iter().any(|approval| {
            approval.id == self.waiting.approval_id() && approval.status == ApprovalStatus::Pending
        })
    }

    fn progress(&self, step: u64) -> Vec<u8> {
        let params = format!(
            "{{\"progressToken\":{},\"progress\":{step},\"message\":\"waiting for a human to decide ({})\"}}",
            self.token,
            self.waiting.approval_id()
        );
        notification_body("notifications/progress", Some(&params))
    }
}

async fn pass_on(outbound: Outbound, to: &mpsc::Sender<Outgoing>) {
    match outbound {
        Outbound::One { body, .. } => {
            let _ = to.send(Outgoing::plain(body)).await;
        }
        Outbound::Many(mut pieces) => {
            while let Some(piece) = pieces.recv().await {
                if to.send(piece).await.is_err() {
                    return;
                }
            }
        }
        Outbound::Accepted | Outbound::Silent => {}
    }
}
