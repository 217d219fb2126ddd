//! The ledger: every decision, every allowance and every approval, in one chain of rows that any
//! number of processes share. Only the ledger makes a [`Permit`], and it makes none without its row.
//!
//! The way of an admission through the files: `inner` takes both locks and learns what others wrote
//! (`load`), `admit` asks `state` for room (`counters`, `series`, `approvals`), `core` and `journal` write
//! the row that `rows` puts together, `permit` is what comes out, and `flush` says when it is on disk.
//! `draft` lets several share one write; `keeper` does in the background what can wait. What was written
//! is read by `reader`, `follow`, `export` and `verify`, which need no lock.

use std::path::Path;
use std::sync::Arc;

use policy::Verdict;

use crate::clock::{Clock, Now};
use admit::{Carried, Judged, Request};
use inner::Inner;
use keeper::Keeper;
use places::Places;
use rows::Ruling;
use state::OpenCall;

use approvals::Decided;
pub use approvals::{
    Answer, Approval, ApprovalError, ApprovalStatus, PARKED_BYTES_MAX, PARKED_BYTES_PER_GRANT_MAX,
};
pub use draft::Drafted;
pub use entry::{Entry, EntryKind};
pub use error::LedgerError;
pub use export::ExportFormat;
pub use facts::{Ending, Facts, Note, Outcome, PolicyVersion, Refusal, RefusalKind};
pub use filter::Filter;
pub use flush::{Durability, WhenDurable};
pub use follow::Follower;
pub use permit::{Admission, Permit, Settled, Waiting};
pub use reader::{Entries, Reader};
pub use replay::{Busiest, Replay};
pub use retention::Retention;
pub use row::Held;
pub use seal::{Seal, SealKey, SealState, Sealing};
pub use verify::{Checkpoint, Finding, Retired, Verified, VerifyError};
pub use witness::{Alarm, Witness};

mod admit;
mod approvals;
mod chain;
mod core;
mod counters;
mod draft;
mod encode;
mod entry;
mod error;
mod export;
mod facts;
mod filter;
mod flush;
mod follow;
mod inner;
mod journal;
mod keeper;
mod load;
mod lock;
mod mark;
mod permit;
mod places;
mod reader;
mod replay;
mod retention;
mod row;
mod rows;
mod seal;
mod series;
mod snapshot;
pub(crate) mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod time;
mod verify;
mod witness;
mod writers;

/// A segment is closed when it has grown to this.
pub const SEGMENT_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    pub durability: Durability,
    pub segment_bytes_max: u64,
    pub retention: Retention,
    /// Names the boot instead of the clock; for tests.
    pub boot_id: Option<String>,
    /// Seals the last row with a key, where there is one.
    pub seal: Option<Sealing>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::default(),
            segment_bytes_max: SEGMENT_BYTES_MAX,
            retention: Retention::default(),
            boot_id: None,
            seal: None,
        }
    }
}

/// An opened ledger. Share it in an `Arc`; every method may be called from any thread and takes
/// microseconds, unless the disk or another process is in trouble: then it fails within seconds.
pub struct Ledger {
    inner: Arc<Inner>,
    keeper: Keeper,
}

/// What [`Ledger::admit_soon`] gives.
#[derive(Debug)]
pub enum Soon {
    Now(Admission),
    Drafted(Drafted),
}

/// How the ledger stands, for `status`, `doctor` and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The last row.
    pub seq: u64,
    pub segment: u32,
    pub open_calls: usize,
    pub pending_approvals: usize,
    /// Ledger time minus wall clock; far from zero when the wall clock was set.
    pub ahead_us: i64,
}

impl Ledger {
    /// Opens the ledger in this folder, or begins one. What a power cut has torn is cut off, and
    /// calls that were in flight in a process that died are closed as unknown.
    pub fn open(folder: &Path, clock: Clock, options: Options) -> Result<Ledger, LedgerError> {
        let places = Places::create(folder)?;
        let inner = Arc::new(Inner::open(places, clock, options)?);
        let keeper = Keeper::start(&inner)?;
        Ok(Ledger { inner, keeper })
    }

    /// Why the log that was opened is not the one that was sealed. A row says so, too.
    pub fn seal_broken(&self) -> Option<&str> {
        self.inner.seal_broken()
    }

    /// What is missing or different in this log if `known` was once a row of it.
    pub fn missing(&self, known: &Checkpoint) -> Result<Option<String>, LedgerError> {
        if let Some(words) = known.missed_in(&self.last_row()?) {
            return Ok(Some(words));
        }
        Reader::open(self.inner.places.folder())?.differs_from(known, "`gate.db` remembers")
    }

    /// Takes every hold of the verdict or none, and writes the decision row.
    pub fn admit(&self, verdict: &Verdict, facts: &Facts<'_>) -> Result<Admission, LedgerError> {
        self.judge(&Request { verdict, facts, held: None, continues: None })
    }

