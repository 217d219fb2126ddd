//! The memory that large answers share, from their first piece to the last byte that the client takes.
//! An answer takes its part as it arrives and gives it back when its last copy is gone; one that finds no
//! room is not read on, so that the server waits instead of our memory growing. Who holds room for long
//! loses it when others wait for some.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// So much of every answer needs none of the shared room; ordinary answers are smaller.
const BYTES_FREE: usize = 64 * 1024;
/// Room is given out in parts of this size.
const PART_BYTES: usize = 64 * 1024;
/// What all large answers together may take up. One that is edited stays beside its copy, so the memory
/// that is taken is at most twice as much.
const ROOM_BYTES: usize = 48 << 20;
const PARTS: usize = ROOM_BYTES / PART_BYTES;
/// What those of one grant may take of it, so that its clients cannot keep others waiting. An answer that
/// is larger gets all of this.
const PARTS_PER_GRANT: usize = PARTS / 2;
/// How long an answer waits for room before it is given up.
pub(crate) const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);
/// An answer that has been arriving for so long is given up when others wait for room.
const ARRIVING_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether they do.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Answers of our own making that wait for room; they are there already, so one more is given up at once.
const OURS_WAITING_MAX: usize = 8;

/// The process has one memory, so there is one room.
static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(PARTS)));
static OURS_WAITING: Semaphore = Semaphore::const_new(OURS_WAITING_MAX);
/// How many wait for room.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// There was none in time.
#[derive(Debug, thiserror::Error)]
#[error("other large answers take all the memory there is for them; ask for less at a time")]
pub(crate) struct NoRoom;

/// The part of the room that is for one grant.
#[derive(Clone)]
pub struct Account(Arc<Semaphore>);

impl Default for Account {
    fn default() -> Account {
        Account(Arc::new(Semaphore::new(PARTS_PER_GRANT)))
    }
}

impl Account {
    /// What tells it from the others that there are.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// Whether somebody waits for room, so that who holds some for long must let it go.
pub(crate) fn is_wanted() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// What one answer holds of the room.
pub(crate) struct Share {
    account: Account,
    parts: Option<Parts>,
    /// When it got the first of it.
    since: Option<Instant>,
}

struct Parts {
    of_room: OwnedSemaphorePermit,
    of_account: OwnedSemaphorePermit,
}

impl Share {
    pub(crate) fn new(account: &Account) -> Share {
        Share { account: account.clone(), parts: None, since: None }
    }

    /// What was taken so far; the next answer begins with nothing.
    pub(crate) fn take(&mut self) -> Share {
        let next = Share::new(&self.account);
        std::mem::replace(self, next)
    }

    /// Makes sure that an answer of `bytes` so far has its room.
    pub(crate) async fn grow_to(&mut self, bytes: usize, wait_max: Duration) -> Result<(), NoRoom> {
        let held = self.parts.as_ref().map_or(0, |parts| parts.of_room.num_permits());
        let wanted = bytes.saturating_sub(BYTES_FREE).div_ceil(PART_BYTES);
        let more = wanted.min(PARTS_PER_GRANT).saturating_sub(held);
        let Some(more) = u32::try_from(more).ok().filter(|more| *more > 0) else { return Ok(()) };
        let until = Instant::now() + wait_max;
        // In this order, so that who waits in line for the room waits for other grants only.
        let of_account = take(&self.account.0, more, until).await?;
        let of_room = take(&ROOM, more, until).await?;
        self.since.get_or_insert_with(Instant::now);
        match &mut self.parts {
            Some(held) => {
                held.of_account.merge(of_account);
                held.of_room.merge(of_room);
            }
            None => self.parts = Some(Parts { of_room, of_account }),
        }
        Ok(())
    }

    /// Ready when an answer that is still arriving has had its room for long and others wait for some:
    /// a server that begins a large answer and does not go on with it would keep it from all.
    pub(crate) async fn outstays(&self) -> NoRoom {
        let Some(since) = self.since else { return std::future::pending().await };
        sleep_until(since + ARRIVING_MAX).await;
        while !is_wanted() {
            sleep(LOOK_EVERY).await;
        }
        NoRoom
    }

