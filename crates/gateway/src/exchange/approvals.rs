//! Holds a call open while a human decides about it. It is then judged again, because the grant, the policy or
//! the tool may have changed.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use store::ledger::{ApprovalStatus, HeldCall};
use store::registry::RegistryError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::exchange::call::IncomingRequest;
use crate::exchange::client_approval::{self, ClientDecision};
use crate::exchange::context::RequestContext;
use crate::exchange::digests;
use crate::exchange::error_responses;
use crate::exchange::outbound::{Outbound, QUEUED_PARTS_MAX};
use crate::exchange::progress::ProgressCounter;
use crate::exchange::refuse;
use crate::runtime::Services;
use crate::runtime::stop_signal::turned_true;
use crate::session::{ClientMessage, ClientResponse, InFlightGuard, ResponseTarget};
use mcp::{Era, Id, Method, notification_body, request_body};
use policy::json::{Bounds, Doc};

/// How often a pending call checks for a decision, which may come from another process.
const CHECK_EVERY: Duration = Duration::from_millis(150);

/// How long the client's own user may take.
const CLIENT_HOLD: Duration = Duration::from_mins(10);

/// How often a client that wants progress is notified that the call is still pending.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

/// Holds a call whose client wants no progress. The call then takes the whole path again, so the future is
/// boxed.
pub(crate) fn wait(
    incoming: &IncomingRequest<'_>,
    waiting: HeldCall,
    in_flight: Option<InFlightGuard>,
) -> Pin<Box<dyn Future<Output = Outbound> + Send>> {
    let held = ApprovalWait::new(incoming, waiting, in_flight);
    Box::pin(async move { held.answer(None).await.0 })
}

/// Holds a call and sends progress notifications.
pub(crate) fn hold(
    incoming: &IncomingRequest<'_>,
    waiting: HeldCall,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let held = ApprovalWait::new(incoming, waiting, in_flight);
    let (to, parts) = mpsc::channel(QUEUED_PARTS_MAX);
    tokio::spawn(async move {
        let (outbound, sent) = held.answer(Some(&to)).await;
        forward(outbound, ProgressCounter::starting_at(sent), &to).await;
    });
    Outbound::Many(parts)
}

/// Holds a call while the client's own user is asked on the stream of its response. The owner can decide, too.
pub(crate) fn hold_for_client(
    incoming: &IncomingRequest<'_>,
    waiting: HeldCall,
    question: &str,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let mut held = ApprovalWait::new(incoming, waiting, in_flight);
    let (to, parts) = mpsc::channel(QUEUED_PARTS_MAX);
    let (answer, answered) = oneshot::channel();
    let session = incoming.context.session.as_ref();
    let id = session.and_then(|one| one.add_server_request(None, ResponseTarget::Call(answer)));
    if let Some(id) = id {
        let body = request_body(&id, client_approval::METHOD, Some(question));
        // The channel is new and has capacity.
        let _ = to.try_send(ClientMessage::plain(body));
        held.answered = Some(answered);
    }
    tokio::spawn(async move {
        let (outbound, sent) = held.answer(Some(&to)).await;
        forward(outbound, ProgressCounter::starting_at(sent), &to).await;
    });
    Outbound::Many(parts)
}

/// Stores the params and waits until that is done.
pub(crate) async fn params_stored(incoming: &IncomingRequest<'_>, waiting: &HeldCall) {
    // A failure was logged.
    let _ = store_params(incoming, waiting).await;
}

/// Stores the sealed params that the approval is bound to, for the human to read. Sealing megabytes is slow, so
/// it runs on a blocking thread.
fn store_params(incoming: &IncomingRequest<'_>, waiting: &HeldCall) -> JoinHandle<()> {
    let services = Arc::clone(incoming.context.services());
    let params = digests::parked_text(incoming.request);
    let approval = waiting.approval_id().to_owned();
    tokio::task::spawn_blocking(move || {
        let now_us = services.clock.now().wall_us;
        match services.registry.put_parked(&approval, params.as_bytes(), now_us) {
            // A repeated call is the same approval, whose params are stored already.
            Ok(()) | Err(RegistryError::Exists { .. }) => {}
            Err(error) => {
                tracing::error!(%error, "could not store the params of a pending call");
            }
        }
    })
}

