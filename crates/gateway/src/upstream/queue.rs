//! A message queue for one reader, limited in number and bytes. It keeps the order and drops nothing, except
//! where it is told to drop the oldest.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;

use super::error::UpstreamError;

/// The size of an item.
pub(super) trait ByteSize {
    fn bytes(&self) -> usize;
}

/// The limits of a queue. A single item is always accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueBounds {
    pub(super) items_max: usize,
    pub(super) bytes_max: usize,
}

/// A bounded queue with one reader.
pub(super) struct Queue<T> {
    bounds: QueueBounds,
    state: Mutex<State<T>>,
    /// Notifies the reader.
    filled: Notify,
    /// Notifies the writer.
    drained: Notify,
}

struct State<T> {
    items: VecDeque<T>,
    bytes: usize,
    end: QueueEnd,
}

enum QueueEnd {
    Open,
    /// No further items. The reason follows the last item.
    Closed(Option<UpstreamError>),
}

/// Why an item was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PushError {
    /// The reader was too slow.
    Full,
    Closed,
}

impl<T: ByteSize> Queue<T> {
    pub(super) fn new(bounds: QueueBounds) -> Queue<T> {
        let state = State { items: VecDeque::new(), bytes: 0, end: QueueEnd::Open };
        Queue { bounds, state: Mutex::new(state), filled: Notify::new(), drained: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item. Waits a limited time for space.
    pub(super) async fn push(&self, item: T, wait_max: Duration) -> Result<(), PushError> {
        let Some(mut item) = self.try_push(item)? else {
            return Ok(());
        };
        let waiting = async {
            loop {
                self.drained.notified().await;
                match self.try_push(item)? {
                    None => return Ok(()),
                    Some(back) => item = back,
                }
            }
        };
        tokio::time::timeout(wait_max, waiting).await.unwrap_or(Err(PushError::Full))
    }

    /// Appends an item, or returns it if there is no space.
    fn try_push(&self, item: T) -> Result<Option<T>, PushError> {
        let mut state = self.lock();
        if matches!(state.end, QueueEnd::Closed(_)) {
            return Err(PushError::Closed);
        }
        if !state.items.is_empty() && !state.fits(self.bounds, &item) {
            return Ok(Some(item));
        }
        state.put(item);
        drop(state);
        self.filled.notify_one();
        Ok(None)
    }

    /// Appends an item and drops the oldest ones that no longer fit. Returns how many.
    pub(super) fn push_dropping_oldest(&self, item: T) -> usize {
        let mut state = self.lock();
        if matches!(state.end, QueueEnd::Closed(_)) {
            return 1;
        }
        let mut dropped = 0;
        while !state.items.is_empty() && !state.fits(self.bounds, &item) {
            state.take();
            dropped += 1;
        }
        state.put(item);
        drop(state);
        self.filled.notify_one();
        dropped
    }

    /// The next item. After the last item of a closed queue its reason once, then nothing.
    pub(super) async fn pop(&self) -> Option<Result<T, UpstreamError>> {
        loop {
            if let Poll::Ready(next) = self.try_pop() {
                return next;
            }
            self.filled.notified().await;
        }
    }

    fn try_pop(&self) -> Poll<Option<Result<T, UpstreamError>>> {
        let mut state = self.lock();
        if let Some(item) = state.take() {
            drop(state);
            self.drained.notify_one();
            return Poll::Ready(Some(Ok(item)));
        }
        match &mut state.end {
            QueueEnd::Open => Poll::Pending,
            QueueEnd::Closed(reason) => Poll::Ready(reason.take().map(Err)),
        }
    }

    /// Closes the queue: the reader still gets the items, then the reason. The first reason counts.
    pub(super) fn close(&self, reason: Option<UpstreamError>) {
        let mut state = self.lock();
        if matches!(state.end, QueueEnd::Open) {
            state.end = QueueEnd::Closed(reason);
        }
        drop(state);
        self.filled.notify_one();
        self.drained.notify_one();
    }
}

impl<T: ByteSize> State<T> {
    fn fits(&self, bounds: QueueBounds, item: &T) -> bool {
        self.items.len() < bounds.items_max && self.bytes + item.bytes() <= bounds.bytes_max
    }

    fn put(&mut self, item: T) {
        self.bytes += item.bytes();
        self.items.push_back(item);
    }

    fn take(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.bytes -= item.bytes();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    impl ByteSize for &'static str {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    const WAIT_MAX: Duration = Duration::from_secs(5);

    fn queue(items_max: usize, bytes_max: usize) -> Queue<&'static str> {
        Queue::new(QueueBounds { items_max, bytes_max })
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_waits_and_then_refuses() {
        let queue = queue(2, 100);
        for item in ["a", "b"] {
            queue.push(item, WAIT_MAX).await.unwrap();
        }
        assert_eq!(queue.push("c", WAIT_MAX).await, Err(PushError::Full));
        assert_eq!(queue.pop().await.unwrap().unwrap(), "a");
        queue.push("c", WAIT_MAX).await.unwrap();
        assert_eq!(queue.pop().await.unwrap().unwrap(), "b");
        assert_eq!(queue.pop().await.unwrap().unwrap(), "c");
    }

    #[tokio::test(start_paused = true)]
    async fn one_item_larger_than_the_quota_is_accepted_alone() {
        let queue = queue(10, 4);
        queue.push("larger", WAIT_MAX).await.unwrap();
        assert_eq!(queue.push("x", WAIT_MAX).await, Err(PushError::Full));
        assert_eq!(queue.pop().await.unwrap().unwrap(), "larger");
    }

    #[tokio::test]
    async fn a_closed_queue_gives_its_items_then_its_reason_then_nothing() {
        let queue = queue(10, 100);
        queue.push("last", WAIT_MAX).await.unwrap();
        queue.close(Some(UpstreamError::Closed));
        queue.close(Some(UpstreamError::lost("later reasons are not heard")));
        assert_eq!(queue.push("late", WAIT_MAX).await, Err(PushError::Closed));
        assert_eq!(queue.pop().await.unwrap().unwrap(), "last");
        assert!(matches!(queue.pop().await, Some(Err(UpstreamError::Closed))));
        assert!(queue.pop().await.is_none());
    }

    #[tokio::test]
    async fn the_oldest_are_deleted_on_request() {
        let queue = queue(2, 100);
        assert_eq!(queue.push_dropping_oldest("a"), 0);
        assert_eq!(queue.push_dropping_oldest("b"), 0);
        assert_eq!(queue.push_dropping_oldest("c"), 1);
        assert_eq!(queue.pop().await.unwrap().unwrap(), "b");
    }
}
