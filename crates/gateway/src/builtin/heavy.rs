//! Work that keeps a thread busy for long, without keeping the other calls of that thread waiting.

use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

/// Handing the other calls to another thread costs some of this itself, so it is done after a step
/// that took longer: one like it may follow.
const LONG_STEP: Duration = Duration::from_millis(2);

/// Runs a future whose steps may be long. Where the runtime has threads to hand the other calls to,
/// they go on meanwhile. The first step is taken to be long: an export is only one.
pub(super) async fn in_long_steps<T>(working: impl Future<Output = T>) -> T {
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
