//! Flags that turn true once: a gate that stops, a grant that is revoked, a session that ends.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::sync::watch;

/// Waits for a flag without keeping a borrow of it.
pub(crate) async fn turned_true(flag: &mut watch::Receiver<bool>) {
    // A dropped sender counts as true.
    let _ = flag.wait_for(|value| *value).await;
}

/// The output of `work`, or `None` when the flag turns true first. One task polls `work` from start
/// to end, so the flag's waker is registered once, not with every poll.
pub(crate) async fn unless_stopped<W: Future>(
    mut work: Pin<&mut W>,
    stop: &mut watch::Receiver<bool>,
) -> Option<W::Output> {
    let turns = stop.clone();
    let mut stopped = pin!(turned_true(stop));
    let mut listens = false;
    poll_fn(move |context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if listens && !turns.has_changed().unwrap_or(true) {
            return Poll::Pending;
        }
        listens = true;
        stopped.as_mut().poll(context).map(|()| None)
    })
    .await
}