    /// The same while other calls are under way: the row of a call that is simply allowed is drafted
    /// and written together with those that come in the same moment.
    pub fn admit_soon(&self, verdict: &Verdict, facts: &Facts<'_>) -> Result<Soon, LedgerError> {
        let allowed = matches!(verdict.decision(), policy::Decision::Allow);
        if !allowed || self.inner.open_calls() == 0 {
            return self.admit(verdict, facts).map(Soon::Now);
        }
        let request = Request { verdict, facts, held: None, continues: None };
        Ok(match self.inner.judge_soon(&request)? {
            (Judged::Admitted { seq, at }, Some(fate)) => {
                let permit = Permit::new(&self.inner, seq, at);
                Soon::Drafted(Drafted::new(permit, &self.inner, fate))
            }
            (judged, _) => Soon::Now(self.admission(judged, None)),
        })
    }

    /// The caller's answer to what the server asked in its answer to call `first`: the same logical
    /// call, so nothing is counted again. If the ledger does not know `first` to wait for exactly
    /// this, it is a call like any other.
    pub fn continue_call(
        &self,
        verdict: &Verdict,
        first: u64,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let continues = Some(Carried::Awaited(first));
        self.judge(&Request { verdict, facts, held: None, continues })
    }

    /// The caller's answer to what the server asked in the middle of a call that still runs: the same
    /// logical call, so nothing is counted again.
    pub fn carry_on(
        &self,
        verdict: &Verdict,
        running: &Permit,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let continues = Some(Carried::Open(running.seq()));
        self.judge(&Request { verdict, facts, held: None, continues })
    }

    /// Looks again whether a held call was decided. It comes back as `Asked` while it was not; the
    /// verdict and the facts are those of now.
    pub fn resume(
        &self,
        waiting: Waiting,
        verdict: &Verdict,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let request = Request { verdict, facts, held: Some(waiting.seq), continues: None };
        let judged = self.inner.turn(|turn| turn.judge(&request))?;
        Ok(self.admission(judged, Some(waiting)))
    }

    fn judge(&self, request: &Request<'_>) -> Result<Admission, LedgerError> {
        let judged = self.inner.turn(|turn| turn.judge(request))?;
        Ok(self.admission(judged, None))
    }

    fn admission(&self, judged: Judged, held: Option<Waiting>) -> Admission {
        match (judged, held) {
            (Judged::Admitted { seq, at }, _) => {
                Admission::Permit(Permit::new(&self.inner, seq, at))
            }
            (Judged::Denied(denial), _) => Admission::Denied(denial),
            (Judged::Asked { seq, denial }, _) => Admission::Asked(Waiting { seq, denial }),
            (Judged::StillAsked, Some(waiting)) => Admission::Asked(waiting),
            (Judged::StillAsked, None) => Admission::Denied(policy::Denial::new(
                policy::Code::ApprovalPending,
                "",
                "waiting for the owner to decide",
            )),
        }
    }

    /// Records a request that no policy was asked about; gives the number of its row.
    pub fn record(&self, refusal: &Refusal<'_>, facts: &Facts<'_>) -> Result<u64, LedgerError> {
        self.record_repeats(refusal, facts, None)
    }

    /// The same for `count` requests in one row.
    pub fn record_repeats(
        &self,
        refusal: &Refusal<'_>,
        facts: &Facts<'_>,
        count: Option<u64>,
    ) -> Result<u64, LedgerError> {
        let ruling = Ruling {
            decision: refusal.kind.as_str(),
            code: refusal.code,
            reason: refusal.reason,
            count,
            ..Ruling::default()
        };
        self.inner.turn(|turn| turn.append(|stamp, out| rows::decision(stamp, &ruling, facts, out)))
    }

    /// A request that no policy is asked about: the protocol's own business of a client, such as a
    /// greeting or a list, or one that the gate makes for itself.
    pub fn own_act(&self, facts: &Facts<'_>) -> Result<Permit, LedgerError> {
        let decision = if facts.grant.is_empty() { "own" } else { "passed" };
        let ruling = Ruling { decision, ..Ruling::default() };
        let (seq, at) = self.inner.turn(|turn| {
            let writer = turn.core.writer(turn.now, turn.tick)?;
            let seq = turn.append(|stamp, out| rows::decision(stamp, &ruling, facts, out))?;
            let call = OpenCall { writer, tick: turn.tick, taken: Vec::new() };
            turn.core.state.admitted(seq, call, "");
            Ok::<_, LedgerError>((seq, turn.position()))
        })?;
        Ok(Permit::new(&self.inner, seq, at))
    }

