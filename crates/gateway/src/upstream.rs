//! The links to other people's MCP servers: pooled HTTP connections and supervised child processes.
//! Messages are opaque bytes here; nothing leaves without a pass.

mod backoff;
mod body;
mod child;
mod connection;
mod deadline;
mod dial;
mod error;
mod events;
mod headers;
mod http;
mod inflight;
mod legacy;
mod lines;
mod mask;
mod message;
mod options;
mod pass;
mod places;
mod plain;
mod pool;
mod queue;
mod replay;
mod ring;
mod route;
pub mod shim;
mod socket;
mod spoken;
mod stdio;
mod supervise;
mod tls;
mod waiter;
mod wishes;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use backoff::Backoff;
pub use dial::TargetRefused;
pub use error::{Excess, Stage, UpstreamError};
pub use events::{Event, Events};
pub use headers::HeaderRefused;
pub use http::{HttpLink, HttpServer};
pub use mask::{Mask, SECRET_BYTES_MIN};
pub use message::{Kind, Outgoing, Patience};
pub use options::{
    BASE_ENV_NAMES, ChildBounds, ChildOptions, HttpBounds, HttpOptions, Shim, Waits, base_env,
};
pub use pass::{Pass, Passed};
pub use stdio::StdioLink;
pub use supervise::State;
pub use tls::{TlsError, client_config};
pub use wishes::Wishes;

/// What came back for a request.
pub enum Reply {
    /// One message. The status is HTTP's; a child's answer has 200.
    One { status: u16, body: Bytes },
    /// A result that one of our own servers wrote: whole, in one reading, and to what was asked. It may
    /// say that the tool failed.
    Ours { body: Bytes, failed: bool },
    /// A stream that ends with the answer.
    Many(Events),
    /// Taken, and nothing to say (HTTP 202).
    Accepted,
}

impl Reply {
    /// The same without these secrets.
    async fn masked(self, mask: &Arc<Mask>) -> Reply {
        match self {
            Reply::One { status, body } => Reply::One { status, body: mask.message(body).await },
            Reply::Many(events) => Reply::Many(events.masked(mask)),
            reply @ (Reply::Ours { .. } | Reply::Accepted) => reply,
        }
    }
}

/// What came back for a wish to hear what the server says on its own.
pub enum Listening {
    Open(Events),
    /// The server has no such stream (HTTP 405).
    NotOffered,
}

impl Listening {
    fn masked(self, mask: &Arc<Mask>) -> Listening {
        match self {
            Listening::Open(events) => Listening::Open(events.masked(mask)),
            Listening::NotOffered => Listening::NotOffered,
        }
    }
}

/// One conversation with one server.
pub enum Link {
    Http(Box<HttpLink>),
    Stdio(StdioLink),
}

impl Link {
    /// Sends a request and waits for the first thing that comes back.
    pub async fn request(&self, pass: &Pass, out: Outgoing) -> Result<Reply, UpstreamError> {
        match self {
            Link::Http(link) => link.request(pass, out).await,
            Link::Stdio(link) => link.request(pass, out).await,
        }
    }

    /// Sends a notification or a response; nothing comes back.
    pub async fn send(&self, pass: &Pass, out: Outgoing) -> Result<(), UpstreamError> {
        match self {
            Link::Http(link) => link.send(pass, out).await,
            Link::Stdio(link) => link.send(pass, out).await,
        }
    }

    /// What the server says on its own: the GET stream, or a child's messages that belong to no request.
    pub async fn listen(
        &self,
        pass: &Pass,
        last_event_id: Option<&str>,
    ) -> Result<Listening, UpstreamError> {
        match self {
            Link::Http(link) => link.listen(pass, last_event_id).await,
            Link::Stdio(link) => link.listen(pass).await,
        }
    }

    /// Whether all that the server says comes on one stream, where nothing may tell about which request
    /// it is.
    pub fn shares_stream(&self) -> bool {
        match self {
            Link::Http(link) => link.shares_stream(),
            Link::Stdio(_) => true,
        }
    }

    /// What the server is told again when it has forgotten it.
    pub fn wishes(&self) -> &Wishes {
        match self {
            Link::Http(link) => link.wishes(),
            Link::Stdio(link) => link.wishes(),
        }
    }

    /// Ends the conversation: deletes the session, or stops the child and all it started.
    pub async fn close(&self) {
        match self {
            Link::Http(link) => link.close().await,
            Link::Stdio(link) => link.close().await,
        }
    }
}

/// How long a wait was, for people.
fn in_seconds(wait: Duration) -> String {
    format!("{} s", wait.as_secs_f64())
}
