//! The ledger: every decision, counter and approval in one hash chain of rows that any number of
//! processes share. Only the ledger makes a [`Permit`], and never without its row. An admission
//! passes these files: `shared` takes both locks and reads what others wrote (`load`), `admit`
//! checks `state` (`counters`, `sliding_window`, `approvals`), `core` and `journal` write the row
//! that `row_writer` builds, `permit` is the result, and `flush` reports when it is on disk.
//! `group_commit` lets several calls share one write; `awaited` has the calls of serving threads, which
//! never wait for Postgres (`turns`); `maintenance` does background work. `reader`,
//! `follow`, `export` and `verify` read the log without a lock, from files or from Postgres
//! (`source`). On Postgres the open end of the journal is `postgres_log` and the statements are in
//! `postgres_table`.

use std::path::Path;
use std::sync::Arc;

use policy::Verdict;

use crate::clock::{Clock, Now};
use crate::postgres::Address;
use admit::{Continuation, Judged, Request};
use maintenance::Maintenance;
use paths::LogPaths;
use postgres_table::PostgresTable;
use row_writer::Ruling;
use shared::SharedLedger;
use source::LogSource;

use approvals::Decided;
pub use approvals::{
    Answer, Approval, ApprovalError, ApprovalStatus, PARKED_BYTES_MAX, PARKED_BYTES_PER_GRANT_MAX,
};
pub use entry::{Entry, EntryKind};
pub use error::LedgerError;
pub use export::ExportFormat;
pub use facts::{Ending, Facts, Note, Outcome, PolicyRef, Refusal, RefusalKind};
pub use filter::Filter;
pub use flush::{Durability, WhenDurable};
pub use follow::Follower;
pub use group_commit::PendingPermit;
pub use permit::{Admission, HeldCall, Permit, Settled};
pub(crate) use reader::Change;
pub use reader::{Entries, Reader};
pub use replay::{Busiest, Replay};
pub use retention::Retention;
pub use row::Held;
pub use row_budget::{UNAUTHENTICATED_ROWS_MAX, UNAUTHENTICATED_ROWS_PER_DAY};
pub use seal::{Seal, SealKey, SealState, Sealing};
pub use verify::{Checkpoint, Finding, Retired, Verified, VerifyError};
pub use witness::{Alarm, Witness};

mod admit;
mod approvals;
mod awaited;
mod chain;
mod copy;
mod core;
mod counters;
mod encode;
mod entry;
mod error;
mod export;
mod facts;
mod filter;
mod flush;
mod follow;
mod group_commit;
mod journal;
mod load;
mod lock;
mod maintenance;
mod paths;
mod pending_outcome;
mod permit;
mod postgres_log;
mod postgres_table;
mod reader;
mod replay;
mod retention;
mod row;
mod row_budget;
mod row_writer;
mod seal;
mod shared;
mod sliding_window;
mod snapshot;
mod source;
mod state;
mod sync_mark;
#[cfg(test)]
mod tests;
mod time;
pub(crate) mod timestamp;
mod turns;
mod verify;
mod witness;
mod writers;

/// A segment is closed at this size.
pub const SEGMENT_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    pub durability: Durability,
    pub segment_bytes_max: u64,
    pub retention: Retention,
    /// Replaces the boot id of the clock; for tests.
    pub boot_id: Option<String>,
    /// Seals the last row with a key, if there is one.
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

/// An open ledger. Share it in an `Arc`; every method may be called from any thread and takes
/// microseconds, unless the disk or another process is stuck: then it fails within seconds.
pub struct Ledger {
    shared: Arc<SharedLedger>,
    maintenance: Maintenance,
}

/// The result of [`Ledger::admit_soon`].
#[derive(Debug)]
pub enum GroupedAdmission {
    Now(Admission),
    Pending(PendingPermit),
}

/// Figures for `status`, `doctor` and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerStatus {
    /// The last row.
    pub seq: u64,
    pub segment: u32,
    pub open_calls: usize,
    pub pending_approvals: usize,
    /// Ledger time minus wall clock; far from zero after the wall clock was set.
    pub ahead_us: i64,
}