    /// Ties the room to the bytes: it is given back with the last copy of them.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        match self.parts {
            None => bytes,
            Some(parts) => Bytes::from_owner(Held { bytes, _with: parts }),
        }
    }
}

async fn take(
    from: &Arc<Semaphore>,
    parts: u32,
    until: Instant,
) -> Result<OwnedSemaphorePermit, NoRoom> {
    if let Ok(taken) = Arc::clone(from).try_acquire_many_owned(parts) {
        return Ok(taken);
    }
    let _waiting = Waiting::begin();
    let taking = Arc::clone(from).acquire_many_owned(parts);
    timeout_at(until, taking).await.ok().and_then(Result::ok).ok_or(NoRoom)
}

/// Counts one who waits, for as long as it lives.
struct Waiting;

impl Waiting {
    fn begin() -> Waiting {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer of our own making with its room.
pub(crate) async fn of_ours(account: &Account, answer: Bytes) -> Result<Bytes, NoRoom> {
    if answer.len() <= BYTES_FREE {
        return Ok(answer);
    }
    let _place = OURS_WAITING.try_acquire().map_err(|_| NoRoom)?;
    let mut share = Share::new(account);
    share.grow_to(answer.len(), ROOM_WAIT_MAX).await?;
    Ok(share.of(answer))
}

/// What was made from an answer, in the room that the answer holds: it lasts as long as the copy does.
pub(crate) fn made_from(original: &Bytes, copy: Bytes) -> Bytes {
    let is_small = original.len() <= BYTES_FREE || copy.len() <= BYTES_FREE;
    if is_small || original.as_ptr() == copy.as_ptr() {
        return copy;
    }
    Bytes::from_owner(Held { bytes: copy, _with: original.clone() })
}

struct Held<W> {
    bytes: Bytes,
    _with: W,
}

impl<W> AsRef<[u8]> for Held<W> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    const LARGE: usize = 11 << 20;

    async fn taken(account: &Account, bytes: usize) -> Result<Bytes, NoRoom> {
        let mut share = Share::new(account);
        share.grow_to(bytes, ROOM_WAIT_MAX).await?;
        Ok(share.of(Bytes::from(vec![b' '; 2 * BYTES_FREE])))
    }

    // One test, because there is one room.
    #[tokio::test(start_paused = true)]
    async fn large_answers_share_the_room_and_give_it_back_with_their_last_copy() {
        let (one, other, third) = (Account::default(), Account::default(), Account::default());
        let mut kept = Vec::new();
        for account in [&one, &other] {
            kept.push(taken(account, LARGE).await.unwrap());
            kept.push(taken(account, LARGE).await.unwrap());
            let why = taken(account, LARGE).await.unwrap_err();
            assert!(why.to_string().contains("large answers"), "{why}");
        }
        assert!(taken(&third, LARGE).await.is_err(), "the others have all of it");
        assert!(of_ours(&third, Bytes::from(vec![b' '; LARGE])).await.is_err());
        assert_eq!(of_ours(&third, Bytes::from_static(b"small")).await.unwrap(), "small");

        let made = |answer: Bytes| made_from(&answer, Bytes::from(vec![b'x'; 2 * BYTES_FREE]));
        let copies: Vec<Bytes> = kept.drain(..).map(made).collect();
        assert!(taken(&third, LARGE).await.is_err(), "the copies hold it");

        let mut arriving = Share::new(&third);
        arriving.grow_to(2 * BYTES_FREE, ROOM_WAIT_MAX).await.unwrap();
        let unwanted = tokio::time::timeout(10 * ARRIVING_MAX, arriving.outstays()).await;
        assert!(unwanted.is_err(), "nobody waits for its room");
        let waits = tokio::spawn(async move { taken(&one, LARGE).await });
        tokio::time::timeout(2 * LOOK_EVERY, arriving.outstays()).await.unwrap();
        drop((copies, arriving));
        waits.await.unwrap().unwrap();

        drop(taken(&other, 2 * ROOM_BYTES).await.unwrap());
        assert!(!is_wanted());
    }
}
