//! The memory that large answers of all servers share. An answer takes its part as it arrives and
//! gives it back when its last byte has gone to the client; one that finds no room is not read on,
//! so that the server waits instead of our memory growing.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::UpstreamError;

/// So much of every answer needs none of the shared room; ordinary answers are smaller.
const BYTES_FREE: usize = 256 * 1024;
/// Room is given out in parts of this size.
const PART_BYTES: usize = 64 * 1024;
/// What all large answers together may take up.
const ROOM_BYTES: usize = 128 << 20;
/// How long an answer waits for room before it is given up.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);

/// The process has one memory, so there is one room.
static ROOM: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(ROOM_BYTES / PART_BYTES)));

/// What one answer holds of the room.
#[derive(Default)]
pub(super) struct Share {
    parts: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Makes sure that an answer of `bytes` so far has its room. One larger than the whole room gets
    /// the room to itself.
    pub(super) async fn grow_to(&mut self, bytes: usize) -> Result<(), UpstreamError> {
        let held = self.parts.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = bytes.saturating_sub(BYTES_FREE).div_ceil(PART_BYTES);
        let more = wanted.min(ROOM_BYTES / PART_BYTES).saturating_sub(held);
        let Some(more) = u32::try_from(more).ok().filter(|more| *more > 0) else { return Ok(()) };
        let taking = Arc::clone(&ROOM).acquire_many_owned(more);
        let Ok(Ok(parts)) = tokio::time::timeout(ROOM_WAIT_MAX, taking).await else {
            return Err(UpstreamError::lost(
                "other large answers take all the memory there is for them; ask for less at a time",
            ));
        };
        match &mut self.parts {
            Some(held) => held.merge(parts),
            None => self.parts = Some(parts),
        }
        Ok(())
    }

    /// Ties the room to the bytes: it is given back with the last copy of them.
    pub(super) fn of(self, bytes: Bytes) -> Bytes {
        match self.parts {
            None => bytes,
            Some(parts) => Bytes::from_owner(Held { bytes, _parts: parts }),
        }
    }
}

struct Held {
    bytes: Bytes,
    _parts: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_answers_share_the_room_and_give_it_back_with_their_bytes() {
        let large = 30 << 20;
        let mut kept = Vec::new();
        let why = loop {
            let mut share = Share::default();
            match share.grow_to(large).await {
                Ok(()) => kept.push(share.of(Bytes::from_static(b"stands for much"))),
                Err(why) => break why,
            }
        };
        assert!(why.to_string().contains("large answers"), "{why}");
        assert_eq!(kept.len(), 4, "of 30 MiB each in 128 MiB");
        let mut small = Share::default();
        small.grow_to(BYTES_FREE).await.unwrap();
        let copy = kept.first().cloned();
        kept.clear();
        drop(copy);
        let mut whole = Share::default();
        whole.grow_to(2 * ROOM_BYTES).await.unwrap();
    }
}
