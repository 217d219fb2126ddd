//! Turns a verdict into a permit or a denial and writes its row, atomically: checking every limit,
//! using an approval and recording the call are one step.

use policy::{Amount, Ask, Code, Decision, Denial, Hold, Scope, Verdict};

use super::approvals::{self, Approval, ApprovalMatch, ApprovalStatus, ParkedFull};
use super::core::Core;
use super::counters::{Counters, Exceeded, Key, LimitUse, Taken};
use super::error::LedgerError;
use super::facts::Facts;
use super::row_writer::{self, NewApproval, Ruling};
use super::shared::LockedLedger;
use super::sliding_window::RetryAfter;
use super::state::OpenCall;
use super::sync_mark::Position;

/// A request to be judged.
pub(crate) struct Request<'a> {
    pub(crate) verdict: &'a Verdict,
    pub(crate) facts: &'a Facts<'a>,
    /// The decision row of a call that waited for a human; it continues under that row.
    pub(crate) held: Option<u64>,
    /// The call that this one continues.
    pub(crate) continues: Option<Continuation>,
}

/// An earlier part of the same logical call.
#[derive(Clone, Copy)]
pub(crate) enum Continuation {
    /// It ended with a question, and its row says which call may bring the answer.
    Awaited(u64),
    /// It is still running: the caller holds its permit.
    Open(u64),
}

impl Continuation {
    fn seq(self) -> u64 {
        match self {
            Continuation::Awaited(seq) | Continuation::Open(seq) => seq,
        }
    }
}

pub(crate) enum Judged {
    Admitted {
        seq: u64,
        at: Position,
    },
    Denied(Denial),
    Asked {
        seq: u64,
        denial: Denial,
    },
    /// A held call is still pending; nothing was written.
    StillAsked,
}

