//! Reads the response of a call that crosses eras: forwards input requests to the client, follows tasks, and
//! sends log messages of other streams first.

use std::pin::{Pin, pin};

use bytes::Bytes;

use super::Crossing;
use crate::exchange::in_flight::InFlightCall;
use crate::exchange::response_reader::{
    LargeMessage, NextPart, Received, ResponsePart, ResponseReader, ResponseSource, until_cancelled,
};
use crate::session::ClientMessage;
use crate::upstream::peer::PendingReply;
use crate::upstream::server_requests::ServerRequests;
use crate::upstream::{Event, Events, Reply, SharedPause, UpstreamError};

/// A source that waits for something other than the next message.
pub(in crate::exchange) enum BridgeWait {
    /// The response has not started.
    ForResponse(PendingReply, SharedPause),
    /// A message that was put back until the log messages before it are sent, and the rest of the source.
    PutBack(u16, Event, ResponseSource),
}

/// The first message after a request was sent.
pub(super) enum FirstMessage {
    Response(Result<Reply, UpstreamError>),
    ServerRequest(Bytes),
}

impl ResponseReader {
    /// Sends a call whose server may send a request before it responds.
    pub(in crate::exchange) fn waiting(
        call: InFlightCall,
        mut out: crate::upstream::UpstreamMessage,
    ) -> Option<ResponseReader> {
        let pause = out.client_pause.insert(SharedPause::default()).clone();
        let reply = call.peer.start_request(call.permit.as_ref()?, out);
        let source = ResponseSource::Bridged(Box::new(BridgeWait::ForResponse(reply, pause)));
        Some(ResponseReader::with(source, call))
    }

    /// Pauses the server's timeouts while the client answers a server request.
    pub(in crate::exchange) fn set_waiting_for_client(&mut self, waiting: bool) {
        set_waiting_for_client(&mut self.source, waiting);
        if let Some(crossing) = self.call.crossing.to_older()
            && let Some(requests) = &crossing.requests
        {
            requests.set_waiting_for_client(waiting);
        }
    }

    /// The next part of a call that crosses eras.
    pub(in crate::exchange) fn next_bridged(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = NextPart> + Send + '_>> {
        Box::pin(async move {
            loop {
                if let Some(next) = self.pending_work().await {
                    return next;
                }
                let part = match self.receive_bridged().await {
                    Received::Event(status, event) if self.await_logs(&event.message).await => {
                        self.put_back(status, event);
                        continue;
                    }
                    Received::Event(status, event) if self.is_large(&event.message) => {
                        return NextPart::Large(LargeMessage { status, event });
                    }
                    Received::Event(status, event) => self.classify_buffered(status, &event),
                    Received::Builtin { body, failed } => {
                        Some(self.call.finish_builtin(&body, failed))
                    }
                    Received::Failed(error) => Some(self.call.failed(&error)),
                    Received::Ended => Some(self.call.stream_ended()),
                    Received::Cancelled => return NextPart::Ready(self.call.cancelled()),
                };
                match part {
                    None => {}
                    Some(ResponsePart::InputRequests(first)) => return self.gather(first).await,
                    Some(part) => {
                        self.call.wait_until_recorded().await;
                        return NextPart::Ready(part);
                    }
                }
            }
        })
    }

    /// Work that is due before the next message of the server is read.
    async fn pending_work(&mut self) -> Option<NextPart> {
        match &mut self.call.crossing {
            Crossing::None => None,
            Crossing::OlderToNewer(crossing) => {
                let (asks, polls) = (
                    crossing.pending_input.is_some(),
                    crossing.polling.as_ref().is_some_and(|polling| polling.is_due()),
                );
                if asks && let Some(part) = self.continue_asking().await {
                    return Some(NextPart::Ready(part));
                }
                if polls && let Some(part) = self.poll_task().await {
                    return Some(NextPart::Ready(part));
                }
                None
            }
            Crossing::NewerToOlder(crossing) => {
                if let Some(part) = crossing.pending.pop_front() {
                    return Some(NextPart::Ready(part));
                }
                if self.is_task_request_due() {
                    return Some(self.fetch_task_request().await);
                }
                if self.is_follow_up_due()
                    && let Some(part) = self.follow_up().await
                {
                    return Some(NextPart::Ready(part));
                }
                let log = self.call.next_stray_log()?;
                Some(NextPart::Ready(ResponsePart::Interim(ClientMessage::plain(log))))
            }
        }
    }

