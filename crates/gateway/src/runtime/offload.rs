//! Offloads work on large messages: it takes many milliseconds, which would block the other
//! connections of a worker thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// Larger messages are parsed on another thread; parsing a smaller one takes about as long as the
/// handover.
pub(crate) const LARGE_BYTES: usize = 256 * 1024;
/// The same for messages that must be edited or compared with pins, which takes about ten times as
/// long.
pub(crate) const LARGE_TO_EDIT_BYTES: usize = 16 * 1024;
/// Messages processed at once; further ones queue, so that one server cannot occupy every core.
const CONCURRENT_MAX: u32 = 4;
/// A larger message takes several permits: parsing and editing it needs several times its memory.
const BYTES_PER_PERMIT: usize = 2 << 20;

static PERMITS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(CONCURRENT_MAX as usize));

/// Runs the work on a message of `bytes` on a low-priority thread. The work completes even if the
/// caller is dropped.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    // Never closed, so this cannot fail; without a permit the work would still be done.
    let permit = PERMITS.acquire_many(permits_for(bytes)).await.ok();
    let runtime = Handle::current();
    let (done, outcome) = oneshot::channel();
    // Kept here as well, because a failed spawn does not return its closure.
    let job = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&job);
    let started = thread::Builder::new().name("large".to_owned()).spawn(move || {
        platform::threads::lower_priority();
        // Values dropped by the work may spawn tasks.
        let _context = runtime.enter();
        if let Some(work) = take(&taken) {
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        }
        drop(permit);
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

fn permits_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BYTES_PER_PERMIT))
        .unwrap_or(CONCURRENT_MAX)
        .clamp(1, CONCURRENT_MAX)
}

fn take<W>(job: &Mutex<Option<W>>) -> Option<W> {
    job.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_during_offloaded_work() {
        let (go, resumed) = std::sync::mpsc::channel();
        let work = tokio::spawn(offload(0, move || resumed.recv().unwrap()));
        // On a single-threaded runtime this is reached only if the work does not block it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        go.send(7).unwrap();
        assert_eq!(work.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn offloaded_work_can_use_the_callers_runtime() {
        let spawned = offload(0, || tokio::spawn(async { 7 })).await;
        assert_eq!(spawned.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller() {
        let work = tokio::spawn(offload(usize::MAX, || resume_unwind(Box::new("broken"))));
        assert!(work.await.unwrap_err().is_panic());
        assert_eq!(offload(usize::MAX, || 7).await, 7, "its permits were released");
    }
}
