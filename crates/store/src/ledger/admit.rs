//! Turns a verdict into a permit or a denial, and writes the row that says so, in one turn: room in
//! every limit, an approval that is still good, and the record are one act.

use policy::{Amount, Ask, Code, Decision, Denial, Hold, Scope, Verdict};

use super::approvals::{self, Approval, ApprovalStatus, Found, NoRoom};
use super::core::Core;
use super::counters::{Counters, Draw, Key, Over, Taken};
use super::error::LedgerError;
use super::facts::Facts;
use super::inner::Turn;
use super::mark::Position;
use super::rows::{self, Asked, Ruling};
use super::series::Wait;
use super::state::OpenCall;

/// A request that a policy was asked about.
pub(crate) struct Request<'a> {
    pub(crate) verdict: &'a Verdict,
    pub(crate) facts: &'a Facts<'a>,
    /// The decision row of a call that waited for a human: it has its row, and goes on under it.
    pub(crate) held: Option<u64>,
    /// The call that this one carries on.
    pub(crate) continues: Option<Carried>,
}

/// An earlier part of the same logical call.
#[derive(Clone, Copy)]
pub(crate) enum Carried {
    /// It ended with a question, and its row says which call may bring the answer.
    Awaited(u64),
    /// It is not over: whoever carries it on holds its permit.
    Open(u64),
}

impl Carried {
    fn seq(self) -> u64 {
        match self {
            Carried::Awaited(seq) | Carried::Open(seq) => seq,
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
    /// A held call still waits; nothing was written.
    StillAsked,
}

impl Turn<'_> {
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
                let continuation_of = request.continues.map(Carried::seq);
                let ruling = Ruling { continuation_of, ..Ruling::of(request.verdict) };
                self.admit(request, ruling, Vec::new())
            }
            Decision::Allow => self.admit_within_limits(request, ""),
            Decision::Ask(ask) => self.judge_asked(request, ask),
        }
    }

    /// The server answered the first part with a question; this brings the answer.
    fn is_continued(&self, request: &Request<'_>) -> bool {
        let state = &self.core.state;
        request.continues.is_some_and(|first| match first {
            Carried::Awaited(seq) => {
                state.is_awaited(seq, &request.facts.call_binding(), self.tick)
            }
            Carried::Open(seq) => state.is_open(seq),
        })
    }

    fn judge_asked(&mut self, request: &Request<'_>, ask: &Ask) -> Result<Judged, LedgerError> {
        let binding = request.facts.approval_binding();
        let tool_binding = request.facts.tool_binding();
        let ruling = Ruling { rule: &ask.rule, ..Ruling::of(request.verdict) };
        match self.core.state.approvals.find(&binding, &tool_binding, self.tick) {
            Found::Approved(approval) => {
                let id = approval.id.clone();
                self.admit_within_limits(request, &id)
            }
            Found::Denied(approval) => {
                let denial = denied(approval, ask);
                self.deny(request, ruling, "denied", denial)
            }
            Found::Pending(_) if request.held.is_some() => Ok(Judged::StillAsked),
            Found::Pending(approval) => {
                let left_us = approval.expires_us.saturating_sub(self.tick);
                let denial = pending(&approval.id, ask, left_us);
                self.ask(request, &Ruling { reason: &ask.reason, ..ruling }, denial)
            }
            Found::Nothing if request.held.is_some() => {
                let reason =
                    "the approval ended before it was used; send the call again to ask anew";
                let denial = Denial::new(Code::ApprovalExpired, &ask.rule, reason);
                self.deny(request, ruling, "denied", denial)
            }
            Found::Nothing => {
                let Facts { grant, parked_bytes, .. } = *request.facts;
                let approvals = &self.core.state.approvals;
                if let Some(wait_us) = approvals.crowded(grant, self.tick) {
                    return self.deny(request, ruling, "limited", crowded(ask, wait_us));
                }
                if let Some(full) = approvals.no_room(grant, parked_bytes, self.tick) {
                    return self.deny(request, ruling, "limited", no_room(ask, &full));
                }
                self.ask_anew(request, ask, [&binding, &tool_binding])
            }
        }
    }

    /// Parks the call: a new approval, bound to exactly this.
    fn ask_anew(
        &mut self,
        request: &Request<'_>,
        ask: &Ask,
        [binding, tool_binding]: [&str; 2],
    ) -> Result<Judged, LedgerError> {
        // The number of the row is part of the approval's name, so nothing may come between.
        self.core.write_owed(self.now, self.tick)?;
        self.core.journal.begin();
        let seq = self.core.journal.next_seq();
        let id = approvals::id_of(seq, &self.core.journal.last_hash());
        let timeout_us = ask.timeout_seconds.saturating_mul(1_000_000);
        let expires = self.tick.saturating_add(timeout_us);
        let ruling = Ruling {
            rule: &ask.rule,
            reason: &ask.reason,
            asked: Some(Asked {
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
        let draws = draws(&state.counters, key_text, holds, request.facts);
        let taken = Counters::group(&draws);
        if let Err(over) = self.core.state.counters.check(&draws, &taken, self.tick) {
            let denial = match holds.get(over.draw) {
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

    /// One row: the decision about a request, or how a held one went on.
    fn write(&mut self, request: &Request<'_>, ruling: &Ruling<'_>) -> Result<u64, LedgerError> {
        self.append(|stamp, out| match request.held {
            Some(of) => rows::resolved(stamp, of, ruling, request.facts.policy, out),
            None => rows::decision(stamp, ruling, request.facts, out),
        })
    }
}

/// Which counter each limit draws on.
pub(crate) fn draws(
    counters: &Counters,
    key_text: &mut String,
    holds: &[Hold],
    facts: &Facts<'_>,
) -> Vec<Draw> {
    let draws = holds.iter().map(|hold| {
        write_key(hold, facts, facts.whose(), key_text);
        let (key, was) = match counters.known(key_text) {
            Some(key) => (key, None),
            None => (counters.key(key_text), counted_by_label(counters, key_text, hold, facts)),
        };
        Draw {
            key,
            was,
            window_us: hold.window_ms.saturating_mul(1_000),
            max: hold.max.units(),
            amount: hold.amount.units(),
        }
    });
    draws.collect()
}

/// The counter of a grant as versions called it that knew grants by their label only, where a log still
/// has it.
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
    // A counter that is named after its place in a policy is that server's own: two policies may well
    // have a limit at the same place. A counter with a name is shared by all who say the name.
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
        // All sessions of a grant share one allowance: an agent could open another one for more.
        Scope::Session => Key::write(Scope::Session, grant, counter, out),
        Scope::Server => Key::write(Scope::Server, facts.server, counter, out),
        Scope::Everyone => Key::write(Scope::Everyone, "", counter, out),
    }
}

fn limited(hold: &Hold, over: Over) -> Denial {
    let Hold { max, amount, .. } = hold;
    let (retry_after_seconds, default) = match over.wait {
        Wait::Us(us) => {
            let seconds = us.div_ceil(1_000_000).max(1);
            let whose = whose(hold.scope);
            let window = window(hold.window_ms);
            let words = format!("at most {max} {window} {whose}; try again in {seconds} s");
            (Some(seconds), words)
        }
        Wait::Never => {
            (None, format!("{} is more than the limit of {max} allows at all", Shown(*amount)))
        }
    };
    let reason = hold.on_deny.as_deref().map_or(default, str::to_owned);
    Denial { retry_after_seconds, ..Denial::new(Code::RateLimited, &*hold.rule, reason) }
}

/// An amount in words: the amount itself is an argument, which is not repeated.
struct Shown(Amount);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0 == Amount::ONE { "one call" } else { "the amount of this call" })
    }
}

