//! Gathers input requests that a legacy server sends at the same time, because each `input_required` result
//! costs a modern client a round.

use super::response::{BridgeWait, FirstMessage, first_of, next_of};
use crate::exchange::response_reader::{NextPart, ResponsePart, ResponseReader, ResponseSource};
use crate::upstream::{Event, UpstreamError};
use mcp::translate::InputRequest;
use mcp::{Id, InputKind, code};
use policy::json::{Bounds, Doc, Value};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// How long to wait for further input requests after the first.
const GATHER_WAIT: Duration = Duration::from_millis(20);
/// Input requests per result. Further ones wait for the next result.
const REQUESTS_MAX: usize = 16;

/// What arrived while gathering.
enum Arrival {
    Event(Event),
    /// The stream has ended.
    Over(Option<UpstreamError>),
    /// The response has started; it is the source now.
    Response,
}

impl ResponseReader {
    /// Gathers the input requests that arrive with these. Notifications in between are forwarded first.
    pub(in crate::exchange) fn gather(
        &mut self,
        first: Vec<(InputRequest, Id)>,
    ) -> Pin<Box<dyn Future<Output = NextPart> + Send + '_>> {
        Box::pin(async move {
            let until = Instant::now() + GATHER_WAIT;
            let mut all = first;
            while all.len() < REQUESTS_MAX {
                let event = match tokio::time::timeout_at(until, self.next_arrival()).await {
                    Ok(Arrival::Event(event)) => event,
                    Ok(Arrival::Over(error)) => {
                        let part = match error {
                            Some(error) => self.call.failed(&error),
                            None => self.call.stream_ended(),
                        };
                        return NextPart::Ready(part);
                    }
                    Ok(Arrival::Response) | Err(_) => break,
                };
                if self.is_large(&event.message) || self.must_wait(&event.message) {
                    self.put_back(200, event);
                    break;
                }
                match self.classify_buffered(200, &event) {
                    None => {}
                    Some(ResponsePart::InputRequests(more)) => all.extend(more),
                    Some(part @ ResponsePart::Interim(_)) => self.defer(part),
                    Some(part) => return self.server_went_on(&all, part).await,
                }
            }
            self.defer(ResponsePart::InputRequests(all));
            self.next_deferred()
        })
    }

    /// Whether a message must wait until the input requests before it are answered. A response must wait if the
    /// requests may belong to other calls, which would fail without answers. A request that this client does
    /// not support must wait, because the server may end the call when it is refused.
    fn must_wait(&self, message: &[u8]) -> bool {
        let Ok(doc) = Doc::read_shallow(message, &Bounds::ANSWER, 3) else { return false };
        let root = doc.root();
        if root.get("id").is_none() {
            return false;
        }
        let Some(method) = root.get("method").and_then(Value::as_str) else {
            return self.call.requests_may_be_unrelated();
        };
        let kind = InputKind::of(&method, root.get("params"));
        let is_taken =
            self.call.request.client_takes_kind(kind) && self.call.server_may_ask(&method);
        !is_taken && method != "ping"
    }

    /// The server responded before its requests were answered, so they are refused.
    async fn server_went_on(
        &mut self,
        requests: &[(InputRequest, Id)],
        part: ResponsePart,
    ) -> NextPart {
        for (_, id) in requests {
            self.call.refuse_server_request(id, code::INTERNAL);
        }
        self.call.wait_until_recorded().await;
        self.defer(part);
        self.next_deferred()
    }

    /// Queues a part behind the earlier ones.
    fn defer(&mut self, part: ResponsePart) {
        if let Some(crossing) = self.call.crossing.to_older_mut() {
            crossing.pending.push_back(part);
        }
    }

    fn next_deferred(&mut self) -> NextPart {
        let crossing = self.call.crossing.to_older_mut();
        match crossing.and_then(|crossing| crossing.pending.pop_front()) {
            Some(part) => NextPart::Ready(part),
            None => NextPart::Ready(self.call.stream_ended()),
        }
    }

    /// The next message. Cancel-safe.
    async fn next_arrival(&mut self) -> Arrival {
        let requests = self.call.crossing.to_older_mut();
        let requests = requests.and_then(|crossing| crossing.requests.as_deref_mut());
        match &mut self.source {
            ResponseSource::Events(events) => match next_of(events, requests).await {
                Some(Ok(event)) => Arrival::Event(event),
                Some(Err(error)) => Arrival::Over(Some(error)),
                None => Arrival::Over(None),
            },
            ResponseSource::Bridged(waiting) => match &mut **waiting {
                BridgeWait::ForResponse(reply, _) => match first_of(reply, requests).await {
                    FirstMessage::ServerRequest(message) => {
                        Arrival::Event(Event { message, ..Event::default() })
                    }
                    FirstMessage::Response(Err(error)) => Arrival::Over(Some(error)),
                    FirstMessage::Response(Ok(reply)) => {
                        self.source = ResponseSource::of(reply);
                        Arrival::Response
                    }
                },
                BridgeWait::PutBack(..) => Arrival::Response,
            },
            _ => Arrival::Response,
        }
    }
}
