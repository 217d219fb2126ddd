//! `tollgate approvals`: calls that wait for a human. The owner sees who asks, for what exactly, and
//! why, and answers with one word.

use std::io::{self, IsTerminal as _};

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::ledger::{Answer, Approval, ApprovalStatus};
use store::registry::{GrantState, Server};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table, visible, visible_lines};

mod parked;
mod pretty;
mod watch;

use parked::{Parked, is_older};
use pretty::pretty;

const COMPLETION: &str = "completion/complete";

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the calls that wait
    List(ListArgs),
    /// Show one call with its exact arguments
    Show(IdArgs),
    /// Show the calls that wait as they come, and decide them one by one
    Watch(watch::WatchArgs),
    /// Let a call through: once, or this exact call for a while
    Approve(ApproveArgs),
    /// Refuse a call; the agent is told why
    Deny(DenyArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Also those that were decided or ended within the last hour
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
    /// Let this exact call through as often as it comes, for so long, such as 10m
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
                check_agreed(args.yes)?;
                let answer = yes(args.span.as_deref(), args.any_arguments)?;
                decide(&args.id, &answer, &stores, out)
            }
            ApprovalsCommand::Watch(args) => watch::run(&args, &stores, out),
            ApprovalsCommand::Deny(args) => {
                decide(&args.id, &Answer::Deny { words: args.because }, &stores, out)
            }
        }
    }
}

/// A yes is for a human to say: a program that runs this without a terminal must say that it means it.
fn check_agreed(yes: bool) -> Result<()> {
    if yes || io::stdin().is_terminal() {
        return Ok(());
    }
    bail!("an approval is for a human to give; no terminal to ask on, so add `--yes`")
}

/// A yes: once, or for a while to this exact call or to any arguments of its tool.
fn yes(span: Option<&str>, any_arguments: bool) -> Result<Answer> {
    let Some(span) = span else { return Ok(Answer::ApproveOnce) };
    let seconds = moment::parse_seconds(span)?;
    Ok(if any_arguments {
        Answer::ApproveAnyFor { seconds }
    } else {
        Answer::ApproveFor { seconds }
    })
}