impl LockedLedger<'_> {
    pub(crate) fn judge(&mut self, request: &Request<'_>) -> Result<Judged, LedgerError> {
        match request.verdict.decision() {
            Decision::Deny(denial) => {
                let ruling = Ruling::of(request.verdict);
                self.deny(request, ruling, "denied", denial.clone())
            }
            Decision::Hidden(told) => {
                let ruling = Ruling::of(request.verdict);
                self.deny(request, ruling, "denied", told.denial().clone())
            }
            Decision::Allow | Decision::Ask(_) if self.is_continued(request) => {
                let continuation_of = request.continues.map(Continuation::seq);
                let ruling = Ruling { continuation_of, ..Ruling::of(request.verdict) };
                self.admit(request, ruling, Vec::new())
            }
            Decision::Allow => self.admit_within_limits(request, ""),
            Decision::Ask(ask) => self.judge_asked(request, ask),
        }
    }

    /// The server replied to the first part with a question; this brings the answer.
    fn is_continued(&self, request: &Request<'_>) -> bool {
        let state = &self.core.state;
        request.continues.is_some_and(|first| match first {
            Continuation::Awaited(seq) => {
                state.is_awaited(seq, &request.facts.call_binding(), self.tick)
            }
            Continuation::Open(seq) => state.is_open(seq),
        })
    }

    fn judge_asked(&mut self, request: &Request<'_>, ask: &Ask) -> Result<Judged, LedgerError> {
        let binding = request.facts.approval_binding(ask.via);
        let tool_binding = request.facts.tool_binding(ask.via);
        let ruling = Ruling { rule: &ask.rule, ..Ruling::of(request.verdict) };
        match self.core.state.approvals.find(&binding, &tool_binding, self.tick) {
            ApprovalMatch::Approved(approval) => {
                let id = approval.id.clone();
                self.admit_within_limits(request, &id)
            }
            ApprovalMatch::Denied(approval) => {
                let denial = denied(approval, ask);
                self.deny(request, ruling, "denied", denial)
            }
            ApprovalMatch::Pending(_) if request.held.is_some() => Ok(Judged::StillAsked),
            ApprovalMatch::Pending(approval) => {
                let left_us = approval.expires_us.saturating_sub(self.tick);
                let denial = pending(&approval.id, ask, left_us);
                self.ask(request, &Ruling { reason: &ask.reason, ..ruling }, denial)
            }
            ApprovalMatch::Nothing if request.held.is_some() => {
                let reason =
                    "the approval expired before it was used; send the call again for a new one";
                let denial = Denial::new(Code::ApprovalExpired, &ask.rule, reason);
                self.deny(request, ruling, "denied", denial)
            }
            ApprovalMatch::Nothing => {
                let Facts { grant, parked_bytes, .. } = *request.facts;
                let approvals = &self.core.state.approvals;
                if let Some(wait_us) = approvals.too_many_pending(grant, self.tick) {
                    return self.deny(request, ruling, "limited", too_many_pending(ask, wait_us));
                }
                if let Some(full) = approvals.parked_full(grant, parked_bytes, self.tick) {
                    return self.deny(request, ruling, "limited", parked_full(ask, &full));
                }
                self.park(request, ask, [&binding, &tool_binding])
            }
        }
    }

    /// Parks the call: a new approval, bound to exactly this call.
    fn park(
        &mut self,
        request: &Request<'_>,
        ask: &Ask,
        [binding, tool_binding]: [&str; 2],
    ) -> Result<Judged, LedgerError> {
        // The row number is part of the approval id, so nothing may be written in between.
        self.core.write_pending_outcomes(self.now, self.tick)?;
        self.core.journal.begin();
        let seq = self.core.journal.next_seq();
        let id = approvals::id_of(seq, &self.core.journal.last_hash());
        let timeout_us = ask.timeout_seconds.saturating_mul(1_000_000);
        let expires = self.tick.saturating_add(timeout_us);
        let ruling = Ruling {
            rule: &ask.rule,
            reason: &ask.reason,
            asked: Some(NewApproval {
                binding,
                tool_binding,
                expires,
                parked_bytes: request.facts.parked_bytes,
            }),
            ..Ruling::of(request.verdict)
        };
        let judged = self.ask(request, &ruling, pending(&id, ask, timeout_us))?;
        let approval = self.approval(request.facts, ask, seq, id, expires);
        let (binding, tool_binding) = (binding.to_owned(), tool_binding.to_owned());
        self.core.state.approvals.ask(Approval { binding, tool_binding, ..approval });
        Ok(judged)
    }

    fn approval(
        &self,
        facts: &Facts<'_>,
        ask: &Ask,
        seq: u64,
        id: String,
        expires_us: u64,
    ) -> Approval {
        let subject = facts.subject;
        Approval {
            id,
            seq,
            asked_us: self.now.wall_us,
            expires_us,
            grant: facts.grant.to_owned(),
            server: facts.server.to_owned(),
            method: facts.method.to_owned(),
            subject_kind: subject.map_or("method", policy::Subject::kind).to_owned(),
            subject: subject.map_or(facts.method, policy::Subject::name).to_owned(),
            policy: facts.policy.map_or("", |policy| policy.name).to_owned(),
            policy_version: facts.policy.map_or(0, |policy| policy.version),
            rule: ask.rule.clone(),
            reason: ask.reason.clone(),
            digest: facts.argument_digest.map(|d| crate::hex::encode(&d)).unwrap_or_default(),
            status: ApprovalStatus::Pending,
            by: String::new(),
            words: String::new(),
            parked_bytes: facts.parked_bytes,
            any_arguments: false,
            binding: String::new(),
            tool_binding: String::new(),
        }
    }

    fn admit_within_limits(
        &mut self,
        request: &Request<'_>,
        approval: &str,
    ) -> Result<Judged, LedgerError> {
        let holds = request.verdict.holds();
        let Core { state, key_text, .. } = &mut *self.core;
        let limit_uses = limit_uses(&state.counters, key_text, holds, request.facts);
        let taken = Counters::group(&limit_uses);
        if let Err(over) = self.core.state.counters.check(&limit_uses, &taken, self.tick) {
            let denial = match holds.get(over.limit) {
                Some(hold) => limited(hold, over),
                None => {
                    Denial::new(Code::RateLimited, request.verdict.rule(), "a limit is reached")
                }
            };
            let rule = denial.rule.clone();
            let ruling = Ruling { rule: &rule, ..Ruling::of(request.verdict) };
            return self.deny(request, ruling, "limited", denial);
        }
        self.admit(request, Ruling { approval, ..Ruling::of(request.verdict) }, taken)
    }

    fn admit(
        &mut self,
        request: &Request<'_>,
        ruling: Ruling<'_>,
        taken: Vec<Taken>,
    ) -> Result<Judged, LedgerError> {
        let writer = self.core.writer(self.now, self.tick)?;
        let row = self.write(request, &Ruling { decision: "admitted", taken: &taken, ..ruling })?;
        let seq = request.held.unwrap_or(row);
        if let Some(first) = ruling.continuation_of {
            self.core.state.continued(first);
        }
        let call = OpenCall { writer, tick: self.tick, taken };
        self.core.state.admitted(seq, call, ruling.approval);
        Ok(Judged::Admitted { seq, at: self.position() })
    }

    fn deny(
        &mut self,
        request: &Request<'_>,
        ruling: Ruling<'_>,
        decision: &str,
        mut denial: Denial,
    ) -> Result<Judged, LedgerError> {
        let ruling = Ruling {
            decision,
            code: denial.code.as_str(),
            reason: &denial.reason,
            approval: denial.approval_id.as_deref().unwrap_or_default(),
            retry_after_seconds: denial.retry_after_seconds,
            ..ruling
        };
        let row = self.write(request, &ruling)?;
        denial.audit_id = Some(request.held.unwrap_or(row));
        Ok(Judged::Denied(denial))
    }

    fn ask(
        &mut self,
        request: &Request<'_>,
        ruling: &Ruling<'_>,
        mut denial: Denial,
    ) -> Result<Judged, LedgerError> {
        let ruling = Ruling {
            decision: "asked",
            code: denial.code.as_str(),
            approval: denial.approval_id.as_deref().unwrap_or_default(),
            ..*ruling
        };
        let seq = self.write(request, &ruling)?;
        denial.audit_id = Some(seq);
        Ok(Judged::Asked { seq, denial })
    }

    /// One row: the decision about a request, or how a held one continued.
    fn write(&mut self, request: &Request<'_>, ruling: &Ruling<'_>) -> Result<u64, LedgerError> {
        self.append(|header, out| match request.held {
            Some(of) => row_writer::resolved(header, of, ruling, request.facts.policy, out),
            None => row_writer::decision(header, ruling, request.facts, out),
        })
    }
}

