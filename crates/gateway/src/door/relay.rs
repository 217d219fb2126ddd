//! Pieces of an answer as events for the client, as they come.

use std::time::Duration;

use bytes::Bytes;

use crate::aside::{LARGE_BYTES, aside};
use crate::outbound::Pieces;
use crate::room;
use crate::scene::Scene;
use crate::serve::{Feed, turned_true};
use crate::session::Outgoing;
use crate::wire::sse;

/// Writes pieces as events until either end goes away or the grant is taken back.
pub(super) async fn relay(scene: Scene, mut pieces: Pieces, feed: Feed) {
    let every = scene.gate.bounds.keep_alive_every;
    let mut revoked = scene.lease.clone();
    loop {
        let next = tokio::select! {
            piece = tokio::time::timeout(every, pieces.recv()) => piece,
            () = feed.closed() => return,
            () = turned_true(&mut revoked) => return,
        };
        let encoded = match next {
            Ok(Some(piece)) if piece.message.len() > LARGE_BYTES => {
                aside(piece.message.len(), move || encode_large(&piece)).await
            }
            Ok(Some(piece)) => in_one(room::made_from(&piece.message, encode(&piece))),
            Ok(None) => return,
            Err(_) => in_one(Bytes::from_static(b": keep-alive\n\n")),
        };
        for bytes in encoded.into_iter().filter(|bytes| !bytes.is_empty()) {
            let sent = tokio::select! {
                sent = send(&feed, bytes, scene.gate.bounds.write_wait_max) => sent,
                () = turned_true(&mut revoked) => return,
            };
            if !sent {
                return;
            }
        }
    }
}

/// False when the client is gone or reads nothing for too long.
async fn send(feed: &Feed, bytes: Bytes, wait_max: Duration) -> bool {
    if let Ok(sent) = tokio::time::timeout(wait_max, feed.send(bytes)).await {
        return sent.is_ok();
    }
    tracing::info!("a client that reads nothing was dropped");
    false
}

fn in_one(bytes: Bytes) -> [Bytes; 3] {
    [bytes, Bytes::new(), Bytes::new()]
}

fn encode(piece: &Outgoing) -> Bytes {
    let message = sse::in_one_line(piece.message.clone());
    let mut out = Vec::with_capacity(message.len() + 64);
    sse::write_fields(piece.event_id.as_deref(), piece.retry_ms, &mut out);
    sse::write_data(&message, &mut out);
    out.into()
}

/// The same for a large message, which is not copied where it can stand as it is.
fn encode_large(piece: &Outgoing) -> [Bytes; 3] {
    let message = &piece.message;
    if !sse::is_one_line(message) {
        return in_one(room::made_from(message, encode(piece)));
    }
    let mut before = Vec::new();
    sse::write_fields(piece.event_id.as_deref(), piece.retry_ms, &mut before);
    before.extend_from_slice(sse::DATA);
    [before.into(), message.clone(), Bytes::from_static(b"\n\n")]
}
