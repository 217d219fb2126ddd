//! The memory that large responses share, from their first byte to the last byte that the client
//! reads. A response reserves its share as it arrives and releases it with its last copy. Without
//! free memory it is not read on: back-pressure reaches the server instead of growing our memory. A
//! response that holds memory for long is evicted while others wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Bytes of every response that need no reservation; ordinary responses are smaller.
const UNRESERVED_BYTES: usize = 64 * 1024;
/// The unit of reservation.
const PART_BYTES: usize = 64 * 1024;
/// Memory of all large responses. An edited one coexists with its copy, so the real maximum is
/// twice this.
const BUFFER_BYTES: usize = 48 << 20;
const PARTS: usize = BUFFER_BYTES / PART_BYTES;
/// The part of one grant, so that its clients cannot block others. A larger response gets all of
/// this.
const PARTS_PER_GRANT: usize = PARTS / 2;
/// How long a response waits for memory before it fails.
pub(crate) const BUFFER_WAIT_MAX: Duration = Duration::from_secs(10);
/// A response that has been arriving for this long is evicted while others wait.
const ARRIVING_MAX: Duration = Duration::from_secs(30);
/// How often that is checked.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Responses made by the gate that may wait; they are in memory already, so one more fails at once.
const OWN_WAITING_MAX: usize = 8;

/// Memory is per process, so there is one buffer.
static BUFFER: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(PARTS)));
static OWN_WAITING: Semaphore = Semaphore::const_new(OWN_WAITING_MAX);
/// How many responses wait for memory.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// No memory became free in time.
#[derive(Debug, thiserror::Error)]
#[error("response buffer full (48 MiB shared by large responses); request less data")]
pub(crate) struct BufferFull;

/// The part of the buffer for one grant.
#[derive(Clone)]
pub struct BufferQuota(Arc<Semaphore>);

impl Default for BufferQuota {
    fn default() -> BufferQuota {
        BufferQuota(Arc::new(Semaphore::new(PARTS_PER_GRANT)))
    }
}

impl BufferQuota {
    /// Identifies the quota.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// Whether a response waits for memory, so that others may be evicted.
pub(crate) fn is_wanted() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// The reservation of one response.
pub(crate) struct Share {
    quota: BufferQuota,
    parts: Option<Parts>,
    /// The time of the first reservation.
    since: Option<Instant>,
}

struct Parts {
    of_buffer: OwnedSemaphorePermit,
    of_quota: OwnedSemaphorePermit,
}

impl Share {
    pub(crate) fn new(quota: &BufferQuota) -> Share {
        Share { quota: quota.clone(), parts: None, since: None }
    }

    /// Takes the reservation; the next response starts with none.
    pub(crate) fn take(&mut self) -> Share {
        let next = Share::new(&self.quota);
        std::mem::replace(self, next)
    }

    /// Extends the reservation to a response of `bytes` so far.
    pub(crate) async fn grow_to(
        &mut self,
        bytes: usize,
        wait_max: Duration,
    ) -> Result<(), BufferFull> {
        let held = self.parts.as_ref().map_or(0, |parts| parts.of_buffer.num_permits());
        let wanted = bytes.saturating_sub(UNRESERVED_BYTES).div_ceil(PART_BYTES);
        let more = wanted.min(PARTS_PER_GRANT).saturating_sub(held);
        let Some(more) = u32::try_from(more).ok().filter(|more| *more > 0) else { return Ok(()) };
        let until = Instant::now() + wait_max;
        // In this order, so that a wait for the buffer is a wait for other grants only.
        let of_quota = take(&self.quota.0, more, until).await?;
        let of_buffer = take(&BUFFER, more, until).await?;
        self.since.get_or_insert_with(Instant::now);
        match &mut self.parts {
            Some(held) => {
                held.of_quota.merge(of_quota);
                held.of_buffer.merge(of_buffer);
            }
            None => self.parts = Some(Parts { of_buffer, of_quota }),
        }
        Ok(())
    }

    /// Ready when a response has been arriving for too long while others wait: a server that starts
    /// a large response and stalls would block everyone.
    pub(crate) async fn evicted(&self) -> BufferFull {
        let Some(since) = self.since else { return std::future::pending().await };
        sleep_until(since + ARRIVING_MAX).await;
        while !is_wanted() {
            sleep(CHECK_EVERY).await;
        }
        BufferFull
    }

