//! Reads a request body within its size bound, its timeout, and the buffer that all large bodies
//! share: many clients that each send half of a large message must not exhaust the memory.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::OwnedSemaphorePermit;

use crate::runtime::bounds::Bounds;

/// Bytes of every message that do not count against the shared buffer; ordinary messages are
/// smaller.
const UNRESERVED_BYTES: usize = 16 * 1024;
/// A message of unknown length reserves at least one part in this many of its size when it grows.
const GROWS_BY_ONE_IN: usize = 4;
/// How long large messages wait for each other; one is read in milliseconds.
const BUFFER_WAIT_MAX: Duration = Duration::from_secs(3);

/// A complete message. Dropping it releases its part of the shared buffer.
pub(crate) struct BufferedBody {
    pub bytes: Bytes,
    _reservation: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    CutOff,
    TooSlow,
    /// Other large messages have used up the shared buffer.
    BufferFull,
}

/// Reads the whole body.
pub(crate) async fn read_buffered<B>(body: B, bounds: &Bounds) -> Result<BufferedBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    match tokio::time::timeout(bounds.body_wait_max, read(body, bounds)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::TooSlow),
    }
}

async fn read<B>(mut body: B, bounds: &Bounds) -> Result<BufferedBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let announced = body.size_hint().exact().map(usize::try_from);
    let announced = announced.transpose().map_err(|_| BodyError::TooLarge)?;
    let mut reservation = reserve(announced.unwrap_or_default(), bounds).await?;
    let first = next(&mut body).await?.unwrap_or_default();
    grow_reservation(&mut reservation, first.len(), bounds)?;
    if body.is_end_stream() {
        return Ok(BufferedBody { bytes: first, _reservation: reservation });
    }
    let mut all = Vec::with_capacity(announced.unwrap_or(first.len()));
    all.extend_from_slice(&first);
    drop(first);
    while let Some(piece) = next(&mut body).await? {
        grow_reservation(&mut reservation, all.len() + piece.len(), bounds)?;
        if all.capacity() - all.len() < piece.len() {
            // A vector would double, but the shared buffer is counted by received bytes.
            all.reserve_exact(piece.len().max(all.len() / GROWS_BY_ONE_IN));
        }
        all.extend_from_slice(&piece);
    }
    Ok(BufferedBody { bytes: all.into(), _reservation: reservation })
}

/// The next data frame; trailers are ignored.
async fn next<B>(body: &mut B) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| BodyError::CutOff)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Reserves buffer for a whole message of known length before reading it. Of many concurrent
/// messages some complete, instead of none.
pub(crate) async fn reserve(
    bytes: usize,
    bounds: &Bounds,
) -> Result<Option<OwnedSemaphorePermit>, BodyError> {
    if bytes > bounds.body_bytes_max {
        return Err(BodyError::TooLarge);
    }
    let bytes_needed = u32::try_from(bytes.saturating_sub(UNRESERVED_BYTES));
    let bytes_needed = bytes_needed.map_err(|_| BodyError::TooLarge)?;
    if bytes_needed == 0 {
        return Ok(None);
    }
    let reservation = bounds.large_bodies.clone().acquire_many_owned(bytes_needed);
    match tokio::time::timeout(BUFFER_WAIT_MAX, reservation).await {
        Ok(Ok(reservation)) => Ok(Some(reservation)),
        Ok(Err(_)) | Err(_) => Err(BodyError::BufferFull),
    }
}

/// Extends the reservation to a message of `bytes` so far.
fn grow_reservation(
    reservation: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
    bounds: &Bounds,
) -> Result<(), BodyError> {
    if bytes > bounds.body_bytes_max {
        return Err(BodyError::TooLarge);
    }
    let held = reservation.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = bytes.saturating_sub(UNRESERVED_BYTES).saturating_sub(held);
    if more == 0 {
        return Ok(());
    }
    let more = u32::try_from(more).map_err(|_| BodyError::TooLarge)?;
    let taken = bounds
        .large_bodies
        .clone()
        .try_acquire_many_owned(more)
        .map_err(|_| BodyError::BufferFull)?;
    match reservation {
        Some(reservation) => reservation.merge(taken),
        None => *reservation = Some(taken),
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
    async fn large_messages_share_a_buffer_and_release_it() {
        let bounds = Bounds::from_limits(&Limits::default());
        let large = bounds.body_bytes_max;
        let mut kept = Vec::new();
        let refused = loop {
            match read_buffered(body(large), &bounds).await {
                Ok(body) => kept.push(body),
                Err(why) => break why,
            }
        };
        assert_eq!(refused, BodyError::BufferFull);
        assert!(kept.len() * large <= 80 << 20, "{} large messages were held", kept.len());
        assert!(
            read_buffered(body(UNRESERVED_BYTES), &bounds).await.is_ok(),
            "small ones still pass"
        );
        kept.clear();
        assert_eq!(read_buffered(body(large), &bounds).await.unwrap().bytes.len(), large);
    }

    #[tokio::test]
    async fn a_message_over_its_bound_is_not_read() {
        let bounds = Bounds::from_limits(&Limits::default());
        let refused = read_buffered(body(bounds.body_bytes_max + 1), &bounds).await.err();
        assert_eq!(refused, Some(BodyError::TooLarge));
    }
}