fn list(all: bool, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let time = ledger_time(stores)?;
    let mut approvals = stores.ledger()?.approvals()?;
    approvals.retain(|approval| all || state(approval, time) == "waiting");
    if out.wants_json() {
        let rows: Vec<Value> = approvals.iter().map(|a| approval_json(a, time, stores)).collect();
        out.json(&rows)?;
        return Ok(Ending::Yes);
    }
    if approvals.is_empty() {
        out.say("no approvals pending");
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["id", "who", "server", "call", "state", "time left", "why"]);
    for approval in &approvals {
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
    out.table(&table)?;
    Ok(Ending::Yes)
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

/// Everything there is to know of a call before one decides.
fn describe(approval: &Approval, time: u64, stores: &Stores, out: &mut Out) -> Result<()> {
    let risk = crate::server::risk(&approval.server, &approval.subject, stores);
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
        // Our own colour, and no stranger's text.
        let value = if *name == "risk" { value.clone() } else { visible(value) };
        out.line(format_args!("{name:<10} {value}"))?;
    }
    let parked = Parked::of(approval, stores)?;
    out.line("arguments")?;
    match parked.as_ref().map(Parked::arguments) {
        Some(text) => indented(&text, out)?,
        None => out.line("  (not kept any more)")?,
    }
    if let Some(others) = parked.as_ref().and_then(Parked::others) {
        out.line("other params")?;
        indented(&others, out)?;
    }
    Ok(())
}

fn decide(id: &str, answer: &Answer, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let decided = stores.ledger()?.decide_approval(id, answer, stores.actor())?;
    if out.wants_json() {
        out.json(&approval_json(&decided, ledger_time(stores)?, stores))?;
        return Ok(Ending::Yes);
    }
    let void = void(&decided, stores).filter(|_| !matches!(answer, Answer::Deny { .. }));
    if let Some(why) = void {
        out.warn(visible(&format!(
            "{why}, so this fits no call any more; the agent has to send it again, for you to approve that"
        )));
    }
    let what =
        format!("{} on `{}` for `{}`", visible(&decided.subject), decided.server, decided.grant);
    match answer {
        Answer::ApproveOnce => out.line(format_args!("approved once: {what}"))?,
        Answer::ApproveFor { seconds } => {
            out.line(format_args!(
                "approved for {}: {what}, with these arguments",
                moment::span(*seconds)
            ))?;
        }
        Answer::ApproveAnyFor { seconds } => out.line(format_args!(
            "approved for {}: {what}, with any arguments",
            moment::span(*seconds)
        ))?,
        Answer::Deny { .. } => out.line(format_args!("denied: {what}"))?,
    }
    Ok(Ending::Yes)
}

/// Why an approval can no longer be used, where that is known. A call is judged by what is in force when
/// it comes, so a yes would let nothing through.
fn void(approval: &Approval, stores: &Stores) -> Option<String> {
    let Approval { grant: label, server, policy, policy_version, .. } = approval;
    if approval.method == COMPLETION
        && Parked::of(approval, stores).is_ok_and(|parked| is_older(parked.as_ref()))
    {
        return Some("an older version asked this without binding what is completed".to_owned());
    }
    let Ok(grant) = stores.grant(label) else {
        return Some(format!("grant `{label}` is gone"));
    };
    if grant.state(stores.clock().now().wall_us) != GrantState::Active {
        return Some(format!("grant `{label}` has ended"));
    }
    let holding = grant.holding(server);
    let Some(holding) = holding.filter(|_| stores.servers().is_ok_and(|all| holds(&all, server)))
    else {
        return Some(format!("grant `{label}` no longer holds server `{server}`"));
    };
    let named = holding.policy.as_ref()?;
    let now = stores.policy(named).ok()?;
    (named != policy || now.number() != *policy_version)
        .then(|| format!("`{label}` is judged by `{}` on `{server}` now", now.label()))
}

fn holds(servers: &[Server], name: &str) -> bool {
    servers.iter().any(|server| server.name == name)
}

fn find(id: &str, stores: &Stores) -> Result<Approval> {
    let approvals = stores.ledger()?.approvals()?;
    approvals.into_iter().find(|approval| approval.id == id).ok_or_else(|| {
        anyhow!(
            "there is no approval `{id}`\nhint: `tollgate approvals list` shows those that wait"
        )
    })
}

fn ledger_time(stores: &Stores) -> Result<u64> {
    Ok(stores.ledger()?.time(stores.clock().now()))
}

fn state(approval: &Approval, time: u64) -> &'static str {
    match approval.status {
        ApprovalStatus::Denied => "denied",
        ApprovalStatus::Used(_) => "used",
        _ if approval.is_expired(time) => "ended",
        ApprovalStatus::Pending => "waiting",
        ApprovalStatus::ApprovedOnce | ApprovalStatus::ApprovedUntil(_) => "approved",
    }
}

/// The state, and that a yes is for more than the call that asked.
fn state_text(approval: &Approval, time: u64) -> String {
    let state = state(approval, time);
    if approval.any_arguments && state == "approved" {
        return "approved, any arguments".to_owned();
    }
    state.to_owned()
}

fn is_open(approval: &Approval, time: u64) -> bool {
    matches!(state(approval, time), "waiting" | "approved")
}

fn seconds_left(approval: &Approval, time: u64) -> Option<u64> {
    let end = match approval.status {
        ApprovalStatus::Denied | ApprovalStatus::Used(_) => return None,
        ApprovalStatus::ApprovedUntil(until) => until,
        ApprovalStatus::Pending | ApprovalStatus::ApprovedOnce => approval.expires_us,
    };
    end.checked_sub(time).map(|left| left / 1_000_000)
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
    let parked = Parked::of(approval, stores).ok().flatten();
    json!({
        "id": approval.id,
        "grant": approval.grant,
        "server": approval.server,
        "method": approval.method,
        "kind": approval.subject_kind,
        "subject": approval.subject,
        "risk": crate::server::risk(&approval.server, &approval.subject, stores),
        "state": state(approval, time),
        "any_arguments": approval.any_arguments,
        "asked_at": moment::utc(approval.asked_us),
        "seconds_left": seconds_left(approval, time),
        "policy": approval.policy,
        "policy_version": approval.policy_version,
        "rule": approval.rule,
        "reason": approval.reason,
        "digest": approval.digest,
        // The text itself, not a value: a program must see the spelling that was judged.
        "arguments": parked.as_ref().map(Parked::arguments),
        // All that the approval is bound to; nothing for one that an older version asked.
        "params": parked.as_ref().and_then(Parked::params),
        "by": approval.by,
        "words": approval.words,
        "void": void(approval, stores).filter(|_| is_open(approval, time)),
    })
}
