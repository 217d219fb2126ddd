//! An MCP server that wants a sign-in, and its authorization server, on one loopback address. Tests choose how
//! both behave and read which requests they got.

mod authorization;
mod behaviour;
mod mcp;
mod state;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use url::Url;

use crate::StartError;
use crate::http::Request;
use crate::server::{self, Serving};

pub use behaviour::{Behaviour, Iss};
pub use state::Recorded;

use state::State;

/// A response with its headers.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// The events of a stream, instead of a body.
    stream: Option<UnboundedReceiver<Bytes>>,
}

impl Answer {
    fn json(status: u16, body: &Value) -> Answer {
        let headers = vec![("content-type", "application/json".to_owned())];
        Answer { status, headers, body: body.to_string(), stream: None }
    }

    fn empty(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: String::new(), stream: None }
    }
}

/// Sends events as they come.
struct EventBody(UnboundedReceiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// The running server; stops when dropped.
#[derive(Debug)]
pub struct ProtectedServer {
    origin: String,
    state: Arc<Mutex<State>>,
    _serving: Serving,
}

impl ProtectedServer {
    pub fn start(behaviour: Behaviour) -> Result<ProtectedServer, StartError> {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let (listener, address) =
            server::listen(address).map_err(|source| StartError::Listen { address, source })?;
        let origin = format!("http://{address}");
        let state = Arc::new(Mutex::new(State::new(origin.clone(), behaviour)));
        let shared = Arc::clone(&state);
        let serving = server::serve_with(listener, move |listener| accept(listener, shared))
            .map_err(StartError::Thread)?;
        Ok(ProtectedServer { origin, state, _serving: serving })
    }

    /// The address of the MCP server.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub fn issuer(&self) -> String {
        self.lock().issuer()
    }

    /// Changes how it behaves from now on.
    pub fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.lock().behaviour);
    }

    /// Makes all access tokens invalid; refresh tokens stay.
    pub fn expire_access(&self) {
        self.lock().access.clear();
    }

    /// Forgets all sessions, as after a restart.
    pub fn forget_sessions(&self) {
        self.lock().sessions.clear();
    }

    /// Ends the streams of clients of 2024-11-05.
    pub fn end_streams(&self) {
        // The numbers of sessions stay.
        for events in &mut self.lock().streams {
            *events = tokio::sync::mpsc::unbounded_channel().0;
        }
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.clone()
    }

    /// How many of them went to this path with this grant type.
    pub fn count(&self, path: &str, grant_type: &str) -> usize {
        let all = self.requests();
        let is = |one: &&Recorded| one.path == path && one.field("grant_type") == Some(grant_type);
        all.iter().filter(is).count()
    }

    /// What a person's browser does at the authorization endpoint: consents at once. The address it ends at.
    pub fn consent(&self, authorize: &str) -> Option<String> {
        let url = Url::parse(authorize).ok()?;
        let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        self.lock().authorize(&query)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: tokio::net::TcpListener, state: Arc<Mutex<State>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&state), request));
            // A client that disconnects is not an error here.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    incoming: hyper::Request<Incoming>,
) -> Result<hyper::Response<Either<Full<Bytes>, EventBody>>, Infallible> {
    let answer = match Request::read(incoming).await {
        Some(request) => {
            let (answer, delay) = {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                (state.answer(&request), state.behaviour.delay)
            };
            if request.is_refresh() && !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            answer
        }
        None => Answer::empty(400),
    };
    let body = match answer.stream {
        Some(events) => Either::Right(EventBody(events)),
        None => Either::Left(Full::new(Bytes::from(answer.body))),
    };
    let mut response = hyper::Response::new(body);
    *response.status_mut() =
        hyper::StatusCode::from_u16(answer.status).unwrap_or(hyper::StatusCode::BAD_REQUEST);
    for (name, value) in answer.headers {
        if let Ok(value) = hyper::header::HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}
