//! The response to a client's message, independent of the transport.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::session::ClientMessage;

/// The gate's response to one message.
pub(crate) enum Outbound {
    /// A notification or response was accepted; there is no response.
    Accepted,
    /// One message. The status is for HTTP only.
    One { status: u16, body: Bytes, session: Option<String> },
    /// Messages as they arrive. The last one is the response.
    Many(ResponseParts),
    /// The client cancelled its request, so nothing is sent.
    NoResponse,
}

/// The receiver of a response in parts. Dropping it tells the sender that the client has gone.
pub(crate) type ResponseParts = mpsc::Receiver<ClientMessage>;

/// Parts queued for a slow client before the server is slowed down by back-pressure.
pub(crate) const QUEUED_PARTS_MAX: usize = 64;

impl Outbound {
    pub(crate) fn ok(body: impl Into<Bytes>) -> Outbound {
        Outbound::with_status(200, body)
    }

    /// A stream with one message.
    pub(crate) fn stream_of(body: impl Into<Bytes>) -> Outbound {
        let (sender, parts) = mpsc::channel(1);
        // The channel has capacity for one.
        let _ = sender.try_send(ClientMessage::plain(body));
        Outbound::Many(parts)
    }

    pub(crate) fn with_status(status: u16, body: impl Into<Bytes>) -> Outbound {
        Outbound::One { status, body: body.into(), session: None }
    }
}
