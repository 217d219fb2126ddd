//! A check of the whole audit chain in the background: one at a time, with its last result.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use store::ledger::{Reader, VerifyError};

/// What is known about the last check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Verification {
    #[default]
    NeverRun,
    Running {
        started_us: i64,
    },
    Whole {
        first_seq: u64,
        last_seq: u64,
        segments: usize,
        ended_us: i64,
    },
    Broken {
        #[serde(rename = "words")]
        message: String,
        ended_us: i64,
    },
}

#[derive(Clone, Default)]
pub(crate) struct Verifier {
    last: Arc<Mutex<Verification>>,
}

impl Verifier {
    pub(crate) fn last(&self) -> Verification {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a check unless one runs. It reads every row, so it has a thread of its own.
    pub(crate) fn start(&self, reader: Reader, clock: store::clock::Clock) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*last, Verification::Running { .. }) {
            return;
        }
        *last = Verification::Running { started_us: clock.now().wall_us };
        let verifier = self.clone();
        tokio::task::spawn_blocking(move || {
            let verified = reader.verify(None);
            let ended_us = clock.now().wall_us;
            let result = match verified {
                Ok(log) => Verification::Whole {
                    first_seq: log.first_seq,
                    last_seq: log.last_seq,
                    segments: log.segments,
                    ended_us,
                },
                Err(VerifyError::Found(finding)) => Verification::Broken {
                    message: format!("first bad record: {finding}"),
                    ended_us,
                },
                Err(error) => Verification::Broken { message: error.to_string(), ended_us },
            };
            *verifier.last.lock().unwrap_or_else(PoisonError::into_inner) = result;
        });
    }
}
