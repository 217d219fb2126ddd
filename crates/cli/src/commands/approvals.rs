//! `tollgate approvals`: calls that wait for a human. Shows the owner the grant, the exact call and the
//! reason, and records the decision.

use std::io::{self, IsTerminal as _};

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use dashboard::pretty;
use serde_json::{Value, json};
use store::approval::{self, ApprovalState, ParkedParams, is_standing, seconds_left};
use store::ledger::{Answer, Approval};
use store::tool_class;

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table, visible, visible_lines};

mod watch;

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the calls that wait, and standing approvals
    List(ListArgs),
    /// Show one call with its exact arguments
    Show(IdArgs),
    /// Follow the calls that wait, and decide them one by one
    Watch(watch::WatchArgs),
    /// Let a call through: once, or this exact call for a while
    Approve(ApproveArgs),
    /// Refuse a call; the agent is told why
    Deny(DenyArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Also those that were decided or expired within the last hour
    #[arg(long)]
    all: bool,
}

#[derive(Args)]
pub(crate) struct IdArgs {
    /// The approval's id
    id: String,
}

#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// The approval's id
    id: String,
    /// Let this exact call through repeatedly for this long, such as 10m
    #[arg(long = "for", value_name = "SPAN")]
    span: Option<String>,
    /// With `--for`: let this tool of this server through with any arguments, not only these
    #[arg(long, requires = "span")]
    any_arguments: bool,
    /// Approve without a terminal
    #[arg(long, short)]
    yes: bool,
}

#[derive(Args)]
pub(crate) struct DenyArgs {
    /// The approval's id
    id: String,
    /// What the agent is told
    #[arg(long, value_name = "TEXT")]
    because: String,
}

impl ApprovalsCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        let stores = context.open()?;
        match self {
            ApprovalsCommand::List(args) => list(args.all, &stores, out),
            ApprovalsCommand::Show(args) => show(&args.id, &stores, out),
            ApprovalsCommand::Approve(args) => {
                check_confirmed(args.yes)?;
                let answer = approval_of(args.span.as_deref(), args.any_arguments)?;
                decide(&args.id, &answer, &stores, out)
            }
            ApprovalsCommand::Watch(args) => watch::run(&args, &stores, out),
            ApprovalsCommand::Deny(args) => {
                decide(&args.id, &Answer::Deny { words: args.because }, &stores, out)
            }
        }
    }
}

/// Approving is for a human: a program without a terminal must pass `--yes`.
fn check_confirmed(yes: bool) -> Result<()> {
    if yes || io::stdin().is_terminal() {
        return Ok(());
    }
    bail!("an approval is for a human to give; no terminal to ask on, so add `--yes`")
}

/// Approves once, or for a while: this exact call, or its tool with any arguments.
fn approval_of(span: Option<&str>, any_arguments: bool) -> Result<Answer> {
    let Some(span) = span else { return Ok(Answer::ApproveOnce) };
    let seconds = moment::parse_seconds(span)?;
    Ok(if any_arguments {
        Answer::ApproveAnyFor { seconds }
    } else {
        Answer::ApproveFor { seconds }
    })
}

/// Keeps the params of a call that is about to be approved: the next call of the tool is compared with it.
fn keep_for_comparison(id: &str, answer: &Answer, stores: &Stores) -> Result<()> {
    if matches!(answer, Answer::Deny { .. }) {
        return Ok(());
    }
    let approvals = stores.ledger()?.approvals()?;
    if let Some(approval) = approvals.iter().find(|approval| approval.id == id) {
        approval::keep_for_comparison(approval, &stores.registry, stores.now_us())?;
    }
    Ok(())
}