/// Which counter each limit uses.
pub(crate) fn limit_uses(
    counters: &Counters,
    key_text: &mut String,
    holds: &[Hold],
    facts: &Facts<'_>,
) -> Vec<LimitUse> {
    let limit_uses = holds.iter().map(|hold| {
        write_key(hold, facts, facts.whose(), key_text);
        let (key, former) = match counters.known(key_text) {
            Some(key) => (key, None),
            None => (counters.key(key_text), counted_by_label(counters, key_text, hold, facts)),
        };
        LimitUse {
            key,
            former,
            window_us: hold.window_ms.saturating_mul(1_000),
            max: hold.max.units(),
            amount: hold.amount.units(),
        }
    });
    limit_uses.collect()
}

/// The counter of a grant as older versions named it (by label only), if the log still has it.
fn counted_by_label(
    counters: &Counters,
    key_text: &mut String,
    hold: &Hold,
    facts: &Facts<'_>,
) -> Option<Key> {
    let by_grant = matches!(hold.scope, Scope::Grant | Scope::Session);
    if !by_grant || facts.whose() == facts.grant {
        return None;
    }
    write_key(hold, facts, facts.grant, key_text);
    counters.known(key_text)
}

fn write_key(hold: &Hold, facts: &Facts<'_>, grant: &str, out: &mut String) {
    // An unnamed counter belongs to its server, because two policies may have a limit at the same
    // pointer. A named counter is shared by all policies that use the name.
    let placed;
    let is_placed = hold.counter.starts_with('/');
    let counter = match hold.scope {
        Scope::Grant | Scope::Session if is_placed => {
            placed = format!("{}{}", facts.server, hold.counter);
            &placed
        }
        _ => &*hold.counter,
    };
    match hold.scope {
        Scope::Grant => Key::write(Scope::Grant, grant, counter, out),
        // All sessions of a grant share one counter: an agent could otherwise open another session
        // for more.
        Scope::Session => Key::write(Scope::Session, grant, counter, out),
        Scope::Server => Key::write(Scope::Server, facts.server, counter, out),
        Scope::Everyone => Key::write(Scope::Everyone, "", counter, out),
    }
}

