//! Routes requests that a legacy server sends on its own stream, outside the call they belong to. They do not
//! name that call, so they go to the newest one whose client supports them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use policy::json::Value;
use tokio::sync::{OnceCell, mpsc};

use mcp::{ClientCapabilities, InputKind};

/// Requests queued for one call. Further ones are refused.
const WAITING_MAX: usize = 16;

/// The calls of a peer that can receive server requests.
#[derive(Default)]
pub(crate) struct ServerRequestRouter {
    /// Set when the server's stream is open for them.
    pub(crate) stream_open: OnceCell<()>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// The oldest first.
    waiting: Vec<RoutableCall>,
    next: u64,
}

struct RoutableCall {
    number: u64,
    client_capabilities: ClientCapabilities,
    /// Its client is answering a server request.
    waiting_for_client: bool,
    /// How many requests were routed to it.
    times: usize,
    routed: mpsc::Sender<Bytes>,
}

/// The server requests for one call, as long as this lives.
pub(crate) struct ServerRequests {
    request_router: Arc<ServerRequestRouter>,
    number: u64,
    routed: mpsc::Receiver<Bytes>,
}

impl ServerRequestRouter {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(
        self: &Arc<Self>,
        client_capabilities: ClientCapabilities,
    ) -> ServerRequests {
        let (sender, routed) = mpsc::channel(WAITING_MAX);
        let mut calls = self.calls();
        calls.next += 1;
        let number = calls.next;
        calls.waiting.push(RoutableCall {
            number,
            client_capabilities,
            waiting_for_client: false,
            times: 0,
            routed: sender,
        });
        ServerRequests { request_router: Arc::clone(self), number, routed }
    }

    /// Routes a request to a call. False if no call supports it.
    pub(crate) fn put(&self, method: &str, params: Option<Value<'_>>, message: &Bytes) -> bool {
        let mut calls = self.calls();
        let question = InputKind::of(method, params);
        let waiting = calls.waiting.iter_mut().rev();
        let mut supporting: Vec<_> =
            waiting.filter(|call| call.client_capabilities.accepts(question)).collect();
        // Idle clients first, then those with the fewest requests, because most calls send one.
        supporting.sort_by_key(|call| (call.waiting_for_client, call.times));
        supporting.into_iter().any(|call| {
            let is_put = call.routed.try_send(message.clone()).is_ok();
            call.times += usize::from(is_put);
            is_put
        })
    }
}

impl ServerRequests {
    /// Marks whether the client is answering a server request.
    pub(crate) fn set_waiting_for_client(&self, waiting_for_client: bool) {
        let mut calls = self.request_router.calls();
        for call in calls.waiting.iter_mut().filter(|call| call.number == self.number) {
            call.waiting_for_client = waiting_for_client;
        }
    }

    /// The next request. It may never resolve.
    pub(crate) async fn next(&mut self) -> Bytes {
        match self.routed.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

impl ServerRequests {
    /// Unregisters the call and returns its unread requests, which must be routed again.
    pub(crate) fn leave(mut self) -> Vec<Bytes> {
        self.unregister();
        std::iter::from_fn(|| self.routed.try_recv().ok()).collect()
    }

    fn unregister(&self) {
        self.request_router.calls().waiting.retain(|call| call.number != self.number);
    }
}

impl Drop for ServerRequests {
    fn drop(&mut self) {
        self.unregister();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    fn client_capabilities(capabilities: &str) -> ClientCapabilities {
        let doc = Doc::read(capabilities.as_bytes(), &Bounds::MESSAGE).unwrap();
        ClientCapabilities::of(Some(doc.root()))
    }

    fn put(request_router: &ServerRequestRouter, method: &str, params: &str) -> bool {
        let doc = Doc::read(params.as_bytes(), &Bounds::MESSAGE).unwrap();
        request_router.put(method, Some(doc.root()), &Bytes::copy_from_slice(params.as_bytes()))
    }

    #[tokio::test]
    async fn a_question_goes_to_the_newest_call_whose_client_takes_it() {
        let request_router = Arc::new(ServerRequestRouter::default());
        let mut old =
            request_router.enter(client_capabilities(r#"{"elicitation":{"form":{},"url":{}}}"#));
        let mut new = request_router.enter(client_capabilities(r#"{"elicitation":{}}"#));
        let mut model = request_router.enter(client_capabilities(r#"{"sampling":{}}"#));
        let (form, url) = (r#"{"message":"who?"}"#, r#"{"mode":"url"}"#);
        assert!(put(&request_router, "elicitation/create", form));
        assert_eq!(new.next().await, form);
        assert!(put(&request_router, "elicitation/create", url));
        assert_eq!(old.next().await, url);
        assert!(put(&request_router, "sampling/createMessage", "{}"));
        assert_eq!(model.next().await, "{}");
        assert!(!put(&request_router, "sampling/createMessage", r#"{"tools":[]}"#));
        assert!(!put(&request_router, "roots/list", "{}"));
        new.set_waiting_for_client(true);
        assert!(put(&request_router, "elicitation/create", form));
        assert_eq!(old.next().await, form, "the newer one is being asked already");
        assert!(put(&request_router, "elicitation/create", form));
        assert_eq!(old.leave(), [form], "it was not read");
        assert!(put(&request_router, "elicitation/create", form));
        assert_eq!(new.next().await, form);
    }

    #[tokio::test]
    async fn the_least_recently_read_record_is_next() {
        let request_router = Arc::new(ServerRequestRouter::default());
        let mut calls: Vec<_> =
            (0..3).map(|_| request_router.enter(client_capabilities(r#"{"roots":{}}"#))).collect();
        for _ in 0..2 {
            assert_eq!((0..3).filter(|_| put(&request_router, "roots/list", "{}")).count(), 3);
            for call in &mut calls {
                assert_eq!(call.next().await, "{}");
            }
        }
    }

    #[test]
    fn a_call_has_a_bound_of_pending_approvals() {
        let request_router = Arc::new(ServerRequestRouter::default());
        let _call = request_router.enter(client_capabilities(r#"{"roots":{}}"#));
        let taken = (0..=WAITING_MAX).filter(|_| put(&request_router, "roots/list", "{}")).count();
        assert_eq!(taken, WAITING_MAX);
    }
}
