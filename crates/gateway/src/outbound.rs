//! What goes back to a client for one message, whichever way it came.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::session::Outgoing;

/// The gate's answer to one message.
pub(crate) enum Outbound {
    /// A notification or a client's answer was taken; there is nothing to say.
    Accepted,
    /// One message. The status is HTTP's; over stdio it means nothing.
    One { status: u16, body: Bytes, session: Option<String> },
    /// Messages as they come; the last one is the answer.
    Many(Pieces),
    /// The client took its request back and nobody will answer it.
    Silent,
}

/// The reading end of an answer in pieces. Dropping it tells the writer that nobody listens.
pub(crate) type Pieces = mpsc::Receiver<Outgoing>;

/// Pieces that may wait for a slow client before the server is slowed down too.
pub(crate) const PIECES_WAITING_MAX: usize = 64;

impl Outbound {
    pub(crate) fn ok(body: impl Into<Bytes>) -> Outbound {
        Outbound::with_status(200, body)
    }

    /// A stream of one message.
    pub(crate) fn stream_of(body: impl Into<Bytes>) -> Outbound {
        let (sender, pieces) = mpsc::channel(1);
        // The channel has room for one.
        let _ = sender.try_send(Outgoing::plain(body));
        Outbound::Many(pieces)
    }

    pub(crate) fn with_status(status: u16, body: impl Into<Bytes>) -> Outbound {
        Outbound::One { status, body: body.into(), session: None }
    }
}