fn list(all: bool, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let time = ledger_time(stores)?;
    let mut approvals = stores.ledger()?.approvals()?;
    approvals.retain(|a| all || state(a, time) == "waiting" || is_standing(a, time));
    // Waiting calls first: the owner has to act on them.
    approvals.sort_by_key(|approval| is_standing(approval, time));
    if out.wants_json() {
        let rows: Vec<Value> = approvals.iter().map(|a| approval_json(a, time, stores)).collect();
        out.json(&rows)?;
        return Ok(Ending::Yes);
    }
    if all && !approvals.is_empty() {
        table(&approvals, time, out)?;
        return Ok(Ending::Yes);
    }
    let first_standing = approvals.partition_point(|approval| !is_standing(approval, time));
    let (waiting, standing) = approvals.split_at(first_standing);
    if waiting.is_empty() {
        out.say("no approvals pending");
    } else {
        table(waiting, time, out)?;
    }
    if !standing.is_empty() {
        let gap = if waiting.is_empty() { "" } else { "\n" };
        out.line(format_args!("{gap}standing approvals (their calls do not wait)"))?;
        table(standing, time, out)?;
    }
    Ok(Ending::Yes)
}

fn table(approvals: &[Approval], time: u64, out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["id", "who", "server", "call", "state", "time left", "why"]);
    for approval in approvals {
        table.row([
            approval.id.clone(),
            approval.grant.clone(),
            approval.server.clone(),
            approval.subject.clone(),
            state_text(approval, time),
            time_left(approval, time),
            approval.reason.clone(),
        ]);
    }
    out.table(&table)
}

fn show(id: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let time = ledger_time(stores)?;
    let approval = find(id, stores)?;
    if out.wants_json() {
        out.json(&approval_json(&approval, time, stores))?;
        return Ok(Ending::Yes);
    }
    describe(&approval, time, stores, out)?;
    if state(&approval, time) == "waiting" {
        out.say(format_args!(
            "answer with `tollgate approvals approve {0}`, or `tollgate approvals deny {0} --because TEXT`",
            approval.id
        ));
    }
    Ok(Ending::Yes)
}

/// Everything the owner needs to decide about a call.
fn describe(approval: &Approval, time: u64, stores: &Stores, out: &mut Out) -> Result<()> {
    let risk = tool_class::risk(&approval.server, &approval.subject, &stores.registry);
    let lines = [
        ("id", approval.id.clone()),
        ("who", approval.grant.clone()),
        ("server", approval.server.clone()),
        ("method", approval.method.clone()),
        (approval.subject_kind.as_str(), approval.subject.clone()),
        ("risk", risk.map_or_else(|| "not known".to_owned(), |risk| out.paint().risk(risk))),
        ("asked", moment::local(approval.asked_us)),
        ("state", state_text(approval, time)),
        ("time left", time_left(approval, time)),
        ("policy", format!("{} version {}", approval.policy, approval.policy_version)),
        ("matched", approval.rule.clone()),
        ("why", approval.reason.clone()),
        ("digest", approval.digest.clone()),
        ("void", void(approval, stores).filter(|_| is_open(approval, time)).unwrap_or_default()),
    ];
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        // It holds our own colour codes and no foreign text.
        let value = if *name == "risk" { value.clone() } else { visible(value) };
        out.line(format_args!("{name:<10} {value}"))?;
    }
    let parked = ParkedParams::of(approval, &stores.registry)?;
    out.line("arguments")?;
    match parked.as_ref().map(ParkedParams::arguments) {
        Some(text) => indented(&text, out)?,
        None => out.line("  (no longer stored)")?,
    }
    if let Some(others) = parked.as_ref().and_then(ParkedParams::others) {
        out.line("other params")?;
        indented(&others, out)?;
    }
    Ok(())
}

fn decide(id: &str, answer: &Answer, stores: &Stores, out: &mut Out) -> Result<Ending> {
    keep_for_comparison(id, answer, stores)?;
    let decided = stores.ledger()?.decide_approval(id, answer, stores.actor())?;
    if out.wants_json() {
        out.json(&approval_json(&decided, ledger_time(stores)?, stores))?;
        return Ok(Ending::Yes);
    }
    let is_void = warn_if_void(&decided, answer, stores, out);
    out.line(decision_text(&decided, answer))?;
    if matches!(answer, Answer::ApproveOnce) && !is_void {
        out.say("it runs now if its client still waits, or when the agent sends it again");
    }
    Ok(Ending::Yes)
}

