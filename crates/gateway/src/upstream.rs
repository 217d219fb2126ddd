//! Links to MCP servers: pooled HTTP connections and supervised child processes; their handshakes, tool
//! lists and pins. Calls pass as bytes, and nothing is sent without a permit.

mod backoff;
mod body;
mod builtin_request;
mod child;
mod classify;
mod connection;
mod connection_limits;
mod deadline;
mod dial;
mod error;
mod events;
mod fast_path;
mod headers;
pub(crate) mod health;
mod http;
mod line_reader;
pub(crate) mod lists;
pub(crate) mod log_levels;
mod login;
mod mask;
mod message;
pub(crate) mod open;
mod options;
pub(crate) mod own_messages;
pub(crate) mod peer;
mod pending_requests;
mod permitted;
pub(crate) mod pins;
mod pool;
mod preread;
mod queue;
mod restore;
mod route;
pub(crate) mod server;
pub(crate) mod server_requests;
pub(crate) mod shared_stream;
pub(crate) mod skills;
mod socket;
mod sse_channel;
mod stderr_lines;
mod stderr_tail;
mod stdio;
mod supervise;
mod tls;
mod waiter;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use backoff::Backoff;
pub use dial::TargetRefused;
pub use error::{Excess, NotSent, Stage, UpstreamError};
pub use events::{Event, Events};
pub use headers::HeaderRefused;
pub use http::{HttpLink, HttpServer};
pub use login::ServerLogin;
pub use mask::{Mask, can_be_masked};
pub use message::{MessageKind, SharedPause, UpstreamMessage};
pub use options::{
    ChildBounds, ChildOptions, GuardProgram, HttpBounds, HttpOptions, Waits, base_env,
};
pub use permitted::{Permit, PermittedRequest};
pub use restore::RestoreState;
pub use stdio::StdioLink;
pub use supervise::ChildState;
pub use tls::{CaError, client_config};

/// The reply to a request.
pub enum Reply {
    /// One message. The status is for HTTP; replies of a child have 200.
    One { status: u16, body: Bytes },
    /// A result of a built-in server: complete, valid, with the right id. `failed` if the tool failed.
    Builtin { body: Bytes, failed: bool },
    /// A stream that ends with the response.
    Many(Events),
    /// Accepted without a response (HTTP 202).
    Accepted,
}

impl Reply {
    /// The reply without these secrets.
    async fn masked(self, mask: &Arc<Mask>) -> Reply {
        match self {
            Reply::One { status, body } => Reply::One { status, body: mask.message(body).await },
            Reply::Many(events) => Reply::Many(events.masked(mask)),
            reply @ (Reply::Builtin { .. } | Reply::Accepted) => reply,
        }
    }
}

/// The stream of messages that a server sends outside its responses.
pub enum ServerStream {
    Open(Events),
    /// The server has no such stream (HTTP 405).
    NotOffered,
}

impl ServerStream {
    fn masked(self, mask: &Arc<Mask>) -> ServerStream {
        match self {
            ServerStream::Open(events) => ServerStream::Open(events.masked(mask)),
            ServerStream::NotOffered => ServerStream::NotOffered,
        }
    }
}

/// A connection to one server: an HTTP session or a child process.
pub enum Link {
    Http(Box<HttpLink>),
    Stdio(StdioLink),
}

impl Link {
    /// Sends a request and waits for the start of the reply.
    pub async fn request(
        &self,
        permit: &Permit,
        out: UpstreamMessage,
    ) -> Result<Reply, UpstreamError> {
        match self {
            Link::Http(link) => {
                let outcome = link.request_unmasked(permit, out).await;
                if link.has_secrets() { Box::pin(link.masked(outcome)).await } else { outcome }
            }
            Link::Stdio(link) => link.request(permit, out).await,
        }
    }

    /// Sends a notification or a response.
    pub async fn send(&self, permit: &Permit, out: UpstreamMessage) -> Result<(), UpstreamError> {
        match self {
            Link::Http(link) => link.send(permit, out).await,
            Link::Stdio(link) => link.send(permit, out).await,
        }
    }

    /// Messages outside responses: the GET stream, or messages of a child that belong to no request.
    pub async fn listen(
        &self,
        permit: &Permit,
        last_event_id: Option<&str>,
    ) -> Result<ServerStream, UpstreamError> {
        match self {
            Link::Http(link) => link.listen(permit, last_event_id).await,
            Link::Stdio(link) => link.listen(permit).await,
        }
    }

    /// Whether all messages of the server come on one stream and may not name their request.
    pub fn shares_stream(&self) -> bool {
        match self {
            Link::Http(link) => link.shares_stream(),
            Link::Stdio(_) => true,
        }
    }

    /// What is restored in a server after its restart.
    pub fn restore_state(&self) -> &RestoreState {
        match self {
            Link::Http(link) => link.restore_state(),
            Link::Stdio(link) => link.restore_state(),
        }
    }

    /// Closes the link: deletes the session, or stops the child and its descendants.
    pub async fn close(&self) {
        match self {
            Link::Http(link) => link.close().await,
            Link::Stdio(link) => link.close().await,
        }
    }
}

/// A duration for error texts.
fn in_seconds(wait: Duration) -> String {
    format!("{} s", wait.as_secs_f64())
}