/// Deletes the stored params of approvals that were used, denied or have expired.
pub(crate) fn delete_ended(services: &Services) {
    // Read the ids first: an approval is in the ledger before its params are stored.
    let forgotten = services.registry.parked_ids().map_err(|e| e.to_string()).and_then(|parked| {
        if parked.is_empty() {
            return Ok(());
        }
        let approvals = services.ledger.known_approvals().map_err(|e| e.to_string())?;
        let time = services.ledger.time(services.clock.now());
        let live: HashSet<&str> =
            approvals.iter().filter(|a| a.is_live(time)).map(|a| a.id.as_str()).collect();
        let over: Vec<String> =
            parked.into_iter().filter(|id| !live.contains(id.as_str())).collect();
        if over.is_empty() {
            return Ok(());
        }
        services.registry.delete_all_parked(&over).map_err(|e| e.to_string())
    });
    if let Err(error) = forgotten {
        tracing::debug!(%error, "could not delete stored params; will retry");
    }
}

/// A held call with its message, so that it can be judged again.
struct ApprovalWait {
    context: RequestContext,
    body: Bytes,
    headers: Option<HeaderMap>,
    id: Id,
    era: Era,
    is_call: bool,
    token: String,
    waiting: HeldCall,
    /// The ledger time at which the approval expires. It may be before the hold ends.
    ends_us: u64,
    in_flight: Option<InFlightGuard>,
    /// Ends when the params are stored.
    storing: JoinHandle<()>,
    /// The answer of the client's user, who was asked.
    answered: Option<oneshot::Receiver<ClientResponse>>,
    wants_progress: bool,
}

/// Why a held call waits no longer.
enum Ended {
    /// A human decided, or the approval expired.
    Decided,
    /// The client hung up or cancelled the call.
    Cancelled,
    /// The hold time is over, or the gate shuts down.
    Late,
}

impl ApprovalWait {
    fn new(
        incoming: &IncomingRequest<'_>,
        waiting: HeldCall,
        in_flight: Option<InFlightGuard>,
    ) -> ApprovalWait {
        let storing = store_params(incoming, &waiting);
        let approvals = incoming.context.services().ledger.known_approvals().unwrap_or_default();
        let approval = approvals.iter().find(|approval| approval.id == waiting.approval_id());
        ApprovalWait {
            context: incoming.context.clone(),
            body: incoming.body.clone(),
            headers: incoming.headers.cloned(),
            id: incoming.request.id.clone(),
            era: incoming.era,
            is_call: incoming.request.method == Method::ToolsCall,
            token: incoming.request.progress_token().unwrap_or("0").to_owned(),
            waiting,
            ends_us: approval.map_or(u64::MAX, |approval| approval.expires_us),
            in_flight,
            storing,
            answered: None,
            wants_progress: incoming.request.progress_token().is_some(),
        }
    }

    /// The response to the call, and how many progress notifications were sent to `to`.
    async fn answer(mut self, to: Option<&mpsc::Sender<ClientMessage>>) -> (Outbound, u32) {
        let mut steps = 0;
        // The params are stored before the client learns the approval id.
        let _ = (&mut self.storing).await;
        let answered = self.answered.take();
        let outbound = match self.until_ended(to, &mut steps, answered).await {
            Ended::Decided => self.judge_again().await,
            Ended::Cancelled => Outbound::NoResponse,
            Ended::Late => self.pending_response(),
        };
        (outbound, steps)
    }