fn limited(hold: &Hold, over: Exceeded) -> Denial {
    let Hold { max, amount, .. } = hold;
    let (retry_after_seconds, default) = match over.wait {
        RetryAfter::Us(us) => {
            let seconds = us.div_ceil(1_000_000).max(1);
            let whose = whose(hold.scope);
            let window = window(hold.window_ms);
            let words = format!("at most {max} {window} {whose}; try again in {seconds} s");
            (Some(seconds), words)
        }
        RetryAfter::Never => (None, format!("{} exceeds the limit of {max}", AmountText(*amount))),
    };
    let reason = hold.on_deny.as_deref().map_or(default, str::to_owned);
    Denial { retry_after_seconds, ..Denial::new(Code::RateLimited, &*hold.rule, reason) }
}

/// An amount in words. The number itself is an argument of the call, so it is not shown.
struct AmountText(Amount);

impl std::fmt::Display for AmountText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0 == Amount::ONE { "one call" } else { "the amount of this call" })
    }
}

fn whose(scope: Scope) -> &'static str {
    match scope {
        Scope::Grant | Scope::Session => "for this grant",
        Scope::Server => "on this server",
        Scope::Everyone => "in total",
    }
}

fn window(window_ms: u64) -> String {
    match window_ms {
        1_000 => "a second".to_owned(),
        60_000 => "a minute".to_owned(),
        3_600_000 => "an hour".to_owned(),
        86_400_000 => "a day".to_owned(),
        ms if ms.is_multiple_of(1_000) => format!("in {} s", ms / 1_000),
        ms => format!("in {ms} ms"),
    }
}

/// The message for a pending call: who decides, and by when. It names no command that approves,
/// because the agent reads it.
fn pending(id: &str, ask: &Ask, left_us: u64) -> Denial {
    let reason = format!(
        "{}; the owner has {} to decide (approval `{id}`)",
        ask.reason.trim_end_matches(['.', ';']),
        span(left_us / 1_000_000)
    );
    Denial {
        approval_id: Some(id.to_owned()),
        ..Denial::new(Code::ApprovalPending, &ask.rule, reason)
    }
}

/// `45 s`, `10 min`, `2 h`, `3 days`: rounded down to one unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn denied(approval: &Approval, ask: &Ask) -> Denial {
    let reason = if approval.words.is_empty() {
        "the owner denied it".to_owned()
    } else {
        approval.words.clone()
    };
    Denial {
        approval_id: Some(approval.id.clone()),
        ..Denial::new(Code::ApprovalDenied, &ask.rule, reason)
    }
}

fn too_many_pending(ask: &Ask, wait_us: u64) -> Denial {
    let reason = format!(
        "{} calls of this grant are already waiting for the owner; try again when some are decided",
        approvals::PENDING_PER_GRANT_MAX
    );
    Denial {
        retry_after_seconds: Some(wait_us.div_ceil(1_000_000).max(1)),
        ..Denial::new(Code::RateLimited, &ask.rule, reason)
    }
}

fn parked_full(ask: &Ask, full: &ParkedFull) -> Denial {
    let ParkedFull { whose, bytes_max, wait_us } = full;
    let mib = bytes_max >> 20;
    let reason = match wait_us {
        Some(_) => format!(
            "this call cannot wait for the owner: waiting calls {whose} are limited to {mib} MiB in total; try again when some are decided, or send less"
        ),
        None => format!(
            "this call cannot wait for the owner: waiting calls {whose} are limited to {mib} MiB in total, and this one is larger; send less"
        ),
    };
    Denial {
        retry_after_seconds: wait_us.map(|wait_us| wait_us.div_ceil(1_000_000).max(1)),
        ..Denial::new(Code::RateLimited, &ask.rule, reason)
    }
}
