//! `policy explain`: evaluates one call as the gate would and shows the steps. Exits with yes when the
//! call would go through at once, no when it would be denied, hidden or parked.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use policy::json::{Bounds, Doc};
use policy::{
    Call, Caller, Decision, Definition, Denial, Policy, Step, Subject, ToolFacts, Verdict,
};
use serde_json::{Value, json};

use crate::context::{Context, owners_zone, read_text};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table, visible};
use crate::policy_file::{PolicySource, unusable};

#[derive(Args)]
#[command(override_usage = "tollgate policy explain FILE TOOL [--args JSON]\n       \
                            tollgate policy explain --grant LABEL --server SERVER TOOL [--args JSON]")]
pub(crate) struct ExplainArgs {
    /// The policy file (not with --grant), and the tool to call
    #[arg(value_name = "FILE TOOL", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Use the policy of this grant instead of a file
    #[arg(long, value_name = "LABEL", requires = "server")]
    grant: Option<String>,
    /// The server of that grant
    #[arg(long, value_name = "SERVER", requires = "grant")]
    server: Option<String>,
    /// The arguments as JSON; `@FILE` reads a file
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// What is called: tool, resource, prompt, skill or method
    #[arg(
        long = "as",
        value_enum,
        value_name = "KIND",
        default_value_t,
        hide_possible_values = true
    )]
    kind: SubjectKind,
    /// Who calls: `caller.grant`
    #[arg(long, value_name = "LABEL")]
    caller: Option<String>,
    /// `caller.session`
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// `caller.client`
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// When it is called, such as 2026-11-15T22:30 [default: now]
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// `tool.category`
    #[arg(long)]
    category: Option<String>,
    /// `tool.risk`
    #[arg(long)]
    risk: Option<String>,
    /// State of the tool's definition: unchanged, changed, new or conflict
    #[arg(long, value_enum, value_name = "STATE", default_value_t, hide_possible_values = true)]
    definition: DefinitionArg,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum SubjectKind {
    #[default]
    Tool,
    Resource,
    Prompt,
    Skill,
    Method,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum DefinitionArg {
    #[default]
    Unchanged,
    Changed,
    New,
    Conflict,
}

pub(super) fn run(args: &ExplainArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (policy, name) = policy_and_name(args, context, out)?;
    let text = arguments(args.args.as_deref())?;
    let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).map_err(|refusal| {
        anyhow!(
            "the gate would refuse these arguments before any rule: {} (line {}, column {})",
            refusal.message,
            refusal.line,
            refusal.column
        )
    })?;
    if doc.root().kind() != policy::json::Kind::Object {
        bail!("the gate would refuse these arguments before any rule: they are not an object");
    }
    let now_us = context.clock.now().wall_us;
    let zone = owners_zone(context, out);
    let read = |time: &str| moment::parse_moment_in(&zone, time, now_us);
    let at_us = args.time.as_deref().map_or(Ok(now_us), read)?;
    let call = Call {
        subject: subject(args.kind, &name),
        args: Some(doc.root()),
        params: None,
        caller: Caller {
            grant: args.caller.as_deref().or(args.grant.as_deref()).unwrap_or("unknown"),
            session: args.session.as_deref(),
            client: args.client.as_deref(),
        },
        tool: ToolFacts {
            server: args.server.as_deref(),
            category: args.category.as_deref(),
            risk: args.risk.as_deref(),
            definition: definition(args),
            aggregates: args
                .server
                .as_deref()
                .is_some_and(|own| connectors::aggregates(own, &name)),
            aggregate_days_of_grant: None,
        },
        time: dashboard::policy_time(at_us, &zone)
            .ok_or_else(|| anyhow!("the time is out of range"))?,
    };
    let (verdict, steps) = policy.explain(&call);
    if out.wants_json() {
        out.json(&verdict_json(&verdict, &steps))?;
    } else {
        show(&verdict, &steps, out)?;
    }
    Ok(Ending::of(matches!(verdict.decision(), Decision::Allow)))
}

fn policy_and_name(args: &ExplainArgs, context: &Context, out: &Out) -> Result<(Policy, String)> {
    match (args.grant.as_deref(), args.server.as_deref(), args.what.as_slice()) {
        (Some(grant), Some(server), [name]) => {
            let stores = context.open()?;
            let grant = stores.grant(grant)?;
            let access = grant.access(server).ok_or_else(|| {
                anyhow!(
                    "grant `{0}` has no access to `{server}`\nhint: `tollgate grant show {0}`",
                    grant.label
                )
            })?;
            let text = match &access.policy {
                Some(policy) => Some(stores.policy(policy)?),
                None => stores.own_policy(&grant, server)?,
            };
            let text = text.ok_or_else(|| {
                anyhow!(
                    "grant `{0}` has no policy on `{server}`, so every call is denied\nhint: `tollgate grant policy {0} {server} POLICY`",
                    grant.label
                )
            })?;
            let policy = Policy::compile(&text.source, text.format)
                .with_context(|| format!("policy `{}` does not load", text.label()))?;
            Ok((policy, name.clone()))
        }
        (None, None, [file, name]) => {
            let source = PolicySource::read(Path::new(file))?;
            let policy = Policy::compile(&source.text, source.format).map_err(|error| {
                let message = format!("`{}` does not load", source.name);
                unusable(&error.problems, &source, message, out)
            })?;
            Ok((policy, name.clone()))
        }
        _ => bail!(
            "name a policy and a tool\nhint: `tollgate policy explain FILE TOOL`, or `--grant LABEL --server SERVER TOOL`"
        ),
    }
}