    /// Records an act that is not a call.
    pub fn note(&self, note: &Note<'_>) -> Result<u64, LedgerError> {
        self.inner.turn(|turn| turn.append(|stamp, out| rows::note(stamp, note, out)))
    }

    /// Records a change of `gate.db` under the mark by which it is known there.
    pub(crate) fn note_change(&self, note: &Note<'_>, mark: &str) -> Result<u64, LedgerError> {
        self.inner.turn(|turn| turn.append(|stamp, out| rows::change(stamp, note, mark, out)))
    }

    /// Whether a row records the change of that mark. It is looked for behind `known`, a row that was
    /// there before, or everywhere if that is a row of another log.
    pub(crate) fn has_change(
        &self,
        mark: &str,
        known: Option<&Checkpoint>,
    ) -> Result<bool, LedgerError> {
        let ours = self.last_row()?.ledger;
        let seq = known.filter(|row| row.ledger == ours).map_or(0, |row| row.seq);
        Reader::open(self.inner.places.folder())?.has_change(mark, seq)
    }

    /// The owner's answer to a parked call.
    pub fn decide_approval(
        &self,
        id: &str,
        answer: &Answer,
        by: &str,
    ) -> Result<Approval, ApprovalError> {
        self.inner.turn(|turn| {
            turn.core.state.approvals.decidable(id, answer, turn.tick)?;
            let any_words;
            let (status, until, words) = match answer {
                Answer::ApproveOnce => (ApprovalStatus::ApprovedOnce, None, ""),
                Answer::ApproveFor { seconds } | Answer::ApproveAnyFor { seconds } => {
                    let until = turn.tick.saturating_add(seconds.saturating_mul(1_000_000));
                    any_words = answer.words_of_any();
                    (ApprovalStatus::ApprovedUntil(until), Some(until), any_words.as_str())
                }
                Answer::Deny { words } => (ApprovalStatus::Denied, None, words.as_str()),
            };
            let any_arguments = matches!(answer, Answer::ApproveAnyFor { .. });
            let said = Note { act: "approval_decided", by, about: "", words };
            turn.append(|stamp, out| {
                rows::approval_decided(stamp, id, answer.as_str(), until, &said, out);
            })?;
            let decided = Decided { status, any_arguments, by, words };
            turn.core.state.approvals.decide(id, &decided, turn.tick);
            let decided = turn.core.state.approvals.get(id).cloned();
            decided.ok_or_else(|| ApprovalError::Unknown(id.to_owned()))
        })
    }

    /// Approvals that wait, and those that ended within the last hour, oldest first.
    pub fn approvals(&self) -> Result<Vec<Approval>, LedgerError> {
        self.inner.turn(|turn| Ok(turn.core.state.approvals.iter().cloned().collect()))
    }

    /// Is called, from any thread, whenever an approval was asked, decided or used, also by another
    /// process (within 150 ms while one waits). It should only wake someone up.
    pub fn on_approval_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.inner.listen(Arc::new(listener));
    }

    /// Counts changes of approvals that this process knows of. Costs nothing.
    pub fn generation(&self) -> u64 {
        self.inner.generation()
    }

    /// Learns what other processes wrote and gives the generation after that.
    pub fn poll(&self) -> Result<u64, LedgerError> {
        self.inner.turn(|_| Ok::<_, LedgerError>(()))?;
        Ok(self.generation())
    }

    /// Ledger time: never goes back, and does not follow the wall clock within one boot.
    pub fn time(&self, now: Now) -> u64 {
        self.inner.ledger_time(now)
    }

    /// Wall clock for checking expiries, in microseconds: a clock that was set back revives nothing.
    pub fn trusted_now(&self, now: Now) -> i64 {
        now.wall_us.max(i64::try_from(self.inner.expiry_time(now)).unwrap_or(i64::MAX))
    }

    /// Flushes everything written so far.
    pub fn flush(&self) -> Result<(), LedgerError> {
        self.inner.flush.sync();
        self.inner.flush.failure().map_or(Ok(()), Err)
    }

    pub fn standing(&self) -> Result<Standing, LedgerError> {
        self.inner.turn(|turn| {
            turn.core.write_owed(turn.now, turn.tick)?;
            let pending = turn.core.state.approvals.iter().filter(|approval| {
                approval.status == ApprovalStatus::Pending && !approval.is_expired(turn.tick)
            });
            let tail = &turn.core.journal.tail;
            Ok(Standing {
                seq: tail.head.seq,
                segment: tail.segment,
                open_calls: turn.core.state.open.len(),
                pending_approvals: pending.count(),
                ahead_us: i64::try_from(turn.tick).unwrap_or(i64::MAX) - turn.now.wall_us,
            })
        })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.keeper.stop(&self.inner);
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger")
            .field("folder", &self.inner.places.folder())
            .finish_non_exhaustive()
    }
}