impl Ledger {
    /// Opens or creates the ledger in this folder. Torn rows after a power cut are truncated, and
    /// calls of dead processes are closed as unknown.
    pub fn open(folder: &Path, clock: Clock, options: Options) -> Result<Ledger, LedgerError> {
        Ledger::on(LogSource::Files(LogPaths::create(folder)?), clock, options)
    }

    /// Opens the ledger on Postgres that several machines share, or creates it. Calls of replicas
    /// that died are closed once they have been silent for ten seconds.
    pub fn open_on_postgres(
        address: &Address,
        clock: Clock,
        options: Options,
    ) -> Result<Ledger, LedgerError> {
        let table = PostgresTable::open(address)?;
        Ledger::on(LogSource::Postgres(Arc::new(table)), clock, options)
    }

    fn on(source: LogSource, clock: Clock, options: Options) -> Result<Ledger, LedgerError> {
        let shared = Arc::new(SharedLedger::open(source, clock, options)?);
        let maintenance = Maintenance::start(&shared)?;
        Ok(Ledger { shared, maintenance })
    }

    /// Why the opened log is not the one that was sealed. A row records it too.
    pub fn seal_broken(&self) -> Option<&str> {
        self.shared.seal_broken()
    }

    /// What is missing or different in this log if `known` was once one of its rows.
    pub fn missing(&self, known: &Checkpoint) -> Result<Option<String>, LedgerError> {
        if let Some(words) = known.missed_in(&self.last_row()?) {
            return Ok(Some(words));
        }
        self.shared.reader()?.differs_from(known, "`gate.db` remembers")
    }

    /// Takes every hold of the verdict or none, and writes the decision row.
    pub fn admit(&self, verdict: &Verdict, facts: &Facts<'_>) -> Result<Admission, LedgerError> {
        self.judge(&Request { verdict, facts, held: None, continues: None })
    }

    /// The same while other calls are in flight: the row of an allowed call is batched and written
    /// together with those of concurrent calls.
    pub fn admit_soon(
        &self,
        verdict: &Verdict,
        facts: &Facts<'_>,
    ) -> Result<GroupedAdmission, LedgerError> {
        let allowed = matches!(verdict.decision(), policy::Decision::Allow);
        if !allowed || self.shared.open_calls() == 0 {
            return self.admit(verdict, facts).map(GroupedAdmission::Now);
        }
        let request = Request { verdict, facts, held: None, continues: None };
        Ok(match self.shared.judge_soon(&request)? {
            (Judged::Admitted { seq, at }, Some(result)) => {
                let permit = Permit::new(&self.shared, seq, at).bounded_by(verdict);
                GroupedAdmission::Pending(PendingPermit::new(permit, &self.shared, result))
            }
            (judged, _) => GroupedAdmission::Now(self.admission(judged, verdict, None)),
        })
    }

    /// The caller's reply to a question in the server's response to call `first`: the same logical
    /// call, so nothing is counted again. If the ledger has no matching pending question for
    /// `first`, it is an ordinary call.
    pub fn continue_call(
        &self,
        verdict: &Verdict,
        first: u64,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let continues = Some(Continuation::Awaited(first));
        self.judge(&Request { verdict, facts, held: None, continues })
    }

    /// The caller's reply to a question that the server asked during a call that still runs: the
    /// same logical call, so nothing is counted again.
    pub fn continue_running(
        &self,
        verdict: &Verdict,
        running: &Permit,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let continues = Some(Continuation::Open(running.seq()));
        self.judge(&Request { verdict, facts, held: None, continues })
    }

    /// Checks again whether a held call was decided. Returns `Asked` while it was not; verdict and
    /// facts are the current ones.
    pub fn resume(
        &self,
        waiting: HeldCall,
        verdict: &Verdict,
        facts: &Facts<'_>,
    ) -> Result<Admission, LedgerError> {
        let request = Request { verdict, facts, held: Some(waiting.seq), continues: None };
        let judged = self.shared.with_lock(|locked| locked.judge(&request))?;
        Ok(self.admission(judged, verdict, Some(waiting)))
    }

