//! What can fail between the gate and a server, and whether the call may have happened.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::in_seconds;
use crate::runtime::response_buffer::BufferFull;

/// Why there is no (further) response. No variant contains a header value or a message of the gate.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The call certainly did not happen: no connection was made, or the child is not running.
    #[error("the message was not sent: {why}")]
    NeverSent { why: NotSent },
    /// An edit changed the method, name or target of the message, so it was not sent.
    #[error("the message was not sent: after editing it is no longer the call that was judged")]
    NotAsJudged,
    /// It was sent, at least in part, and the response is not complete.
    #[error("the response was lost: {why}")]
    Lost { why: String },
    #[error("{stage} took longer than {}", in_seconds(*after))]
    TimedOut { stage: Stage, after: Duration },
    #[error("{what} is larger than {bytes_max} bytes")]
    TooLarge { what: Excess, bytes_max: usize },
    /// The server refused with an HTTP status instead of a JSON-RPC error. The body is cut off at a limit.
    #[error("the server responded with status {status}{}", status_hint(*status))]
    Status { status: u16, body: Bytes },
    /// The server violated the protocol.
    #[error("the response is invalid: {why}")]
    Malformed { why: String },
    /// The owner must sign in to the server or allow more; the server did nothing. `page` is where that is done
    /// for one grant.
    #[error("{why}")]
    SignIn { why: String, page: Option<String> },
    /// The gate closed the link.
    #[error("the link is closed")]
    Closed,
}

impl UpstreamError {
    /// Whether the server may have acted. Only `false` makes a retry safe.
    pub fn may_have_happened(&self) -> bool {
        !matches!(
            self,
            UpstreamError::NeverSent { .. }
                | UpstreamError::NotAsJudged
                | UpstreamError::SignIn { .. }
                | UpstreamError::TimedOut { stage: Stage::Queue, .. }
        )
    }

    /// The reason without what the gate was doing, for a user who only wants to know what is wrong with the
    /// server.
    pub(crate) fn reason(&self) -> String {
        match self {
            UpstreamError::NeverSent { why: NotSent::NotConnected(error) } => error.reason(),
            UpstreamError::NeverSent { why: NotSent::NotRunning(why) | NotSent::Other(why) }
            | UpstreamError::Lost { why } => why.clone(),
            error => error.to_string(),
        }
    }

    pub(crate) fn never_sent(why: impl Into<String>) -> UpstreamError {
        UpstreamError::NeverSent { why: NotSent::Other(why.into()) }
    }

    pub(super) fn not_running(reason: impl Into<String>) -> UpstreamError {
        UpstreamError::NeverSent { why: NotSent::NotRunning(reason.into()) }
    }

    pub(super) fn lost(why: impl Into<String>) -> UpstreamError {
        UpstreamError::Lost { why: why.into() }
    }

    pub(super) fn buffer_full(why: &BufferFull) -> UpstreamError {
        UpstreamError::lost(why.to_string())
    }

    pub(super) fn garbled(why: impl Into<String>) -> UpstreamError {
        UpstreamError::Malformed { why: why.into() }
    }

    /// Maps an error of hyper after the request was sent.
    pub(super) fn from_hyper(error: &hyper::Error) -> UpstreamError {
        if error.is_parse_too_large() {
            return UpstreamError::garbled("its head is too large");
        }
        if error.is_parse() || broken_framing(error) {
            return UpstreamError::garbled(innermost(error));
        }
        UpstreamError::lost(innermost(error))
    }
}

/// Why a message was not sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotSent {
    #[error("cannot open a connection to the server: {0}")]
    NotConnected(Box<UpstreamError>),
    #[error("the server is not running: {0}")]
    NotRunning(String),
    #[error("{0}")]
    Other(String),
}

/// What a status means to an owner who has just added the server.
fn status_hint(status: u16) -> &'static str {
    match status {
        401 => ": it requires a sign-in (OAuth) or a token",
        403 => ": it does not accept this token",
        404 => ": there is no MCP server at this address",
        _ => "",
    }
}

/// Whether the body's framing (chunk sizes, trailers) was invalid, as opposed to cut off.
fn broken_framing(error: &hyper::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput};
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return matches!(io.kind(), InvalidData | InvalidInput);
        }
        source = inner.source();
    }
    false
}

/// The innermost cause, which is the most specific.
fn innermost(error: &hyper::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(inner) = deepest.source() {
        deepest = inner;
    }
    deepest.to_string()
}

/// Which timeout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting to send; nothing was sent.
    Queue,
    /// From sending to the first byte of the response.
    FirstByte,
    /// Between two parts of a response.
    Idle,
    /// The whole exchange.
    Total,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Queue => "waiting to send",
            Stage::FirstByte => "waiting for a response",
            Stage::Idle => "a pause in the response",
            Stage::Total => "the whole response",
        })
    }
}

/// What was too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// A whole response.
    Answer,
    /// One event of a stream.
    Event,
    /// One line of a child's output.
    Line,
    /// Unread messages of a slow reader.
    Backlog,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Excess::Answer => "the response",
            Excess::Event => "an event of the response",
            Excess::Line => "a line of the response",
            Excess::Backlog => "the backlog of unread messages",
        })
    }
}
