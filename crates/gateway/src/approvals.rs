//! A call that needs a human is held open for a while, in case the answer comes. Then it is judged anew:
//! meanwhile the grant may have been taken back, and the policy or the tool may have changed.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use store::ledger::{ApprovalStatus, Waiting};
use store::registry::RegistryError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::answers;
use crate::bound;
use crate::call::Ask;
use crate::flow::Steps;
use crate::gate::Gate;
use crate::outbound::{Outbound, PIECES_WAITING_MAX};
use crate::receive;
use crate::scene::Scene;
use crate::serve::turned_true;
use crate::session::{InFlight, Outgoing};
use crate::wire::{Era, Id, Method, notification_body};

/// How often a waiting call looks for its answer. The decision may come from another process.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// A client that asked for progress hears this often that the call still waits.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

/// Holds a call whose client wants no progress. What comes of it goes the path of a call again, hence
/// the box.
pub(crate) fn wait(
    ask: &Ask<'_>,
    waiting: Waiting,
    in_flight: Option<InFlight>,
) -> Pin<Box<dyn Future<Output = Outbound> + Send>> {
    let held = Held::new(ask, waiting, in_flight);
    Box::pin(async move { held.answer(None).await.0 })
}

/// Holds a call open with signs of life.
pub(crate) fn hold(ask: &Ask<'_>, waiting: Waiting, in_flight: Option<InFlight>) -> Outbound {
    let held = Held::new(ask, waiting, in_flight);
    let (to, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    tokio::spawn(async move {
        let (outbound, told) = held.answer(Some(&to)).await;
        pass_on(outbound, Steps::after(told), &to).await;
    });
    Outbound::Many(pieces)
}

/// Keeps all params that the approval is bound to sealed, for the human to read. Sealing and writing
/// megabytes takes long, so it is done off the serving threads.
fn keep_params(ask: &Ask<'_>, waiting: &Waiting) -> JoinHandle<()> {
    let gate = Arc::clone(&ask.scene.gate);
    let params = bound::parked_text(ask.request);
    let approval = waiting.approval_id().to_owned();
    tokio::task::spawn_blocking(move || {
        let now_us = gate.clock.now().wall_us;
        match gate.registry.put_parked(&approval, params.as_bytes(), now_us) {
            // A call that is sent again while it waits is the one that is kept already.
            Ok(()) | Err(RegistryError::Exists { .. }) => {}
            Err(error) => {
                tracing::error!(%error, "the params of a waiting call could not be kept for the owner");
            }
        }
    })
}

/// Deletes what was parked for approvals that were used, denied or have ended.
pub(crate) fn forget_over(gate: &Gate) {
    // The ids first: an approval is in the ledger before anything is parked for it.
    let forgotten = gate.registry.parked_ids().map_err(|e| e.to_string()).and_then(|parked| {
        if parked.is_empty() {
            return Ok(());
        }
        let approvals = gate.ledger.approvals().map_err(|e| e.to_string())?;
        let time = gate.ledger.time(gate.clock.now());
        let live: HashSet<&str> =
            approvals.iter().filter(|a| a.is_live(time)).map(|a| a.id.as_str()).collect();
        let over: Vec<String> =
            parked.into_iter().filter(|id| !live.contains(id.as_str())).collect();
        if over.is_empty() {
            return Ok(());
        }
        gate.registry.delete_all_parked(&over).map_err(|e| e.to_string())
    });
    if let Err(error) = forgotten {
        tracing::debug!(%error, "parked arguments could not be deleted yet");
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
    /// The ledger's time at which the question ends by itself, which may be before the hold does.
    ends_us: u64,
    in_flight: Option<InFlight>,
    /// Over when the arguments are kept.
    keeping: JoinHandle<()>,
}

/// Why a held call waits no longer.
enum Ended {
    /// By a human, or by its own end.
    Decided,
    /// The client hung up or took the call back.
    Unwanted,
    /// It was held long enough, or the gate stops.
    Late,
}

impl Held {
    fn new(ask: &Ask<'_>, waiting: Waiting, in_flight: Option<InFlight>) -> Held {
        let keeping = keep_params(ask, &waiting);
        let asked = ask.scene.gate.ledger.approvals().unwrap_or_default();
        let asked = asked.into_iter().find(|approval| approval.id == waiting.approval_id());
        Held {
            scene: ask.scene.clone(),
            body: ask.body.clone(),
            headers: ask.headers.cloned(),
            id: ask.request.id.clone(),
            era: ask.era,
            is_call: ask.request.method == Method::ToolsCall,
            token: ask.request.progress_token().unwrap_or("0").to_owned(),
            waiting,
            ends_us: asked.map_or(u64::MAX, |approval| approval.expires_us),
            in_flight,
            keeping,
        }
    }

    /// The answer to the call; `to` hears that it still waits, and this is how often it did.
    async fn answer(mut self, to: Option<&mpsc::Sender<Outgoing>>) -> (Outbound, u32) {
        let mut steps = 0;
        // Whoever is told of the approval can look at its arguments.
        let _ = (&mut self.keeping).await;
        let outbound = match self.until_ended(to, &mut steps).await {
            Ended::Decided => self.go_on().await,
            Ended::Unwanted => Outbound::Silent,
            Ended::Late => self.still_asked(),
        };
        (outbound, steps)
    }

    async fn until_ended(&self, to: Option<&mpsc::Sender<Outgoing>>, steps: &mut u32) -> Ended {
        let gate = &self.scene.gate;
        let begin = Instant::now();
        let mut told_at = begin;
        let mut generation = gate.ledger.generation();
        let mut stopping = gate.stopping();
        while begin.elapsed() < gate.bounds.approval_hold {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = closed(to) => return Ended::Unwanted,
                () = taken_back(self.in_flight.as_ref()) => return Ended::Unwanted,
                () = turned_true(&mut stopping) => return Ended::Late,
            }
            // A ledger that cannot be read is told by the judgement that follows.
            let now = gate.ledger.poll().unwrap_or(generation + 1);
            let is_over = gate.ledger.time(gate.clock.now()) >= self.ends_us;
            if is_over || now != generation && !self.is_pending() {
                return Ended::Decided;
            }
            generation = now;
            let Some(to) = to else { continue };
            if *steps == 0 || told_at.elapsed() >= PROGRESS_EVERY {
                told_at = Instant::now();
                *steps += 1;
                if to.send(Outgoing::plain(self.progress(*steps))).await.is_err() {
                    return Ended::Unwanted;
                }
            }
        }
        Ended::Late
    }

    /// Judges the call by the grant, the policy and the tool as they are now.
    async fn go_on(self) -> Outbound {
        let Held { mut scene, body, headers, waiting, in_flight, .. } = self;
        // Its id departs once more.
        drop(in_flight);
        let Some(holder) = scene.gate.renewed(&scene.holder, scene.endpoint.server()) else {
            return receive::revoked(&scene, &body);
        };
        scene.holder = holder;
        receive::again(&scene, &body, headers.as_ref(), Some(waiting)).await
    }

    fn still_asked(&self) -> Outbound {
        let denial = self.waiting.denial();
        self.scene.gate.metrics.denied(denial.code.as_str());
        Outbound::ok(if self.is_call {
            answers::denied_call(&self.id, denial, self.era)
        } else {
            answers::denied(&self.id, denial)
        })
    }

    fn is_pending(&self) -> bool {
        let approvals = self.scene.gate.ledger.approvals().unwrap_or_default();
        approvals.iter().any(|approval| {
            approval.id == self.waiting.approval_id() && approval.status == ApprovalStatus::Pending
        })
    }

    fn progress(&self, step: u32) -> Vec<u8> {
        let params = format!(
            "{{\"progressToken\":{},\"progress\":{step},\"message\":\"waiting for the owner to approve ({})\"}}",
            self.token,
            self.waiting.approval_id()
        );
        notification_body("notifications/progress", Some(&params))
    }
}

/// What comes of the call. Its own progress goes on from what was told of the wait.
async fn pass_on(outbound: Outbound, mut steps: Steps, to: &mpsc::Sender<Outgoing>) {
    match outbound {
        Outbound::One { body, .. } => {
            let _ = to.send(Outgoing::plain(body)).await;
        }
        Outbound::Many(mut pieces) => {
            while let Some(mut piece) = pieces.recv().await {
                piece.message = steps.counted(piece.message);
                if to.send(piece).await.is_err() {
                    return;
                }
            }
        }
        Outbound::Accepted | Outbound::Silent => {}
    }
}

/// Comes back when nobody listens any more.
async fn closed(to: Option<&mpsc::Sender<Outgoing>>) {
    match to {
        Some(to) => to.closed().await,
        None => std::future::pending().await,
    }
}

/// Comes back when the client has taken its request back.
async fn taken_back(in_flight: Option<&InFlight>) {
    match in_flight {
        Some(in_flight) => in_flight.flight.cancelled.notified().await,
        None => std::future::pending().await,
    }
}