    /// Ties the reservation to the bytes: it is released with their last copy.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        match self.parts {
            None => bytes,
            Some(parts) => Bytes::from_owner(Reserved { bytes, _with: parts }),
        }
    }
}

async fn take(
    from: &Arc<Semaphore>,
    parts: u32,
    until: Instant,
) -> Result<OwnedSemaphorePermit, BufferFull> {
    if let Ok(taken) = Arc::clone(from).try_acquire_many_owned(parts) {
        return Ok(taken);
    }
    let _waiting = BufferWaitGuard::begin();
    let taking = Arc::clone(from).acquire_many_owned(parts);
    timeout_at(until, taking).await.ok().and_then(Result::ok).ok_or(BufferFull)
}

/// Counts a waiting response until dropped.
struct BufferWaitGuard;

impl BufferWaitGuard {
    fn begin() -> BufferWaitGuard {
        WAITING.fetch_add(1, Ordering::Relaxed);
        BufferWaitGuard
    }
}

impl Drop for BufferWaitGuard {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reserves memory for a response made by the gate.
pub(crate) async fn reserve_own(quota: &BufferQuota, answer: Bytes) -> Result<Bytes, BufferFull> {
    if answer.len() <= UNRESERVED_BYTES {
        return Ok(answer);
    }
    let _place = OWN_WAITING.try_acquire().map_err(|_| BufferFull)?;
    let mut share = Share::new(quota);
    share.grow_to(answer.len(), BUFFER_WAIT_MAX).await?;
    Ok(share.of(answer))
}

/// A copy made from a response, which keeps the response's reservation alive.
pub(crate) fn keep_reserved(original: &Bytes, copy: Bytes) -> Bytes {
    let is_small = original.len() <= UNRESERVED_BYTES || copy.len() <= UNRESERVED_BYTES;
    if is_small || original.as_ptr() == copy.as_ptr() {
        return copy;
    }
    Bytes::from_owner(Reserved { bytes: copy, _with: original.clone() })
}

struct Reserved<W> {
    bytes: Bytes,
    _with: W,
}

impl<W> AsRef<[u8]> for Reserved<W> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    const LARGE: usize = 11 << 20;

    async fn taken(quota: &BufferQuota, bytes: usize) -> Result<Bytes, BufferFull> {
        let mut share = Share::new(quota);
        share.grow_to(bytes, BUFFER_WAIT_MAX).await?;
        Ok(share.of(Bytes::from(vec![b' '; 2 * UNRESERVED_BYTES])))
    }

    // One test, because there is one buffer.
    #[tokio::test(start_paused = true)]
    async fn large_responses_share_the_quota_and_release_it_with_their_last_copy() {
        let (one, other, third) =
            (BufferQuota::default(), BufferQuota::default(), BufferQuota::default());
        let mut kept = Vec::new();
        for quota in [&one, &other] {
            kept.push(taken(quota, LARGE).await.unwrap());
            kept.push(taken(quota, LARGE).await.unwrap());
            let why = taken(quota, LARGE).await.unwrap_err();
            assert!(why.to_string().contains("large responses"), "{why}");
        }
        assert!(taken(&third, LARGE).await.is_err(), "the others have used it up");
        assert!(reserve_own(&third, Bytes::from(vec![b' '; LARGE])).await.is_err());
        assert_eq!(reserve_own(&third, Bytes::from_static(b"small")).await.unwrap(), "small");

        let made =
            |answer: Bytes| keep_reserved(&answer, Bytes::from(vec![b'x'; 2 * UNRESERVED_BYTES]));
        let copies: Vec<Bytes> = kept.drain(..).map(made).collect();
        assert!(taken(&third, LARGE).await.is_err(), "the copies hold it");

        let mut arriving = Share::new(&third);
        arriving.grow_to(2 * UNRESERVED_BYTES, BUFFER_WAIT_MAX).await.unwrap();
        let unwanted = tokio::time::timeout(10 * ARRIVING_MAX, arriving.evicted()).await;
        assert!(unwanted.is_err(), "no other response waits");
        let waits = tokio::spawn(async move { taken(&one, LARGE).await });
        tokio::time::timeout(2 * CHECK_EVERY, arriving.evicted()).await.unwrap();
        drop((copies, arriving));
        waits.await.unwrap().unwrap();

        drop(taken(&other, 2 * BUFFER_BYTES).await.unwrap());
        assert!(!is_wanted());
    }
}