    async fn until_ended(
        &self,
        to: Option<&mpsc::Sender<ClientMessage>>,
        steps: &mut u32,
        mut answered: Option<oneshot::Receiver<ClientResponse>>,
    ) -> Ended {
        let services = self.context.services();
        let begin = Instant::now();
        let mut notified_at = begin;
        let mut generation = services.ledger.generation();
        let mut stopping = services.stopping();
        let hold = services.bounds.approval_hold;
        let hold = if answered.is_some() { hold.max(CLIENT_HOLD) } else { hold };
        while begin.elapsed() < hold {
            tokio::select! {
                () = tokio::time::sleep(CHECK_EVERY) => {}
                response = answer_of(&mut answered) => self.take_answer(response),
                () = closed(to) => return Ended::Cancelled,
                () = cancelled_by_client(self.in_flight.as_ref()) => return Ended::Cancelled,
                () = turned_true(&mut stopping) => return Ended::Late,
            }
            // If the ledger cannot be read, the next decision reports it.
            let now = services.ledger.known_generation().unwrap_or(generation + 1);
            let is_over = services.ledger.time(services.clock.now()) >= self.ends_us;
            if is_over || now != generation && !self.is_pending() {
                return Ended::Decided;
            }
            generation = now;
            let Some(to) = to.filter(|_| self.wants_progress) else { continue };
            if *steps == 0 || notified_at.elapsed() >= PROGRESS_EVERY {
                notified_at = Instant::now();
                *steps += 1;
                if to.send(ClientMessage::plain(self.progress(*steps))).await.is_err() {
                    return Ended::Cancelled;
                }
            }
        }
        Ended::Late
    }

    /// Records what the client's user decided.
    fn take_answer(&self, response: Option<ClientResponse>) {
        let Some(ClientResponse::Result(result)) = response else { return };
        let doc = Doc::read(result.as_bytes(), &Bounds::ANSWER);
        let decision = ClientDecision::of(doc.as_ref().ok().map(Doc::root));
        let client = self.context.client().map(|client| client.name().to_owned());
        let (services, approval) = (self.context.services(), self.waiting.approval_id());
        client_approval::record(services, approval, decision, &client.unwrap_or_default());
    }

    /// Judges the call with the current grant, policy and tool.
    async fn judge_again(self) -> Outbound {
        let ApprovalWait { mut context, body, headers, waiting, in_flight, .. } = self;
        // The dispatch below registers the request id again.
        drop(in_flight);
        let Some(grantee) =
            context.state.snapshots.current_grantee(&context.grantee, context.endpoint.server())
        else {
            return refuse::revoked(&context, &body);
        };
        context.grantee = grantee;
        let upper_layers = context.state.upper_layers;
        upper_layers.dispatch_again(&context, &body, headers.as_ref(), Some(waiting)).await
    }

    fn pending_response(&self) -> Outbound {
        let denial = self.waiting.denial();
        self.context.services().metrics.denied(denial.code.as_str());
        Outbound::ok(if self.is_call {
            error_responses::denied_call(&self.id, denial, self.era)
        } else {
            error_responses::denied(&self.id, denial)
        })
    }

    fn is_pending(&self) -> bool {
        let approvals = self.context.services().ledger.known_approvals().unwrap_or_default();
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

/// Forwards the response. Its progress continues after the notifications sent so far.
async fn forward(outbound: Outbound, mut steps: ProgressCounter, to: &mpsc::Sender<ClientMessage>) {
    match outbound {
        Outbound::One { body, .. } => {
            let _ = to.send(ClientMessage::plain(body)).await;
        }
        Outbound::Many(mut parts) => {
            while let Some(mut part) = parts.recv().await {
                part.message = steps.adjusted(part.message);
                if to.send(part).await.is_err() {
                    return;
                }
            }
        }
        Outbound::Accepted | Outbound::NoResponse => {}
    }
}

/// The answer of the client's user, once; never without a question.
async fn answer_of(
    answered: &mut Option<oneshot::Receiver<ClientResponse>>,
) -> Option<ClientResponse> {
    match answered {
        Some(receiver) => {
            let response = receiver.await.ok();
            *answered = None;
            response
        }
        None => std::future::pending().await,
    }
}

/// Resolves when the client has gone.
async fn closed(to: Option<&mpsc::Sender<ClientMessage>>) {
    match to {
        Some(to) => to.closed().await,
        None => std::future::pending().await,
    }
}

/// Resolves when the client cancels its request.
async fn cancelled_by_client(in_flight: Option<&InFlightGuard>) {
    match in_flight {
        Some(in_flight) => in_flight.flight.cancelled.notified().await,
        None => std::future::pending().await,
    }
}
