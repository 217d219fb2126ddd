//! Calls that wait for a human: the queue, one call with everything that is bound, and the answer.

use std::time::Duration;

use askama::Template;
use serde::Serialize;
use store::effective::Effective;
use store::ledger::{Answer, Approval};

use crate::access::sees_arguments;
use crate::app::{App, actor};
use crate::members::{Member, members};
use crate::page::{Chrome, page, segment};
use crate::pretty::pretty;
use crate::problem::Problem;
use crate::request::{Format, Visit};
use crate::response::Response;
use crate::time::{Moment, span};
use store::approval::{
    ApprovalState, ParkedParams, is_standing, keep_for_comparison, last_approved, seconds_left,
    void,
};
use store::tool_class;

/// The longest text that an agent is given with a refusal.
const REASON_BYTES_MAX: usize = 1_000;
/// A call that waits is recorded first and its params a moment later. A page waits so long for them.
const PARAMS_WAIT_STEPS: u32 = 20;
const PARAMS_WAIT_STEP: Duration = Duration::from_millis(25);
const NEW_US_MAX: i64 = 2_000_000;
/// The times that an approval can be given for: seconds and label.
const SPANS: [(u64, &str); 3] = [(600, "10 minutes"), (3_600, "1 hour"), (28_800, "8 hours")];

/// One approval, as the queue and its own page show it.
#[derive(Serialize)]
struct ApprovalView {
    id: String,
    /// The row of the log that asked.
    entry: u64,
    grant: String,
    /// The name that the client gave itself.
    client: String,
    server: String,
    method: String,
    kind: String,
    subject: String,
    risk: Option<&'static str>,
    state: ApprovalState,
    any_arguments: bool,
    asked_at: Moment,
    seconds_left: Option<u64>,
    policy: String,
    policy_version: u64,
    rule: String,
    reason: String,
    digest: String,
    /// The text itself, not a value: the spelling was judged. Only for those who may see arguments.
    arguments: Option<String>,
    params: Option<String>,
    /// Every argument on its own, compared with the last approved call of this tool.
    members: Option<Vec<Member>>,
    last_approved_at: Option<Moment>,
    by: String,
    #[serde(rename = "words")]
    message: String,
    void: Option<String>,
    #[serde(skip)]
    other_params: Option<String>,
    /// Whether the params are stored. The approval is recorded first, its params a moment later.
    #[serde(skip)]
    has_params: bool,
    #[serde(skip)]
    path: String,
    #[serde(skip)]
    policy_path: String,
    #[serde(skip)]
    is_standing: bool,
}

impl ApprovalView {
    fn of(app: &App, visit: &Visit, effective: &Effective, approval: &Approval) -> ApprovalView {
        let time = app.ledger_time();
        let state = ApprovalState::of(approval, time);
        let parked = parked_params(app, approval, state);
        let why_void = void(approval, parked.as_ref(), effective, app.now_us());
        let shown = parked.as_ref().filter(|_| sees_arguments(visit.person.role));
        let arguments = shown.map(ParkedParams::arguments);
        let last = last_approved(approval, &app.registry).filter(|_| shown.is_some());
        let before = last.as_ref().map(|(text, _)| text.as_str());
        ApprovalView {
            id: approval.id.clone(),
            entry: approval.seq,
            grant: approval.grant.clone(),
            client: client(app, approval, state),
            server: approval.server.clone(),
            method: approval.method.clone(),
            kind: approval.subject_kind.clone(),
            subject: approval.subject.clone(),
            risk: tool_class::risk(&approval.server, &approval.subject, &app.registry),
            state,
            any_arguments: approval.any_arguments,
            asked_at: Moment::of(approval.asked_us, &app.zone),
            seconds_left: seconds_left(approval, time),
            policy: approval.policy.clone(),
            policy_version: approval.policy_version,
            rule: approval.rule.clone(),
            reason: approval.reason.clone(),
            digest: approval.digest.clone(),
            members: arguments.as_deref().and_then(|text| members(text, before)),
            last_approved_at: last.as_ref().map(|(_, at_us)| Moment::of(*at_us, &app.zone)),
            arguments,
            params: shown.and_then(|parked| parked.all().map(str::to_owned)),
            by: approval.by.clone(),
            message: approval.words.clone(),
            void: why_void.filter(|_| state.is_open()),
            has_params: parked.is_some(),
            other_params: shown.and_then(ParkedParams::others),
            path: format!("/approvals/{}", segment(&approval.id)),
            policy_path: format!(
                "/policies/{}?version={}",
                segment(&approval.policy),
                approval.policy_version
            ),
            is_standing: is_standing(approval, time),
        }
    }

    fn time_left(&self) -> String {
        self.seconds_left.map(span).unwrap_or_default()
    }

    fn is_waiting(&self) -> bool {
        self.state == ApprovalState::Waiting
    }