/// Whether the approval matches no call any more.
fn warn_if_void(decided: &Approval, answer: &Answer, stores: &Stores, out: &mut Out) -> bool {
    let void = void(decided, stores).filter(|_| !matches!(answer, Answer::Deny { .. }));
    let Some(why) = void else { return false };
    out.warn(visible(&format!(
        "{why}, so this approval matches no call; the agent has to send the call again for a new approval"
    )));
    true
}

fn decision_text(decided: &Approval, answer: &Answer) -> String {
    let what =
        format!("{} on `{}` for `{}`", visible(&decided.subject), decided.server, decided.grant);
    match answer {
        Answer::ApproveOnce => format!("approved once: {what}"),
        Answer::ApproveFor { seconds } => {
            format!("approved for {}: {what}, with these arguments", moment::span(*seconds))
        }
        Answer::ApproveAnyFor { seconds } => {
            format!("approved for {}: {what}, with any arguments", moment::span(*seconds))
        }
        Answer::Deny { .. } => format!("denied: {what}"),
    }
}

/// Why an approval can no longer be used, if that is known.
fn void(approval: &Approval, stores: &Stores) -> Option<String> {
    let parked = ParkedParams::of(approval, &stores.registry).ok().flatten();
    let effective = stores.effective().ok()?;
    approval::void(approval, parked.as_ref(), &effective, stores.now_us())
}

fn find(id: &str, stores: &Stores) -> Result<Approval> {
    let approvals = stores.ledger()?.approvals()?;
    approvals.into_iter().find(|approval| approval.id == id).ok_or_else(|| {
        anyhow!(
            "there is no approval `{id}`\nhint: `tollgate approvals list` shows the pending ones"
        )
    })
}

fn ledger_time(stores: &Stores) -> Result<u64> {
    Ok(stores.ledger()?.time(stores.clock().now()))
}

fn state(approval: &Approval, time: u64) -> &'static str {
    ApprovalState::of(approval, time).as_str()
}

/// The state, and whether an approval covers any arguments.
fn state_text(approval: &Approval, time: u64) -> String {
    let state = state(approval, time);
    if approval.any_arguments && state == "approved" {
        return "approved, any arguments".to_owned();
    }
    state.to_owned()
}

fn is_open(approval: &Approval, time: u64) -> bool {
    ApprovalState::of(approval, time).is_open()
}

fn time_left(approval: &Approval, time: u64) -> String {
    seconds_left(approval, time).map(moment::span).unwrap_or_default()
}

fn indented(text: &str, out: &mut Out) -> Result<()> {
    for line in visible_lines(&pretty(text)) {
        out.line(format_args!("  {line}"))?;
    }
    Ok(())
}

fn approval_json(approval: &Approval, time: u64, stores: &Stores) -> Value {
    let parked = ParkedParams::of(approval, &stores.registry).ok().flatten();
    json!({
        "id": approval.id,
        "grant": approval.grant,
        "server": approval.server,
        "method": approval.method,
        "kind": approval.subject_kind,
        "subject": approval.subject,
        "risk": tool_class::risk(&approval.server, &approval.subject, &stores.registry),
        "state": state(approval, time),
        "any_arguments": approval.any_arguments,
        "asked_at": moment::utc(approval.asked_us),
        "seconds_left": seconds_left(approval, time),
        "policy": approval.policy,
        "policy_version": approval.policy_version,
        "rule": approval.rule,
        "reason": approval.reason,
        "digest": approval.digest,
        // The text, not a JSON value: a program must see the exact spelling that was judged.
        "arguments": parked.as_ref().map(ParkedParams::arguments),
        // All that the approval is bound to; null for one that an older version parked.
        "params": parked.as_ref().and_then(ParkedParams::all),
        "by": approval.by,
        "words": approval.words,
        "void": void(approval, stores).filter(|_| is_open(approval, time)),
    })
}