    /// The next message of the server, on the call's stream or outside it.
    async fn receive_bridged(&mut self) -> Received {
        loop {
            match std::mem::replace(&mut self.source, ResponseSource::Ended) {
                ResponseSource::Bridged(wait) => match *wait {
                    BridgeWait::PutBack(status, event, rest) => {
                        self.source = rest;
                        return Received::Event(status, event);
                    }
                    BridgeWait::ForResponse(reply, pause) => {
                        if let Some(came) = self.await_response_start(reply, pause).await {
                            return came;
                        }
                    }
                },
                ResponseSource::Events(events) if self.call.crossing.hears_server_requests() => {
                    return self.read_events(events).await;
                }
                source => {
                    self.source = source;
                    return self.receive().await;
                }
            }
        }
    }

    async fn read_events(&mut self, mut events: Events) -> Received {
        let grace = self.call.cancel_grace();
        let next = {
            let requests = self.call.crossing.to_older_mut();
            let requests = requests.and_then(|crossing| crossing.requests.as_deref_mut());
            let next = pin!(next_of(&mut events, requests));
            until_cancelled(self.call.in_flight.as_ref(), grace, next).await
        };
        self.source = ResponseSource::Events(events);
        match next {
            None => Received::Cancelled,
            Some(None) => Received::Ended,
            Some(Some(Ok(event))) => Received::Event(200, event),
            Some(Some(Err(error))) => Received::Failed(error),
        }
    }

    /// Waits for the start of the response, which becomes the source, or for a server request before it.
    async fn await_response_start(
        &mut self,
        mut reply: PendingReply,
        pause: SharedPause,
    ) -> Option<Received> {
        let grace = self.call.cancel_grace();
        let came = {
            let requests = self.call.crossing.to_older_mut();
            let requests = requests.and_then(|crossing| crossing.requests.as_deref_mut());
            let came = pin!(first_of(&mut reply, requests));
            until_cancelled(self.call.in_flight.as_ref(), grace, came).await
        };
        match came {
            None => Some(Received::Cancelled),
            Some(FirstMessage::Response(Err(error))) => Some(Received::Failed(error)),
            Some(FirstMessage::Response(Ok(reply))) => {
                self.is_streamed = matches!(reply, Reply::Many(_));
                self.source = ResponseSource::of(reply);
                None
            }
            Some(FirstMessage::ServerRequest(message)) => {
                self.source =
                    ResponseSource::Bridged(Box::new(BridgeWait::ForResponse(reply, pause)));
                Some(Received::message(200, message))
            }
        }
    }

    /// Puts a message back in front of the source.
    pub(super) fn put_back(&mut self, status: u16, event: Event) {
        let rest = std::mem::replace(&mut self.source, ResponseSource::Ended);
        self.source = ResponseSource::Bridged(Box::new(BridgeWait::PutBack(status, event, rest)));
    }
}

fn set_waiting_for_client(source: &mut ResponseSource, waiting: bool) {
    match source {
        ResponseSource::Events(events) => events.set_waiting_for_client(waiting),
        ResponseSource::Bridged(wait) => match &mut **wait {
            BridgeWait::ForResponse(_, pause) => pause.set_waiting_for_client(waiting),
            BridgeWait::PutBack(_, _, rest) => set_waiting_for_client(rest, waiting),
        },
        ResponseSource::One(..) | ResponseSource::Builtin { .. } | ResponseSource::Ended => {}
    }
}

pub(super) async fn first_of(
    reply: &mut PendingReply,
    requests: Option<&mut ServerRequests>,
) -> FirstMessage {
    let Some(requests) = requests else { return FirstMessage::Response(reply.await) };
    tokio::select! {
        biased;
        reply = reply => FirstMessage::Response(reply),
        message = requests.next() => FirstMessage::ServerRequest(message),
    }
}

/// The next event of the call's stream, or a server request outside it.
pub(super) async fn next_of(
    events: &mut Events,
    requests: Option<&mut ServerRequests>,
) -> Option<Result<Event, UpstreamError>> {
    let Some(requests) = requests else { return events.next().await };
    tokio::select! {
        biased;
        event = events.next() => event,
        message = requests.next() => Some(Ok(Event { message, ..Event::default() })),
    }
}