fn arguments(text: Option<&str>) -> Result<String> {
    match text {
        None => Ok("{}".to_owned()),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => {
                read_text(Path::new(file)).with_context(|| format!("cannot read `{file}`"))
            }
            None => Ok(text.to_owned()),
        },
    }
}

fn subject(kind: SubjectKind, name: &str) -> Subject<'_> {
    match kind {
        SubjectKind::Tool => Subject::Tool(name),
        SubjectKind::Resource => Subject::Resource(name),
        SubjectKind::Prompt => Subject::Prompt(name),
        SubjectKind::Skill => Subject::Skill(name),
        SubjectKind::Method => Subject::Method(name),
    }
}

fn definition(args: &ExplainArgs) -> Definition {
    match (args.kind, args.definition) {
        (SubjectKind::Tool | SubjectKind::Skill, DefinitionArg::Unchanged) => Definition::Unchanged,
        (SubjectKind::Tool | SubjectKind::Skill, DefinitionArg::Changed) => Definition::Changed,
        (SubjectKind::Tool | SubjectKind::Skill, DefinitionArg::New) => Definition::New,
        (SubjectKind::Tool | SubjectKind::Skill, DefinitionArg::Conflict) => Definition::Conflict,
        _ => Definition::Unknown,
    }
}

fn show(verdict: &Verdict, steps: &[Step], out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["rule", "checked", "finding"]);
    for step in steps {
        let pointer = if step.pointer.is_empty() { "/" } else { &step.pointer };
        table.row([pointer.to_owned(), step.looked_at.clone(), step.finding.to_string()]);
    }
    if !steps.is_empty() {
        out.table(&table)?;
        out.line("")?;
    }
    let paint = out.paint();
    let word = match verdict.decision() {
        Decision::Allow => paint.good("allow"),
        Decision::Ask(_) => paint.careful("ask a human"),
        Decision::Deny(_) => paint.bad("deny"),
        Decision::Hidden(_) => paint.bad("hide"),
    };
    out.line(format_args!("{word} by {}", visible(verdict.rule())))?;
    match verdict.decision() {
        Decision::Allow => {}
        Decision::Ask(ask) => {
            let span = moment::span(ask.timeout_seconds);
            out.line(format_args!("  reason: {}", visible(&ask.reason)))?;
            out.line(format_args!("  a human has {span} to answer"))?;
        }
        Decision::Deny(denial) => show_denial(denial, out)?,
        Decision::Hidden(hidden) => show_denial(hidden.denial(), out)?,
    }
    for hold in verdict.holds() {
        let span = moment::span(hold.window_ms / 1000);
        out.line(format_args!(
            "  takes {} of {} in {span} from counter `{}` of the {} ({})",
            hold.amount,
            hold.max,
            visible(&hold.counter),
            hold.scope.as_str(),
            visible(&hold.rule),
        ))?;
    }
    if let Some(warning) = verdict.warning() {
        out.line(format_args!("  warning: {}", visible(warning)))?;
    }
    Ok(())
}

fn show_denial(denial: &Denial, out: &mut Out) -> Result<()> {
    out.line(format_args!("  code: {}", denial.code))?;
    out.line(format_args!("  reason: {}", visible(&denial.reason)))
}

fn verdict_json(verdict: &Verdict, steps: &[Step]) -> Value {
    let (code, reason, timeout_seconds) = match verdict.decision() {
        Decision::Allow => (None, None, None),
        Decision::Ask(ask) => (None, Some(&ask.reason), Some(ask.timeout_seconds)),
        Decision::Deny(denial) => (Some(denial.code.as_str()), Some(&denial.reason), None),
        Decision::Hidden(hidden) => {
            (Some(hidden.denial().code.as_str()), Some(&hidden.denial().reason), None)
        }
    };
    let holds: Vec<Value> = verdict
        .holds()
        .iter()
        .map(|hold| {
            json!({
                "counter": hold.counter.as_ref(),
                "scope": hold.scope.as_str(),
                "window_ms": hold.window_ms,
                "max": hold.max.to_string(),
                "amount": hold.amount.to_string(),
                "rule": hold.rule.as_ref(),
            })
        })
        .collect();
    let steps: Vec<Value> = steps
        .iter()
        .map(|step| {
            json!({ "rule": step.pointer, "looked_at": step.looked_at, "finding": step.finding.as_str() })
        })
        .collect();
    json!({
        "decision": verdict.decision().as_str(),
        "rule": verdict.rule(),
        "code": code,
        "reason": reason,
        "timeout_seconds": timeout_seconds,
        "warning": verdict.warning(),
        "holds": holds,
        "steps": steps,
    })
}
