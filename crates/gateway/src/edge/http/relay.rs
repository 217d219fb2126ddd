//! Relays the messages of a response stream to the client as server-sent events.

use std::time::Duration;

use bytes::Bytes;

use crate::edge::serve::BodySender;
use crate::exchange::context::RequestContext;
use crate::exchange::outbound::ResponseParts;
use crate::runtime::offload::{LARGE_BYTES, offload};
use crate::runtime::response_buffer;
use crate::runtime::stop_signal::turned_true;
use crate::session::ClientMessage;
use mcp::sse;

/// Writes events until either side closes or the grant is revoked.
pub(super) async fn relay(context: RequestContext, mut pieces: ResponseParts, feed: BodySender) {
    let every = context.services().bounds.keep_alive_every;
    let mut revoked = context.lease.clone();
    loop {
        let next = tokio::select! {
            piece = tokio::time::timeout(every, pieces.recv()) => piece,
            () = feed.closed() => return,
            () = turned_true(&mut revoked) => return,
        };
        let encoded = match next {
            Ok(Some(piece)) if piece.message.len() > LARGE_BYTES => {
                offload(piece.message.len(), move || encode_large(&piece)).await
            }
            Ok(Some(piece)) => {
                single(response_buffer::keep_reserved(&piece.message, encode(&piece)))
            }
            Ok(None) => return,
            Err(_) => single(Bytes::from_static(b": keep-alive\n\n")),
        };
        for bytes in encoded.into_iter().filter(|bytes| !bytes.is_empty()) {
            let sent = tokio::select! {
                sent = send(&feed, bytes, context.services().bounds.write_wait_max) => sent,
                () = turned_true(&mut revoked) => return,
            };
            if !sent {
                return;
            }
        }
    }
}

/// False when the client disconnected or stopped reading.
async fn send(feed: &BodySender, bytes: Bytes, wait_max: Duration) -> bool {
    if let Ok(sent) = tokio::time::timeout(wait_max, feed.send(bytes)).await {
        return sent.is_ok();
    }
    tracing::info!("dropped a client that stopped reading its stream");
    false
}

fn single(bytes: Bytes) -> [Bytes; 3] {
    [bytes, Bytes::new(), Bytes::new()]
}

fn encode(piece: &ClientMessage) -> Bytes {
    let message = sse::escape_line_ends(piece.message.clone());
    let mut out = Vec::with_capacity(message.len() + 64);
    sse::write_fields(piece.event_id.as_deref(), piece.retry_ms, &mut out);
    sse::write_data(&message, &mut out);
    out.into()
}

/// Like [`encode`] for a large message, without a copy where its line ends need no escaping.
fn encode_large(piece: &ClientMessage) -> [Bytes; 3] {
    let message = &piece.message;
    if !sse::is_one_line(message) {
        return single(response_buffer::keep_reserved(message, encode(piece)));
    }
    let mut before = Vec::new();
    sse::write_fields(piece.event_id.as_deref(), piece.retry_ms, &mut before);
    before.extend_from_slice(sse::DATA);
    [before.into(), message.clone(), Bytes::from_static(b"\n\n")]
}
