//! Progress of a built-in tool: what it says while it works becomes notifications ahead of its answer.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use connectors::sync::Step;

use crate::wire::notification_body;

/// A client gets no more than one notification in this time.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// Notifications that nobody has taken yet; the oldest is dropped.
const WAITING_MAX: usize = 16;

/// Collects the steps of one call under the progress token of its request.
#[derive(Clone)]
pub(crate) struct Told(Arc<Mutex<State>>);

struct State {
    /// JSON text, as the request had it.
    token: Box<str>,
    /// Records of each resource so far.
    records: BTreeMap<String, u64>,
    last: Option<(u64, Instant)>,
    waiting: VecDeque<Bytes>,
}

impl Told {
    pub(crate) fn new(token: Box<str>) -> Told {
        let (records, waiting) = (BTreeMap::new(), VecDeque::new());
        Told(Arc::new(Mutex::new(State { token, records, last: None, waiting })))
    }

    pub(super) fn hear(&self, step: Step<'_>) {
        let mut state = self.lock();
        match step {
            Step::Waits => state.tell(0, "another sync is running; this one waits for it"),
            Step::Done { .. } => {}
            Step::Page { resource, records, .. } => {
                state.records.insert(resource.to_owned(), records);
                let all: u64 = state.records.values().sum();
                state.tell(all, &format!("{all} records read, the last ones were {resource}"));
            }
        }
    }

    fn take(&self) -> Option<Bytes> {
        self.lock().waiting.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Progress must grow with each notification, so a step without a new record is not told.
    fn tell(&mut self, progress: u64, words: &str) {
        let is_due =
            self.last.is_none_or(|(before, at)| progress > before && at.elapsed() >= TELL_EVERY);
        if !is_due {
            return;
        }
        self.last = Some((progress, Instant::now()));
        let mut message = Vec::new();
        policy::json::write_string(words, &mut message);
        let message = String::from_utf8_lossy(&message);
        let token = &self.token;
        let params =
            format!(r#"{{"progressToken":{token},"progress":{progress},"message":{message}}}"#);
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(notification_body("notifications/progress", Some(&params)).into());
    }
}

/// A call that is being worked on. Dropped, the work ends where it is.
pub(crate) struct Work {
    /// Gone once it has answered.
    answer: Option<Pin<Box<dyn Future<Output = Bytes> + Send>>>,
    told: Told,
}

impl Work {
    pub(crate) fn new(answer: impl Future<Output = Bytes> + Send + 'static, told: Told) -> Work {
        Work { answer: Some(Box::pin(answer)), told }
    }

    /// The next notification, or the answer, which is the last.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        poll_fn(|context| {
            if let Some(told) = self.told.take() {
                return Poll::Ready(Some(told));
            }
            let Some(answer) = &mut self.answer else { return Poll::Ready(None) };
            if let Poll::Ready(bytes) = answer.as_mut().poll(context) {
                self.answer = None;
                return Poll::Ready(Some(bytes));
            }
            // It may have told something before it began to wait.
            match self.told.take() {
                Some(told) => Poll::Ready(Some(told)),
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

    fn page(resource: &str, records: u64) -> Step<'_> {
        Step::Page { resource, records, share: 0.0 }
    }

    #[tokio::test]
    async fn progress_comes_before_the_answer_and_only_grows() {
        let told = Told::new("\"t\"".into());
        let hears = told.clone();
        let mut work = Work::new(
            async move {
                hears.hear(page("cycles", 25));
                tokio::task::yield_now().await;
                // Too soon after the last, and not more than before.
                hears.hear(page("sleeps", 10));
                hears.hear(page("cycles", 25));
                Bytes::from_static(b"answer")
            },
            told,
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
