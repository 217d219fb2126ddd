//! What can go wrong on the way to a server and back, and whether the call may have happened.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::in_seconds;
use crate::room::NoRoom;

/// Why there is no (further) answer. No variant holds a header value or a message of ours.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// It certainly did not happen: the connection was never made, or the child does not run.
    #[error("the message was not sent: {why}")]
    NeverSent { why: String },
    /// It was sent, at least in part, and the answer did not come back whole.
    #[error("the answer was lost: {why}")]
    Lost { why: String },
    #[error("{stage} took longer than {}", in_seconds(*after))]
    TimedOut { stage: Stage, after: Duration },
    #[error("{what} is larger than {bytes_max} bytes")]
    TooLarge { what: Excess, bytes_max: usize },
    /// The server refused in HTTP's words, not in JSON-RPC's. The body is cut at a bound.
    #[error("the server answered with status {status}{}", meaning(*status))]
    Status { status: u16, body: Bytes },
    /// The server broke the protocol.
    #[error("the answer cannot be read: {why}")]
    Garbled { why: String },
    /// The link was closed on our side.
    #[error("the link is closed")]
    Closed,
}

impl UpstreamError {
    /// Whether the server may have acted. Only a `false` here makes a second try harmless.
    pub fn may_have_happened(&self) -> bool {
        !matches!(
            self,
            UpstreamError::NeverSent { .. } | UpstreamError::TimedOut { stage: Stage::Queue, .. }
        )
    }

    pub(super) fn never_sent(why: impl Into<String>) -> UpstreamError {
        UpstreamError::NeverSent { why: why.into() }
    }

    pub(super) fn lost(why: impl Into<String>) -> UpstreamError {
        UpstreamError::Lost { why: why.into() }
    }

    pub(super) fn no_room(why: &NoRoom) -> UpstreamError {
        UpstreamError::lost(why.to_string())
    }

    pub(super) fn garbled(why: impl Into<String>) -> UpstreamError {
        UpstreamError::Garbled { why: why.into() }
    }

    /// Reads hyper's words for a failure after the request went out.
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

/// What a status means for one who has just added the server.
fn meaning(status: u16) -> &'static str {
    match status {
        401 => ": it wants you to sign in (OAuth), or a token",
        403 => ": it does not let this token in",
        404 => ": there is no MCP server at this address",
        _ => "",
    }
}

/// Whether the body's framing (chunk sizes, trailers) was wrong, as opposed to cut off.
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

/// The deepest cause, which is the one that says something.
fn innermost(error: &hyper::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(inner) = deepest.source() {
        deepest = inner;
    }
    deepest.to_string()
}

/// Where the time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for room to send; nothing was sent.
    Queue,
    /// From sending to the first sign of an answer.
    FirstByte,
    /// Between two parts of an answer.
    Idle,
    /// The whole exchange.
    Total,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Queue => "the wait for room to send",
            Stage::FirstByte => "the wait for an answer",
            Stage::Idle => "a pause in the answer",
            Stage::Total => "the whole answer",
        })
    }
}

/// What was too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// A whole answer.
    Answer,
    /// One event of a stream.
    Event,
    /// One line of a child's output.
    Line,
    /// What waits for a reader that does not read.
    Backlog,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Excess::Answer => "the answer",
            Excess::Event => "an event of the answer",
            Excess::Line => "a line of the answer",
            Excess::Backlog => "what waits to be read",
        })
    }
}
