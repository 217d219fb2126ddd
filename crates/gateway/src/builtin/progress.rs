//! Progress of a built-in tool: its steps become notifications ahead of its response.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use connectors::sync::SyncProgress;

use mcp::notification_body;

/// Minimum interval between two notifications of a call.
const NOTIFY_EVERY: Duration = Duration::from_millis(500);
/// Notifications that the client has not read yet; beyond this the oldest is dropped.
const QUEUED_MAX: usize = 16;

/// Reports the steps of one call under the progress token of its request.
#[derive(Clone)]
pub(crate) struct ProgressFeed(Arc<Mutex<FeedState>>);

struct FeedState {
    /// JSON text, as in the request.
    token: Box<str>,
    /// Records of each resource so far.
    records: BTreeMap<String, u64>,
    last: Option<(u64, Instant)>,
    queued: VecDeque<Bytes>,
}

impl ProgressFeed {
    pub(crate) fn new(token: Box<str>) -> ProgressFeed {
        let (records, queued) = (BTreeMap::new(), VecDeque::new());
        ProgressFeed(Arc::new(Mutex::new(FeedState { token, records, last: None, queued })))
    }

    pub(super) fn record(&self, step: SyncProgress<'_>) {
        let mut state = self.lock();
        match step {
            SyncProgress::Waits => {
                state.notify(0, "another sync is running; this one waits for it");
            }
            SyncProgress::Done { .. } => {}
            SyncProgress::Page { resource, records, .. } => {
                state.records.insert(resource.to_owned(), records);
                let all: u64 = state.records.values().sum();
                state.notify(all, &format!("{all} records read, the last ones were {resource}"));
            }
        }
    }

    fn take(&self) -> Option<Bytes> {
        self.lock().queued.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FeedState {
    /// The protocol requires progress to increase, so a step without new records is skipped.
    fn notify(&mut self, progress: u64, text: &str) {
        let is_due =
            self.last.is_none_or(|(before, at)| progress > before && at.elapsed() >= NOTIFY_EVERY);
        if !is_due {
            return;
        }
        self.last = Some((progress, Instant::now()));
        let mut message = Vec::new();
        policy::json::write_string(text, &mut message);
        let message = String::from_utf8_lossy(&message);
        let token = &self.token;
        let params =
            format!(r#"{{"progressToken":{token},"progress":{progress},"message":{message}}}"#);
        if self.queued.len() >= QUEUED_MAX {
            self.queued.pop_front();
        }
        self.queued.push_back(notification_body("notifications/progress", Some(&params)).into());
    }
}

/// A running call of a built-in tool. Dropping it cancels the work.
pub(crate) struct RunningCall {
    /// `None` once the response was returned.
    answer: Option<Pin<Box<dyn Future<Output = Bytes> + Send>>>,
    progress: ProgressFeed,
}

impl RunningCall {
    pub(crate) fn new(
        answer: impl Future<Output = Bytes> + Send + 'static,
        progress: ProgressFeed,
    ) -> RunningCall {
        RunningCall { answer: Some(Box::pin(answer)), progress }
    }

    /// The next notification, or the response, which comes last.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        poll_fn(|context| {
            if let Some(progress) = self.progress.take() {
                return Poll::Ready(Some(progress));
            }
            let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
            if let Poll::Ready(bytes) = answer.as_mut().poll(context) {
                self.answer = None;
                return Poll::Ready(Some(bytes));
            }
            // A step may have been reported before the future went to sleep.
            match self.progress.take() {
                Some(progress) => Poll::Ready(Some(progress)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn page(resource: &str, records: u64) -> SyncProgress<'_> {
        SyncProgress::Page { resource, records, share: 0.0 }
    }

    #[tokio::test]
    async fn progress_comes_before_the_response_and_only_grows() {
        let progress = ProgressFeed::new("\"t\"".into());
        let feed = progress.clone();
        let mut work = RunningCall::new(
            async move {
                feed.record(page("cycles", 25));
                tokio::task::yield_now().await;
                // Too soon after the last one, and no increase.
                feed.record(page("sleeps", 10));
                feed.record(page("cycles", 25));
                Bytes::from_static(b"answer")
            },
            progress,
        );
        let first = work.next().await.unwrap();
        let first: serde_json::Value = serde_json::from_slice(&first).unwrap();
        assert_eq!(first["method"], "notifications/progress");
        assert_eq!(
            (&first["params"]["progressToken"], &first["params"]["progress"]),
            (&"t".into(), &25.into())
        );
        assert_eq!(work.next().await.unwrap(), "answer");
        assert_eq!(work.next().await, None);
    }
}
