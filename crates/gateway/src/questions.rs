//! Questions that an older server asks beside the call they belong to, on its own stream. Nothing in them
//! says which call that is, so they go to the newest one whose client takes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use policy::json::Value;
use tokio::sync::{OnceCell, mpsc};

use crate::wire::{Question, Takes};

/// Questions that wait for one call; one more is refused.
const WAITING_MAX: usize = 16;

/// The calls of a conversation that can be asked something.
#[derive(Default)]
pub(crate) struct Askable {
    /// Set when the server's own stream is heard for them.
    pub(crate) heard: OnceCell<()>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// The oldest first.
    waiting: Vec<Waiting>,
    next: u64,
}

struct Waiting {
    number: u64,
    takes: Takes,
    /// Its client is being asked something already.
    asking: bool,
    /// How often it was.
    times: usize,
    asked: mpsc::Sender<Bytes>,
}

/// What one call is asked. It can be asked as long as this lives.
pub(crate) struct Questions {
    askable: Arc<Askable>,
    number: u64,
    asked: mpsc::Receiver<Bytes>,
}

impl Askable {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, takes: Takes) -> Questions {
        let (sender, asked) = mpsc::channel(WAITING_MAX);
        let mut calls = self.calls();
        calls.next += 1;
        let number = calls.next;
        calls.waiting.push(Waiting { number, takes, asking: false, times: 0, asked: sender });
        Questions { askable: Arc::clone(self), number, asked }
    }

    /// Puts a question to a call; false when there is none that takes it.
    pub(crate) fn put(&self, method: &str, params: Option<Value<'_>>, message: &Bytes) -> bool {
        let mut calls = self.calls();
        let question = Question::of(method, params);
        let waiting = calls.waiting.iter_mut().rev();
        let mut takers: Vec<_> = waiting.filter(|call| call.takes.takes_kind(question)).collect();
        // Those who are free come first, and of them who was asked least: most calls ask once.
        takers.sort_by_key(|call| (call.asking, call.times));
        takers.into_iter().any(|call| {
            let is_put = call.asked.try_send(message.clone()).is_ok();
            call.times += usize::from(is_put);
            is_put
        })
    }
}

impl Questions {
    /// Says whether the client is being asked something.
    pub(crate) fn set_asking(&self, asking: bool) {
        let mut calls = self.askable.calls();
        for call in calls.waiting.iter_mut().filter(|call| call.number == self.number) {
            call.asking = asking;
        }
    }

    /// The next question; there may never be one.
    pub(crate) async fn next(&mut self) -> Bytes {
        match self.asked.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

impl Questions {
    /// Is asked nothing more; what was put to it and not heard must be put to others.
    pub(crate) fn leave(mut self) -> Vec<Bytes> {
        self.go();
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }

    fn go(&self) {
        self.askable.calls().waiting.retain(|call| call.number != self.number);
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        self.go();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use policy::json::{Bounds, Doc};

    use super::*;

    fn takes(capabilities: &str) -> Takes {
        let doc = Doc::read(capabilities.as_bytes(), &Bounds::MESSAGE).unwrap();
        Takes::of(Some(doc.root()))
    }

    fn put(askable: &Askable, method: &str, params: &str) -> bool {
        let doc = Doc::read(params.as_bytes(), &Bounds::MESSAGE).unwrap();
        askable.put(method, Some(doc.root()), &Bytes::copy_from_slice(params.as_bytes()))
    }

    #[tokio::test]
    async fn a_question_goes_to_the_newest_call_whose_client_takes_it() {
        let askable = Arc::new(Askable::default());
        let mut old = askable.enter(takes(r#"{"elicitation":{"form":{},"url":{}}}"#));
        let mut new = askable.enter(takes(r#"{"elicitation":{}}"#));
        let mut model = askable.enter(takes(r#"{"sampling":{}}"#));
        let (form, url) = (r#"{"message":"who?"}"#, r#"{"mode":"url"}"#);
        assert!(put(&askable, "elicitation/create", form));
        assert_eq!(new.next().await, form);
        assert!(put(&askable, "elicitation/create", url));
        assert_eq!(old.next().await, url);
        assert!(put(&askable, "sampling/createMessage", "{}"));
        assert_eq!(model.next().await, "{}");
        assert!(!put(&askable, "sampling/createMessage", r#"{"tools":[]}"#));
        assert!(!put(&askable, "roots/list", "{}"));
        new.set_asking(true);
        assert!(put(&askable, "elicitation/create", form));
        assert_eq!(old.next().await, form, "the newer one is being asked already");
        assert!(put(&askable, "elicitation/create", form));
        assert_eq!(old.leave(), [form], "nobody heard it");
        assert!(put(&askable, "elicitation/create", form));
        assert_eq!(new.next().await, form);
    }

    #[tokio::test]
    async fn who_was_asked_least_is_asked_next() {
        let askable = Arc::new(Askable::default());
        let mut calls: Vec<_> = (0..3).map(|_| askable.enter(takes(r#"{"roots":{}}"#))).collect();
        for _ in 0..2 {
            assert_eq!((0..3).filter(|_| put(&askable, "roots/list", "{}")).count(), 3);
            for call in &mut calls {
                assert_eq!(call.next().await, "{}");
            }
        }
    }

    #[test]
    fn a_call_is_asked_so_much_at_once() {
        let askable = Arc::new(Askable::default());
        let _call = askable.enter(takes(r#"{"roots":{}}"#));
        let taken = (0..=WAITING_MAX).filter(|_| put(&askable, "roots/list", "{}")).count();
        assert_eq!(taken, WAITING_MAX);
    }
}
