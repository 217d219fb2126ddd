//! Reads a message body within its bound, its time, and the room that all large bodies share: many
//! clients that each send half of a large message must not fill the memory.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::OwnedSemaphorePermit;

use crate::bounds::Bounds;

/// So much of every message needs none of the shared room; ordinary messages are smaller.
const BYTES_FREE: usize = 16 * 1024;
/// A message of unknown length is moved when it has grown by this part of it.
const GROWS_BY_ONE_IN: usize = 4;
/// Large messages that come together wait for each other so long: one is read in milliseconds.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(3);

/// A message as it arrived. It gives its room back when it is dropped.
pub(crate) struct Gathered {
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ungathered {
    TooLarge,
    CutOff,
    TooSlow,
    /// Other large messages take all the room there is.
    NoRoom,
}

/// Reads the whole body, or says why not.
pub(crate) async fn gather<B>(body: B, bounds: &Bounds) -> Result<Gathered, Ungathered>
where
    B: Body<Data = Bytes> + Unpin,
{
    match tokio::time::timeout(bounds.body_wait_max, read(body, bounds)).await {
        Ok(read) => read,
        Err(_) => Err(Ungathered::TooSlow),
    }
}

async fn read<B>(mut body: B, bounds: &Bounds) -> Result<Gathered, Ungathered>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = body.size_hint().exact().map(usize::try_from);
    let announced = announced.transpose().map_err(|_| Ungathered::TooLarge)?;
    let mut room = reserve(announced.unwrap_or_default(), bounds).await?;
    let first = next(&mut body).await?.unwrap_or_default();
    take_room(&mut room, first.len(), bounds)?;
    if body.is_end_stream() {
        return Ok(Gathered { bytes: first, _room: room });
    }
    let mut all = Vec::with_capacity(announced.unwrap_or(first.len()));
    all.extend_from_slice(&first);
    drop(first);
    while let Some(piece) = next(&mut body).await? {
        take_room(&mut room, all.len() + piece.len(), bounds)?;
        if all.capacity() - all.len() < piece.len() {
            // A vector would double, and the room is counted by what came.
            all.reserve_exact(piece.len().max(all.len() / GROWS_BY_ONE_IN));
        }
        all.extend_from_slice(&piece);
    }
    Ok(Gathered { bytes: all.into(), _room: room })
}

/// The next piece of data; trailers mean nothing here.
async fn next<B>(body: &mut B) -> Result<Option<Bytes>, Ungathered>
where
    B: Body<Data = Bytes> + Unpin,
{
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| Ungathered::CutOff)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Room for the whole of a message of known length, before any of it is read: of many that come
/// together some are read to their end, instead of a part of each.
pub(crate) async fn reserve(
    bytes: usize,
    bounds: &Bounds,
) -> Result<Option<OwnedSemaphorePermit>, Ungathered> {
    if bytes > bounds.body_bytes_max {
        return Err(Ungathered::TooLarge);
    }
    let needed = u32::try_from(bytes.saturating_sub(BYTES_FREE));
    let needed = needed.map_err(|_| Ungathered::TooLarge)?;
    if needed == 0 {
        return Ok(None);
    }
    let room = bounds.large_bodies.clone().acquire_many_owned(needed);
    match tokio::time::timeout(ROOM_WAIT_MAX, room).await {
        Ok(Ok(room)) => Ok(Some(room)),
        Ok(Err(_)) | Err(_) => Err(Ungathered::NoRoom),
    }
}

/// Makes sure that a message of `bytes` so far holds the room it needs.
fn take_room(
    room: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
    bounds: &Bounds,
) -> Result<(), Ungathered> {
    if bytes > bounds.body_bytes_max {
        return Err(Ungathered::TooLarge);
    }
    let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = bytes.saturating_sub(BYTES_FREE).saturating_sub(held);
    if more == 0 {
        return Ok(());
    }
    let more = u32::try_from(more).map_err(|_| Ungathered::TooLarge)?;
    let taken =
        bounds.large_bodies.clone().try_acquire_many_owned(more).map_err(|_| Ungathered::NoRoom)?;
    match room {
        Some(room) => room.merge(taken),
        None => *room = Some(taken),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use http_body_util::Full;
    use store::settings::Limits;

    use super::*;

    fn body(bytes: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b' '; bytes]))
    }

    #[tokio::test(start_paused = true)]
    async fn large_messages_share_their_room_and_give_it_back() {
        let bounds = Bounds::from_limits(&Limits::default());
        let large = bounds.body_bytes_max;
        let mut kept = Vec::new();
        let refused = loop {
            match gather(body(large), &bounds).await {
                Ok(gathered) => kept.push(gathered),
                Err(why) => break why,
            }
        };
        assert_eq!(refused, Ungathered::NoRoom);
        assert!(kept.len() * large <= 80 << 20, "{} large messages were held", kept.len());
        assert!(gather(body(BYTES_FREE), &bounds).await.is_ok(), "small ones still pass");
        kept.clear();
        assert_eq!(gather(body(large), &bounds).await.unwrap().bytes.len(), large);
    }

    #[tokio::test]
    async fn a_message_over_its_bound_is_not_read() {
        let bounds = Bounds::from_limits(&Limits::default());
        let refused = gather(body(bounds.body_bytes_max + 1), &bounds).await.err();
        assert_eq!(refused, Some(Ungathered::TooLarge));
    }
}
