//! An outcome whose row is not written yet: of a call that ended while others were in flight, while
//! the log could not be written, or whose process does not know its ending.

use std::borrow::Cow;

use policy::Code;

use super::facts::{Ending, Outcome};
use super::row_writer::End;
use super::sync_mark::Position;

/// An outcome that still has to be written.
pub(crate) struct PendingOutcome {
    pub(crate) of: u64,
    /// Where the row of the call is.
    pub(crate) at: Position,
    pub(crate) ending: Ending,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<Code>,
    pub(crate) released: bool,
    pub(crate) latency_us: Option<u64>,
    pub(crate) result_bytes: Option<u64>,
    pub(crate) words: Cow<'static, str>,
    /// Which call may bring the answer to its question.
    pub(crate) continues: String,
}

impl PendingOutcome {
    pub(crate) fn of(end: &End<'_>, at: Position) -> PendingOutcome {
        PendingOutcome {
            of: end.of,
            at,
            ending: end.outcome.ending,
            status: end.outcome.status,
            code: end.outcome.code,
            released: end.released,
            latency_us: end.outcome.latency_us,
            result_bytes: end.outcome.result_bytes,
            words: if end.words.is_empty() { "".into() } else { end.words.to_owned().into() },
            continues: end.continues.to_owned(),
        }
    }

    /// A call that nobody will end: it never left, or its outcome was lost with the server.
    pub(crate) fn lost(at: Position, never_left: bool) -> PendingOutcome {
        let (ending, words) = if never_left {
            (Ending::Error, "its row was not confirmed, so the call was not sent")
        } else {
            (Ending::Unknown, "the store restarted without the row of its ending")
        };
        let outcome = Outcome::new(ending);
        let end = End { of: at.offset, outcome, released: never_left, words, continues: "" };
        PendingOutcome::of(&end, at)
    }

    pub(crate) fn end(&self) -> End<'_> {
        let outcome = Outcome {
            ending: self.ending,
            status: self.status,
            code: self.code,
            latency_us: self.latency_us,
            result_bytes: self.result_bytes,
        };
        let (of, released) = (self.of, self.released);
        End { of, outcome, released, words: &self.words, continues: &self.continues }
    }
}
