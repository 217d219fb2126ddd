//! Work that keeps a thread busy for long, without keeping the other calls of that thread waiting.

use std::future::poll_fn;
use std::pin::pin;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs a future whose steps may be long. Where the runtime has threads to hand the other calls to,
/// they go on meanwhile.
pub(super) async fn aside<T>(working: impl Future<Output = T>) -> T {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let mut working = pin!(working);
    poll_fn(|task| {
        if threads {
            tokio::task::block_in_place(|| working.as_mut().poll(task))
        } else {
            working.as_mut().poll(task)
        }
    })
    .await
}