    fn judge(&self, request: &Request<'_>) -> Result<Admission, LedgerError> {
        let judged = self.shared.with_lock(|locked| locked.judge(request))?;
        Ok(self.admission(judged, request.verdict, None))
    }

    fn admission(&self, judged: Judged, verdict: &Verdict, held: Option<HeldCall>) -> Admission {
        match (judged, held) {
            (Judged::Admitted { seq, at }, _) => {
                Admission::Permit(Permit::new(&self.shared, seq, at).bounded_by(verdict))
            }
            (Judged::Denied(denial), _) => Admission::Denied(denial),
            (Judged::Asked { seq, denial }, _) => Admission::Asked(HeldCall { seq, denial }),
            (Judged::StillAsked, Some(waiting)) => Admission::Asked(waiting),
            (Judged::StillAsked, None) => Admission::Denied(policy::Denial::new(
                policy::Code::ApprovalPending,
                "",
                "waiting for the owner to decide",
            )),
        }
    }

    /// Records a request that was not evaluated by a policy; returns the number of its row.
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
        let ruling = refusal_ruling(refusal, count);
        self.shared.with_lock(|locked| {
            locked.append(|header, out| row_writer::decision(header, &ruling, facts, out))
        })
    }

    /// Takes rows for requests without a grant from their budget, at the given ledger time. None are left
    /// when the budget is used up or cannot be stored.
    pub fn reserve_unauthenticated_rows(&self, now_us: u64) -> u64 {
        self.shared.reserve_unauthenticated_rows(now_us)
    }

    /// Gives back rows that were reserved and not used. What cannot be stored is lost.
    pub fn return_unauthenticated_rows(&self, rows: u64) {
        let _ = self.shared.return_unauthenticated_rows(rows);
    }

    /// Admits a request that no policy evaluates: protocol traffic of a client, such as a handshake
    /// or a list, or a request of the gate itself.
    pub fn admit_without_policy(&self, facts: &Facts<'_>) -> Result<Permit, LedgerError> {
        let (seq, at) = self.shared.with_lock(|locked| locked.pass(facts))?;
        Ok(Permit::new(&self.shared, seq, at))
    }

    /// Records an act that is not a call.
    pub fn note(&self, note: &Note<'_>) -> Result<u64, LedgerError> {
        self.shared
            .with_lock(|locked| locked.append(|header, out| row_writer::note(header, note, out)))
    }

    /// Records a change of `gate.db` under its id there.
    pub(crate) fn note_change(&self, note: &Note<'_>, mark: &str) -> Result<u64, LedgerError> {
        self.shared.with_lock(|locked| {
            locked.append(|header, out| row_writer::change(header, note, mark, out))
        })
    }

    /// Whether a row records the change with this id. Searches after `known`, a row that existed
    /// before, or everywhere if that is a row of another log.
    pub(crate) fn has_change(
        &self,
        mark: &str,
        known: Option<&Checkpoint>,
    ) -> Result<bool, LedgerError> {
        let ours = self.last_row()?.ledger;
        let seq = known.filter(|row| row.ledger == ours).map_or(0, |row| row.seq);
        self.shared.reader()?.has_change(mark, seq)
    }

    /// The changes of `gate.db` whose rows come after this one.
    pub(crate) fn changes_after(&self, known: &Checkpoint) -> Result<Vec<Change>, LedgerError> {
        if self.last_row()?.ledger != known.ledger {
            return Ok(Vec::new());
        }
        self.shared.reader()?.changes_after(known.seq)
    }

    /// The owner's answer to a parked call.
    pub fn decide_approval(
        &self,
        id: &str,
        answer: &Answer,
        by: &str,
    ) -> Result<Approval, ApprovalError> {
        self.shared.with_lock(|locked| {
            locked.core.state.approvals.decidable(id, answer, locked.tick)?;
            let any_words;
            let (status, until, words) = match answer {
                Answer::ApproveOnce => (ApprovalStatus::ApprovedOnce, None, ""),
                Answer::ApproveFor { seconds } | Answer::ApproveAnyFor { seconds } => {
                    let until = locked.tick.saturating_add(seconds.saturating_mul(1_000_000));
                    any_words = answer.words_of_any();
                    (ApprovalStatus::ApprovedUntil(until), Some(until), any_words.as_str())
                }
                Answer::Deny { words } => (ApprovalStatus::Denied, None, words.as_str()),
            };
            let any_arguments = matches!(answer, Answer::ApproveAnyFor { .. });
            let said = Note { act: "approval_decided", by, about: "", words };
            locked.append(|header, out| {
                row_writer::approval_decided(header, id, answer.as_str(), until, &said, out);
            })?;
            let decided = Decided { status, any_arguments, by, words };
            locked.core.state.approvals.decide(id, &decided, locked.tick);
            let decided = locked.core.state.approvals.get(id).cloned();
            decided.ok_or_else(|| ApprovalError::Unknown(id.to_owned()))
        })
    }

    /// The log for reading.
    pub fn reader(&self) -> Result<Reader, LedgerError> {
        self.shared.reader()
    }

    /// Pending approvals, and those that ended within the last hour, oldest first.
    pub fn approvals(&self) -> Result<Vec<Approval>, LedgerError> {
        self.shared.with_lock(|locked| Ok(locked.core.state.approvals.iter().cloned().collect()))
    }

    /// Called from any thread whenever an approval was requested, decided or used, also by another
    /// process (within 150 ms while one is pending). It should only wake a waiter.
    pub fn on_approval_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.shared.add_listener(Arc::new(listener));
    }

    /// Counts changes of approvals that this process has seen. Costs nothing.
    pub fn generation(&self) -> u64 {
        self.shared.generation()
    }

    /// Reads what other processes wrote and returns the generation after that.
    pub fn poll(&self) -> Result<u64, LedgerError> {
        self.shared.with_lock(|_| Ok::<_, LedgerError>(()))?;
        Ok(self.generation())
    }

    /// Ledger time: monotonic, and independent of the wall clock within one boot.
    pub fn time(&self, now: Now) -> u64 {
        self.shared.ledger_time(now)
    }

    /// Wall clock for checking expiries, in microseconds: setting the clock back revives nothing.
    pub fn trusted_now(&self, now: Now) -> i64 {
        now.wall_us.max(i64::try_from(self.shared.expiry_time(now)).unwrap_or(i64::MAX))
    }

    /// Flushes everything written so far.
    pub fn flush(&self) -> Result<(), LedgerError> {
        self.shared.flush.sync();
        self.shared.flush.failure().map_or(Ok(()), Err)
    }

    pub fn status(&self) -> Result<LedgerStatus, LedgerError> {
        self.shared.with_lock(|locked| {
            locked.core.write_pending_outcomes(locked.now, locked.tick)?;
            let pending = locked.core.state.approvals.iter().filter(|approval| {
                approval.status == ApprovalStatus::Pending && !approval.is_expired(locked.tick)
            });
            let cursor = locked.core.journal.cursor();
            Ok(LedgerStatus {
                seq: cursor.head.seq,
                segment: cursor.segment,
                open_calls: locked.core.state.open.len(),
                pending_approvals: pending.count(),
                ahead_us: i64::try_from(locked.tick).unwrap_or(i64::MAX) - locked.now.wall_us,
            })
        })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.maintenance.stop(&self.shared);
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("log", &self.shared.source.name()).finish_non_exhaustive()
    }
}

/// What the row of a refused request says.
fn refusal_ruling<'a>(refusal: &Refusal<'a>, count: Option<u64>) -> Ruling<'a> {
    Ruling {
        decision: refusal.kind.as_str(),
        code: refusal.code,
        reason: refusal.reason,
        count,
        ..Ruling::default()
    }
}
