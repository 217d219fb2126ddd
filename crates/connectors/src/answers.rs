//! Answers that were put together before. The same days are asked for again and again, and as long as
//! nobody has changed the records, what was made of them need not be made anew.

use std::sync::{Arc, Mutex, PoisonError};

use store::records::Version;

use crate::Written;

/// Answers that are remembered, and how long each may be in both spellings: two megabytes at the most.
const ANSWERS_MAX: usize = 8;
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// All that chooses the records of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) kind: &'static str,
    pub(crate) from_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    pub(crate) limit: Option<usize>,
    /// Whether records that are still open reach into the window.
    pub(crate) with_open: bool,
}

/// The last answers, the newest at the end.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Vec<Known>>);

struct Known {
    question: Question,
    made_of: Version,
    answer: Arc<Written>,
}

impl Answers {
    /// The answer of before, and what the records were then.
    pub(crate) fn find(&self, question: &Question) -> Option<(Version, Arc<Written>)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.iter().find(|known| known.question == *question)?;
        Some((known.made_of, Arc::clone(&known.answer)))
    }

    pub(crate) fn keep(&self, question: Question, made_of: Version, answer: &Arc<Written>) {
        if answer.bytes() > ANSWER_BYTES_MAX {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.question != question);
        if known.len() >= ANSWERS_MAX {
            known.remove(0);
        }
        known.push(Known { question, made_of, answer: Arc::clone(answer) });
    }
}
