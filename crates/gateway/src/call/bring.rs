//! Brings back what comes of an admitted request: at once, piece by piece, or parked for its client.

use super::ask::Ask;
use super::judge::release;
use crate::answers;
use crate::flow::{Flow, Next, Piece};
use crate::gate::Gate;
use crate::mrtr::{Inner, Owed, ParkedCall, Sorted};
use crate::outbound::{Outbound, PIECES_WAITING_MAX};
use crate::peer::Peer;
use crate::session::Outgoing;
use crate::translate::{self, Question};
use crate::upstream::{self, UpstreamError};
use crate::wire::{Id, code, error_body};
use bytes::Bytes;
use policy::json::Value;
use std::sync::Arc;
use store::ledger::{Ending, Permit};
use tokio::sync::mpsc;

/// Turns the first piece into the answer; further ones come from a task of their own.
pub(super) fn bring(first: Piece, flow: Flow) -> Outbound {
    match first {
        Piece::Last { status, body } => Outbound::with_status(status, body),
        Piece::Cancelled => Outbound::Silent,
        Piece::Questions(asked) => Outbound::ok(park(flow, asked)),
        Piece::Broken => {
            detach(flow);
            Outbound::Silent
        }
        Piece::Interim(first) => {
            let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
            tokio::spawn(pump(first, flow, sender));
            Outbound::Many(pieces)
        }
    }
}

pub(super) async fn pump(first: Outgoing, mut flow: Flow, to: mpsc::Sender<Outgoing>) {
    let mut next = Some(first);
    loop {
        if let Some(outgoing) = next.take()
            && to.send(outgoing).await.is_err()
        {
            return detach(flow);
        }
        let came = tokio::select! {
            came = flow.next() => came,
            () = to.closed() => return detach(flow),
        };
        let piece = match came {
            Next::Piece(piece) => piece,
            Next::Large(large) => {
                let (piece, back) = flow.read_on(large).await;
                flow = back;
                piece
            }
        };
        match piece {
            Piece::Interim(outgoing) => next = Some(outgoing),
            Piece::Last { body, .. } => {
                let _ = to.send(Outgoing::plain(body)).await;
                return;
            }
            Piece::Questions(asked) => {
                let body = park(flow, asked);
                let _ = to.send(Outgoing::plain(body)).await;
                return;
            }
            Piece::Broken => return detach(flow),
            Piece::Cancelled => return,
        }
    }
}

/// The client or the server hung up. In a session the answer may still come on another stream.
pub(super) fn detach(flow: Flow) {
    if let Some(session) = flow.tail.scene.session.clone()
        && flow.tail.resumable
    {
        session.detach(flow.tail);
    }
}

/// Parks a call whose server asked something, and says so to the client.
pub(super) fn park(mut flow: Flow, asked: Vec<(Question, Id)>) -> Bytes {
    if flow.asks_for_a_task() {
        return flow.park_task(asked);
    }
    flow.set_asking(true);
    let (gate, client_id) = (Arc::clone(&flow.tail.scene.gate), flow.tail.id.clone());
    let until_us = gate.clock.now().wall_us + crate::mrtr::ROUND_SECONDS_MAX * 1_000_000;
    let grant = flow.tail.scene.holder.id.clone();
    let questions: Vec<Question> = asked.iter().map(|(question, _)| question.clone()).collect();
    let call = flow.tail.asked.clone();
    let scene = flow.tail.scene.clone();
    let server = flow.tail.peer.server.name.clone();
    let owed = Owed::of(&scene, &flow.tail.peer, asked);
    let parked = gate.rounds.park(ParkedCall { flow, questions: owed, grant, until_us });
    let sealed = parked.ok().zip(call.digest(&gate)).and_then(|(handle, digest)| {
        gate.seal(&scene, &server, &digest, call.first_seq, Inner::Parked(handle))
    });
    match sealed {
        Some(state) => {
            let result = translate::input_required(&questions, &state);
            crate::wire::result_body(&client_id, &result).into()
        }
        None => error_body(
            Some(&client_id),
            -32603,
            "too many questions wait for their clients; answer some of them first",
            None,
        )
        .into(),
    }
}

/// A further round of a call that waits here: hands the answers to its server and goes on. Who leaves one
/// out is asked for it again.
pub(super) async fn resume(ask: &Ask<'_>, mut parked: Box<ParkedCall>, permit: Permit) -> Outbound {
    let id = &ask.request.id;
    let responses = ask.request.params.and_then(|params| params.get("inputResponses"));
    parked.flow.tail.id = id.clone();
    let Sorted { given, missing } = Sorted::of(parked.questions, responses);
    if given.is_empty() {
        release(permit, "an answer is missing");
        return Outbound::ok(park(parked.flow, missing));
    }
    if let Err(error) = answer(&parked.flow.tail.peer, &permit, &given).await {
        let piece = parked.flow.tail.failed(&error);
        release(permit, "the server is gone");
        return bring(piece, parked.flow);
    }
    // The first round's permit stays with the call; this round's row only says that it went on.
    Gate::settled(permit, Ending::Ok);
    if !missing.is_empty() {
        return Outbound::ok(park(parked.flow, missing));
    }
    parked.flow.set_asking(false);
    match parked.flow.next().await {
        Next::Piece(first) => bring(first, parked.flow),
        Next::Large(large) => {
            let (first, flow) = parked.flow.read_on(large).await;
            bring(first, flow)
        }
    }
}

/// Hands a client's answers to the server that asked.
async fn answer(
    peer: &Peer,
    permit: &Permit,
    given: &[(Id, Value<'_>)],
) -> Result<(), UpstreamError> {
    for (asked, answer) in given {
        let body = crate::wire::result_body(asked, answer.raw());
        peer.send(permit, upstream::Outgoing::response(body.into())).await?;
    }
    Ok(())
}

/// `tasks/update` for an older server, which has no such thing: the answer goes where it was asked.
pub(super) async fn update_task(ask: &Ask<'_>, peer: &Arc<Peer>, permit: Permit) -> Outbound {
    let (id, params) = (&ask.request.id, ask.request.params);
    let task = params.and_then(|params| params.get("taskId")?.as_str()).unwrap_or_default();
    let rounds = &ask.scene.gate.rounds;
    let key = (ask.scene.holder.id.clone(), peer.server.name.clone(), task.into_owned());
    let Some(parked) = rounds.unpark_task(&key) else {
        release(permit, "the task asks nothing");
        let words = "this task does not wait for an answer";
        return Outbound::ok(error_body(Some(id), code::INVALID_PARAMS, words, None));
    };
    let answers = params.and_then(|params| params.get("inputResponses"));
    let ParkedCall { flow, questions, grant, until_us } = parked;
    let Sorted { given, missing } = Sorted::of(questions, answers);
    if let Err(error) = answer(peer, &permit, &given).await {
        release(permit, "the server is gone");
        return Outbound::ok(answers::upstream_failed(id, &peer.server.name, &error));
    }
    if !missing.is_empty() {
        let questions = Owed::of(ask.scene, peer, missing);
        rounds.park_task(key, ParkedCall { flow, questions, grant, until_us });
    }
    Gate::settled(permit, Ending::Ok);
    Outbound::ok(crate::wire::result_body(id, "{\"resultType\":\"complete\"}"))
}