    /// The members that differ from the last approved call, for the card.
    fn changes(&self) -> Vec<&Member> {
        let members = self.members.iter().flatten();
        members.filter(|member| member.differs()).collect()
    }

    /// The arguments over several lines. A text that is no JSON is shown as it is.
    fn pretty_arguments(&self) -> Option<String> {
        self.arguments.as_deref().map(pretty)
    }

    fn pretty_other_params(&self) -> Option<String> {
        self.other_params.as_deref().map(pretty)
    }
}

/// Who sent the call, from its row. Read only for calls that can still be decided.
fn client(app: &App, approval: &Approval, state: ApprovalState) -> String {
    if !state.is_open() {
        return String::new();
    }
    app.asking_clients.of(approval.seq, || {
        let entry = app.audit().ok()?.entry(approval.seq).ok()?;
        entry.map(|entry| entry.client)
    })
}

/// The params of a call. One that has just begun to wait gets a moment to store them.
fn parked_params(app: &App, approval: &Approval, state: ApprovalState) -> Option<ParkedParams> {
    let is_new = app.now_us().saturating_sub(approval.asked_us) < NEW_US_MAX;
    let steps = if is_new && state == ApprovalState::Waiting { PARAMS_WAIT_STEPS } else { 0 };
    for _ in 0..steps {
        if let Some(parked) = ParkedParams::of(approval, &app.registry).ok().flatten() {
            return Some(parked);
        }
        std::thread::sleep(PARAMS_WAIT_STEP);
    }
    ParkedParams::of(approval, &app.registry).ok().flatten()
}

#[derive(Template, Serialize)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    #[serde(skip)]
    chrome: Chrome,
    waiting: Vec<ApprovalView>,
    standing: Vec<ApprovalView>,
    ended: Vec<ApprovalView>,
}

#[derive(Template, Serialize)]
#[template(path = "approval.html")]
struct ApprovalPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    approval: ApprovalView,
    #[serde(skip)]
    spans: [(u64, &'static str); 3],
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (effective, time) = (app.effective()?, app.ledger_time());
    let (mut waiting, mut standing, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for approval in app.ledger.approvals()?.iter().rev() {
        let view = ApprovalView::of(app, visit, &effective, approval);
        match view.state {
            ApprovalState::Waiting => waiting.push(view),
            _ if is_standing(approval, time) => standing.push(view),
            _ => ended.push(view),
        }
    }
    // Oldest first: a call that comes later must not move the buttons of one that is being read.
    waiting.reverse();
    let chrome = Chrome::new(app, visit, "Approvals");
    page(visit, &ApprovalsPage { chrome, waiting, standing, ended })
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let approval = find(app, visit.name("id"))?;
    one(app, visit, &approval)
}

fn one(app: &App, visit: &Visit, approval: &Approval) -> Result<Response, Problem> {
    let approval = ApprovalView::of(app, visit, &app.effective()?, approval);
    let chrome = Chrome::new(app, visit, format!("{} on {}", approval.subject, approval.server));
    page(visit, &ApprovalPage { chrome, approval, spans: SPANS })
}

fn find(app: &App, id: &str) -> Result<Approval, Problem> {
    let approvals = app.ledger.approvals()?;
    approvals.into_iter().find(|approval| approval.id == id).ok_or_else(|| {
        Problem::not_found(format!(
            "there is no approval `{id}`; ended ones are listed for an hour"
        ))
    })
}

pub(crate) fn approve(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let answer = match visit.field("for") {
        None | Some("once") => Answer::ApproveOnce,
        Some(seconds) => {
            let known = SPANS.iter().find(|(span, _)| span.to_string() == seconds);
            let (seconds, _) = known.ok_or_else(|| {
                Problem::invalid("`for` is `once` or a number of seconds: 600, 3600 or 28800")
            })?;
            Answer::ApproveFor { seconds: *seconds }
        }
    };
    decide(app, visit, &answer)
}

pub(crate) fn deny(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let message = visit.field("because").unwrap_or("the owner denied this call");
    if message.len() > REASON_BYTES_MAX {
        return Err(Problem::invalid(format!(
            "the reason is longer than {REASON_BYTES_MAX} bytes; shorten it"
        )));
    }
    decide(app, visit, &Answer::Deny { words: message.to_owned() })
}

fn decide(app: &App, visit: &Visit, answer: &Answer) -> Result<Response, Problem> {
    let by = actor(&visit.person.name);
    if !matches!(answer, Answer::Deny { .. }) {
        let approval = find(app, visit.name("id"))?;
        if let Err(error) = keep_for_comparison(&approval, &app.registry, app.now_us()) {
            tracing::warn!(%error, "the next call of this tool cannot be compared with this one");
        }
    }
    let decided = app
        .ledger
        .decide_approval(visit.name("id"), answer, &by)
        .map_err(|error| Problem::invalid(error.to_string()))?;
    match visit.format {
        Format::Json => one(app, visit, &decided),
        Format::Html => Ok(Response::see_other("/approvals")),
    }
}