fn whose(scope: Scope) -> &'static str {
    match scope {
        Scope::Grant | Scope::Session => "for this grant",
        Scope::Server => "on this server",
        Scope::Everyone => "in all",
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

/// The call waits: who decides, and how long they have. No command that approves is named, because this
/// is what the agent reads.
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
        "the owner said no".to_owned()
    } else {
        approval.words.clone()
    };
    Denial {
        approval_id: Some(approval.id.clone()),
        ..Denial::new(Code::ApprovalDenied, &ask.rule, reason)
    }
}

fn crowded(ask: &Ask, wait_us: u64) -> Denial {
    let reason = format!(
        "{} calls of this grant already wait for the owner; try again when some are decided",
        approvals::PENDING_PER_GRANT_MAX
    );
    Denial {
        retry_after_seconds: Some(wait_us.div_ceil(1_000_000).max(1)),
        ..Denial::new(Code::RateLimited, &ask.rule, reason)
    }
}

fn no_room(ask: &Ask, full: &NoRoom) -> Denial {
    let NoRoom { whose, bytes_max, wait_us } = full;
    let mib = bytes_max >> 20;
    let reason = match wait_us {
        Some(_) => format!(
            "this call cannot wait for the owner: calls {whose} that wait may hold {mib} MiB together; try again when some are decided, or send less"
        ),
        None => format!(
            "this call cannot wait for the owner: calls {whose} that wait may hold {mib} MiB together, and it alone is larger; send less"
        ),
    };
    Denial {
        retry_after_seconds: wait_us.map(|wait_us| wait_us.div_ceil(1_000_000).max(1)),
        ..Denial::new(Code::RateLimited, &ask.rule, reason)
    }
}
