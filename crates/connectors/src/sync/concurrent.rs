//! Runs several futures at once without a task for each: they borrow the context, and cancelling the
//! sync cancels them.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs all of them concurrently; returns the results in their order.
pub async fn all<'a, T, F>(futures: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'a,
    T: Send + 'a,
{
    let mut running: Vec<(Boxed<'a, T>, Option<T>)> =
        futures.into_iter().map(|f| (Box::pin(f) as Boxed<'a, T>, None)).collect();
    poll_fn(|context| {
        let mut waits = false;
        for (future, answer) in &mut running {
            if answer.is_some() {
                continue;
            }
            match future.as_mut().poll(context) {
                Poll::Ready(ready) => *answer = Some(ready),
                Poll::Pending => waits = true,
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, answer)| answer).collect()
}

/// Starts them in their order, at most `max` at a time. The first failure ends them all.
pub async fn some_at_a_time<'a, E, F>(
    max: usize,
    futures: impl IntoIterator<Item = F>,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>> + Send + 'a,
    E: Send + 'a,
{
    let mut waiting: VecDeque<F> = futures.into_iter().collect();
    as_they_come(max, || waiting.pop_front()).await
}

/// The same where running work may add more: `next` is called whenever there is a free slot.
pub async fn as_they_come<'a, E, F>(
    max: usize,
    mut next: impl FnMut() -> Option<F>,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>> + Send + 'a,
    E: Send + 'a,
{
    let mut running: Vec<Boxed<'a, Result<(), E>>> = Vec::new();
    poll_fn(|context| {
        let mut is_polled = false;
        loop {
            let before = running.len();
            while running.len() < max.max(1)
                && let Some(future) = next()
            {
                running.push(Box::pin(future));
            }
            if running.is_empty() {
                return Poll::Ready(Ok(()));
            }
            // A future that has just started must be polled once, or nothing would wake it.
            if is_polled && running.len() == before {
                return Poll::Pending;
            }
            let mut failure = None;
            running.retain_mut(|future| match future.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(error)) => {
                    failure.get_or_insert(error);
                    false
                }
            });
            if let Some(failure) = failure {
                return Poll::Ready(Err(failure));
            }
            is_polled = true;
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn no_more_than_allowed_run_side_by_side_and_all_are_run() {
        let (now, most, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let one = |n: u64| {
            let (now, most, ended) = (&now, &most, &ended);
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..n {
                    tokio::task::yield_now().await;
                }
                now.fetch_sub(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
                Ok::<(), ()>(())
            }
        };
        assert_eq!(some_at_a_time(3, (0..20).map(|n| one(n % 5))).await, Ok(()));
        assert_eq!((most.into_inner(), ended.into_inner()), (3, 20));
    }

    #[tokio::test]
    async fn the_first_failure_ends_the_others() {
        let one = |n: u32| async move {
            if n == 2 {
                return Err(n);
            }
            std::future::pending::<()>().await;
            Ok(())
        };
        assert_eq!(some_at_a_time(4, (0..20).map(one)).await, Err(2));
    }

    #[tokio::test]
    async fn work_that_is_added_while_others_run_is_run_as_well() {
        let queue = std::sync::Mutex::new(VecDeque::from([5_u32]));
        let ended = AtomicUsize::new(0);
        let one = |n: u32| {
            let (queue, ended) = (&queue, &ended);
            async move {
                if n > 0 {
                    queue
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push_back(n - 1);
                }
                tokio::task::yield_now().await;
                ended.fetch_add(1, Ordering::SeqCst);
                Ok::<(), ()>(())
            }
        };
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            queue.pop_front().map(one)
        };
        assert_eq!(as_they_come(2, next).await, Ok(()));
        assert_eq!(ended.load(Ordering::SeqCst), 6);
    }

    #[tokio::test]
    async fn responses_come_in_the_order_of_requests() {
        let one = |n: u32| async move {
            for _ in 0..(10 - n) {
                tokio::task::yield_now().await;
            }
            n
        };
        assert_eq!(all((0..10).map(one)).await, (0..10).collect::<Vec<_>>());
    }
}
