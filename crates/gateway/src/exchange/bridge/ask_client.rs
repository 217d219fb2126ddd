//! Forwards input requests of a modern server to the legacy client of a session.

use crate::exchange::response_reader::{
    ResponsePart, ResponseReader, ResponseSource, until_cancelled,
};
use crate::exchange::results;
use crate::session::{ClientMessage, ClientResponse, ResponseTarget};
use bytes::Bytes;
use mcp::translate::{self, InputRequest};
use mcp::{InputKind, request_body};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a client may take to answer a server request.
const REQUEST_WAIT_MAX: Duration = Duration::from_mins(10);
/// Further rounds per call. A server that asks more often would never respond, and each round is another call.
const ROUNDS_MAX: usize = 16;

/// Input requests of a modern server, sent to a client of a session.
pub(in crate::exchange) struct PendingInput {
    to_send: Vec<Bytes>,
    waiting: Vec<(String, oneshot::Receiver<ClientResponse>)>,
    state: Option<String>,
}

impl ResponseReader {
    /// Sends input requests to a client of a session. With the answers, the server gets its own state back.
    pub(in crate::exchange) fn ask_client(
        &mut self,
        requests: Vec<InputRequest>,
        state: Option<String>,
    ) -> Option<ResponsePart> {
        if let Some(unsupported_input) =
            requests.iter().find_map(|request| self.unsupported_input(request))
        {
            return Some(self.call.refuse_input(unsupported_input));
        }
        let Some(session) = self.call.context.session.clone() else {
            return Some(self.call.refuse_input(InputKind::Form));
        };
        if !self.begin_round() {
            return Some(self.call.garbled("it keeps asking for input instead of responding"));
        }
        let mut pending_input = PendingInput { to_send: Vec::new(), waiting: Vec::new(), state };
        let redacted = self.call.request_redactions();
        for mut request in requests {
            if let Some(effects) = &redacted {
                request.params = results::redact_params_text(effects, &request.params);
            }
            let (answer, waiting) = oneshot::channel();
            let Some(id) = session.add_server_request(None, ResponseTarget::Call(answer)) else {
                return Some(self.call.garbled("its client has too many unanswered requests"));
            };
            let params = translate::legacy_question(&request, &id);
            pending_input.to_send.push(request_body(&id, &request.method, Some(&params)).into());
            pending_input.waiting.push((request.key, waiting));
        }
        self.call.crossing.to_newer_mut()?.pending_input = Some(pending_input);
        None
    }

    /// Counts a round. False if there were too many.
    fn begin_round(&mut self) -> bool {
        let Some(crossing) = self.call.crossing.to_newer_mut() else { return false };
        crossing.rounds += 1;
        crossing.rounds <= ROUNDS_MAX
    }

    /// Sends the input requests, collects the answers, and starts the next round.
    pub(in crate::exchange) async fn continue_asking(&mut self) -> Option<ResponsePart> {
        let crossing = self.call.crossing.to_newer_mut()?;
        let pending_input = crossing.pending_input.as_mut()?;
        if !pending_input.to_send.is_empty() {
            return Some(ResponsePart::Interim(ClientMessage::plain(
                pending_input.to_send.remove(0),
            )));
        }
        let pending_input = crossing.pending_input.take()?;
        let grace = self.call.cancel_grace();
        let mut answers = Vec::new();
        let asked_at = Instant::now();
        for (key, waiting) in pending_input.waiting {
            let answer = pin!(tokio::time::timeout(REQUEST_WAIT_MAX, waiting));
            match until_cancelled(self.call.in_flight.as_ref(), grace, answer).await {
                None => return Some(self.call.cancelled()),
                Some(Ok(Ok(ClientResponse::Result(result)))) => answers.push((key, result)),
                Some(Ok(Ok(ClientResponse::Error(error)))) => {
                    return Some(self.call.fail_with_client_error(&error));
                }
                Some(_) => {
                    return Some(self.call.garbled("the client did not answer its request"));
                }
            }
        }
        let crossing = self.call.crossing.to_newer_mut()?;
        if let Some(polling) = &mut crossing.polling {
            polling.answered(&answers);
            return None;
        }
        // All rounds are one call: only the time that the client took is not counted as the server's.
        crossing.client_took += asked_at.elapsed();
        crossing.progress.start_phase();
        let client_took = crossing.client_took;
        let Some(permit) = &self.call.permit else { return Some(self.call.stream_ended()) };
        let mut retry = self.call.request.retry(
            &self.call.context,
            &self.call.peer,
            &answers,
            pending_input.state.as_deref(),
        );
        retry.out.began = Some((self.call.began + client_took).into());
        self.call.sent_id = retry.id;
        let in_flight = self.call.in_flight.as_ref();
        if let Some(in_flight) = in_flight {
            in_flight.sent(&self.call.peer, self.call.sent_id.clone());
        }
        let reply = {
            let sent = pin!(self.call.peer.request(permit, retry.out));
            until_cancelled(in_flight, grace, sent).await
        };
        match reply {
            None => return Some(self.call.cancelled()),
            Some(Err(error)) => return Some(self.call.failed(&error)),
            Some(Ok(reply)) => self.source = ResponseSource::of(reply),
        }
        None
    }
}
