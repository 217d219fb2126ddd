//! Work on large messages: it takes a thread for many milliseconds, and the threads that carry
//! conversations have none to spare.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// A message of more than this is read aside; a smaller one is read in about the time it takes to hand
/// it over and back.
pub(crate) const LARGE_BYTES: usize = 256 * 1024;
/// The same for one that must be edited or compared with pins, which takes some ten times as long.
pub(crate) const LARGE_TO_EDIT_BYTES: usize = 16 * 1024;
/// So many are read at once, and further ones wait in line: one server's cannot take every core.
const AT_ONCE_MAX: u32 = 4;
/// A message of more than this takes further places: what is noted of it while it is read and edited
/// can be several times as large.
const PLACE_BYTES: usize = 2 << 20;

static PLACES: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(AT_ONCE_MAX as usize));

/// Does the work on a message of `bytes` on a thread of its own, which steps back where a conversation
/// needs the core. The work is done to its end also when nobody waits for it any more.
pub(crate) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    // Nobody closes it, so this fails never; and without a place the work would still be done.
    let place = PLACES.acquire_many(places(bytes)).await.ok();
    let runtime = Handle::current();
    let (done, outcome) = oneshot::channel();
    // Kept here as well, because a thread that cannot be started does not give its work back.
    let job = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&job);
    let started = thread::Builder::new().name("large".to_owned()).spawn(move || {
        step_back();
        // What the work lets go of may have a last word to send.
        let _context = runtime.enter();
        if let Some(work) = take(&taken) {
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        }
        drop(place);
    });
    if started.is_err()
        && let Some(work) = take(&job)
    {
        return work();
    }
    match outcome.await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(gone) => resume_unwind(Box::new(gone)),
    }
}

fn places(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PLACE_BYTES)).unwrap_or(AT_ONCE_MAX).clamp(1, AT_ONCE_MAX)
}

fn take<W>(job: &Mutex<Option<W>>) -> Option<W> {
    job.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Lets this thread run only where others leave room. If the system has no such thing for one thread,
/// it runs like all.
#[cfg(target_os = "linux")]
fn step_back() {
    // On Linux every thread has a niceness of its own, and nobody named means this one.
    const NICENESS: i32 = 10;
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

#[cfg(not(target_os = "linux"))]
fn step_back() {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn others_go_on_while_work_is_done_aside() {
        let (go, told) = std::sync::mpsc::channel();
        let work = tokio::spawn(aside(0, move || told.recv().unwrap()));
        // On a runtime of one thread this is only reached if the work does not hold it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        go.send(7).unwrap();
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_may_reach_the_runtime_it_came_from() {
        let spawned = aside(0, || tokio::spawn(async { 7 })).await;
        assert_eq!(spawned.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_panic_is_the_callers() {
        let work = tokio::spawn(aside(usize::MAX, || resume_unwind(Box::new("broken"))));
        assert!(work.await.unwrap_err().is_panic());
        assert_eq!(aside(usize::MAX, || 7).await, 7, "its places were given back");
    }
}
