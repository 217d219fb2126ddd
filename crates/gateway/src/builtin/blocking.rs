//! Runs work that blocks a thread for long without delaying the other tasks of that thread.

use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

/// `block_in_place` costs some microseconds, so it is used only after a step that took longer than
/// this.
const LONG_STEP: Duration = Duration::from_millis(2);

/// Runs a future whose polls may block. A multi-threaded runtime moves its other tasks to another
/// thread for that time. The first poll is assumed to block, because an export does all its work in
/// one.
pub(super) async fn run<T>(working: impl Future<Output = T>) -> T {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let mut working = pin!(working);
    let mut is_long = true;
    poll_fn(|task| {
        let began = Instant::now();
        let polled = if threads && is_long {
            tokio::task::block_in_place(|| working.as_mut().poll(task))
        } else {
            working.as_mut().poll(task)
        };
        is_long = began.elapsed() >= LONG_STEP;
        polled
    })
    .await
}
