//! Approvals: list, show, approve, deny.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::approval::{self, ApprovalState, ParkedParams, is_standing, seconds_left};
use store::ledger::{Answer, Approval};
use store::tool_class;

use super::{Operator, Refusal, utc};

/// The longest time that an operator can approve one exact call for.
const SECONDS_MAX: i64 = 3600;
const REASON_BYTES_MAX: usize = 1000;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ApprovalListArgs {
    /// Also those that were decided or ended within the last hour.
    #[serde(default)]
    all: bool,
    /// Only calls of this grant.
    grant: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct IdArgs {
    /// The id of the approval, such as `ap-12-3fa9c0`.
    id: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ApproveArgs {
    /// The id of the approval.
    id: String,
    /// Approves this exact call repeatedly for this long, instead of once.
    #[schemars(range(min = 1, max = 3600))]
    seconds: Option<i64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DenyArgs {
    /// The id of the approval.
    id: String,
    /// The agent gets this text.
    #[schemars(length(min = 1, max = 1000))]
    reason: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ApprovalList {
    approvals: Vec<Summary>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Summary {
    id: String,
    /// The grant whose call waits.
    grant: String,
    server: String,
    method: String,
    /// `tool`, `resource`, `prompt`, `skill` or `method`.
    kind: String,
    subject: String,
    risk: Option<String>,
    /// `waiting`, `approved`, `denied`, `used` or `ended`.
    state: String,
    /// Approved for any arguments of the tool.
    any_arguments: bool,
    asked_at: String,
    seconds_left: Option<u64>,
    policy: String,
    policy_version: u64,
    /// The rule that asked for the approval.
    rule: String,
    reason: String,
    /// Whether this grant may decide it.
    decidable: bool,
    /// Why it may not.
    not_decidable_because: Option<String>,
    decided_by: Option<String>,
    decided_with: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    /// The exact arguments as JSON text; null where they are not stored any more.
    arguments: Option<String>,
    /// Everything that the approval is bound to, as JSON text.
    params: Option<String>,
    digest: String,
    /// Why an approval would let nothing through.
    void: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Decided {
    id: String,
    grant: String,
    server: String,
    subject: String,
    state: String,
    decided_by: String,
    /// Why the approval lets nothing through.
    void: Option<String>,
}

pub(super) fn list(
    operator: &Operator<'_>,
    args: &ApprovalListArgs,
) -> Result<ApprovalList, Refusal> {
    let time = operator.ledger_time();
    let mut approvals = operator.approvals()?;
    approvals.retain(|approval| {
        let is_open = ApprovalState::of(approval, time) == ApprovalState::Waiting
            || is_standing(approval, time);
        let is_of_grant = args.grant.as_ref().is_none_or(|grant| approval.grant == *grant);
        is_of_grant && (args.all || is_open)
    });
    let approvals = approvals.iter().map(|approval| operator.summary(approval, time)).collect();
    Ok(ApprovalList { approvals })
}

pub(super) fn show(operator: &Operator<'_>, args: &IdArgs) -> Result<Detail, Refusal> {
    let time = operator.ledger_time();
    let approval = operator.approval(&args.id)?;
    let parked = operator.parked(&approval);
    let void = operator.void(&approval, parked.as_ref(), time);
    Ok(Detail {
        arguments: parked.as_ref().map(ParkedParams::arguments),
        params: parked.as_ref().and_then(ParkedParams::all).map(str::to_owned),
        digest: approval.digest.clone(),
        void,
        summary: operator.summary(&approval, time),
    })
}

pub(super) fn approve(operator: &Operator<'_>, args: &ApproveArgs) -> Result<Decided, Refusal> {
    let answer = match args.seconds {
        None => Answer::ApproveOnce,
        Some(seconds) => match u64::try_from(seconds) {
            Ok(seconds @ 1..) if seconds <= SECONDS_MAX.unsigned_abs() => {
                Answer::ApproveFor { seconds }
            }
            _ => return Err(Refusal::invalid(format!("`seconds` is from 1 to {SECONDS_MAX}"))),
        },
    };
    operator.decide(&args.id, &answer)
}

pub(super) fn deny(operator: &Operator<'_>, args: &DenyArgs) -> Result<Decided, Refusal> {
    let message = args.reason.trim().to_owned();
    if message.is_empty() || message.len() > REASON_BYTES_MAX {
        return Err(Refusal::invalid(format!(
            "`reason` is a text of 1 to {REASON_BYTES_MAX} bytes"
        )));
    }
    operator.decide(&args.id, &Answer::Deny { words: message })
}

impl Operator<'_> {
    fn ledger_time(&self) -> u64 {
        self.gate.ledger.time(self.gate.clock.now())
    }

    fn approvals(&self) -> Result<Vec<Approval>, Refusal> {
        self.gate.ledger.approvals().map_err(Refusal::unavailable)
    }

    fn approval(&self, id: &str) -> Result<Approval, Refusal> {
        let found = self.approvals()?.into_iter().find(|approval| approval.id == id);
        found.ok_or_else(|| Refusal::not_found("there is no approval with this id"))
    }

    fn parked(&self, approval: &Approval) -> Option<ParkedParams> {
        ParkedParams::of(approval, &self.gate.registry).ok().flatten()
    }

    fn void(
        &self,
        approval: &Approval,
        parked: Option<&ParkedParams>,
        time: u64,
    ) -> Option<String> {
        let is_open = ApprovalState::of(approval, time).is_open();
        approval::void(approval, parked, &self.effective, self.now_us).filter(|_| is_open)
    }

    /// The grant of an approval never changes, so the check before the decision holds.
    fn decide(&self, id: &str, answer: &Answer) -> Result<Decided, Refusal> {
        let approval = self.approval(id)?;
        if let Some(why) = self.may_not_decide_for(&approval.grant) {
            return Err(Refusal::new("not_yours_to_decide", why));
        }
        let decided = self.gate.ledger.decide_approval(id, answer, &self.actor());
        let decided = decided.map_err(|error| {
            // The hint is a command of the owner.
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default().to_owned();
            Refusal::new("not_decided", message)
        })?;
        let time = self.ledger_time();
        let parked = self.parked(&decided);
        Ok(Decided {
            void: self.void(&decided, parked.as_ref(), time),
            state: ApprovalState::of(&decided, time).as_str().to_owned(),
            id: decided.id,
            grant: decided.grant,
            server: decided.server,
            subject: decided.subject,
            decided_by: decided.by,
        })
    }

    fn summary(&self, approval: &Approval, time: u64) -> Summary {
        let state = ApprovalState::of(approval, time);
        let why_not = self.may_not_decide_for(&approval.grant);
        let risk = tool_class::risk(&approval.server, &approval.subject, &self.gate.registry);
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Summary {
            id: approval.id.clone(),
            grant: approval.grant.clone(),
            server: approval.server.clone(),
            method: approval.method.clone(),
            kind: approval.subject_kind.clone(),
            subject: approval.subject.clone(),
            risk: risk.map(str::to_owned),
            state: state.as_str().to_owned(),
            any_arguments: approval.any_arguments,
            asked_at: utc(approval.asked_us),
            seconds_left: seconds_left(approval, time),
            policy: approval.policy.clone(),
            policy_version: approval.policy_version,
            rule: approval.rule.clone(),
            reason: approval.reason.clone(),
            decidable: state.is_open() && why_not.is_none(),
            not_decidable_because: why_not.map(str::to_owned),
            decided_by: some(&approval.by),
            decided_with: some(&approval.words),
        }
    }
}
