//! `policy suggest`: the least policy that would have allowed what a grant did on a server. It is loaded
//! with its own tests before it is shown. Exits with no when the grant did nothing there.

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use dashboard::replay::{LeftOut, Offered, Suggestion, Usage};
use policy::{
    Call, Caller, Format, LocalTime, Policy, PredictedOutcome, Subject, ToolFacts, Weekday,
};
use serde_json::{Value, json};
use store::registry::PolicyText;

use super::recorded::{self, CallFilter};
use crate::context::{Context, Stores, owners_zone};
use crate::failure::Ending;
use crate::output::{Out, count, visible};

#[derive(Args)]
pub(crate) struct SuggestArgs {
    /// The grant whose calls to use
    #[arg(long, value_name = "LABEL")]
    grant: String,
    #[command(flatten)]
    selection: CallFilter,
    /// How to write it: json or yaml
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    format: PolicyFormatArg,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum PolicyFormatArg {
    #[default]
    Json,
    Yaml,
}

pub(super) fn run(args: &SuggestArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let zone = owners_zone(context, out);
    let mut used = Usage::default();
    recorded::each(Some(&args.grant), &args.selection, &zone, &stores, |call| {
        used.add(&call);
        Ok(())
    })?;
    let server = match used.servers().as_slice() {
        [] => return nothing(args, out),
        [server] => (*server).to_owned(),
        several => bail!(
            "grant `{}` used {}, and a policy is for one: {}\nhint: `--server NAME`",
            args.grant,
            count(several.len(), "server"),
            several.join(", ")
        ),
    };
    let current = current_policy(&args.grant, &server, &stores)?;
    let offered = offered(&server, current.as_ref(), &stores)?;
    let made = Suggestion::make(&args.grant, &server, &used, &offered);
    let text = match args.format {
        PolicyFormatArg::Json => format!("{:#}\n", made.policy),
        PolicyFormatArg::Yaml => policy::edit::to_yaml(&made.policy.to_string())?,
    };
    check(&text, args.format)?;
    if out.wants_json() {
        out.json(&fact(args, Some(&server), &used, Some(&made)))?;
        return Ok(Ending::Yes);
    }
    for LeftOut { kind, name, calls, why } in &made.left_out {
        out.warn(format_args!("{kind} `{}` ({calls} calls) is left out: {why}", visible(name)));
    }
    out.raw(text.as_bytes())?;
    let calls = count(usize::try_from(used.calls).unwrap_or(usize::MAX), "call");
    out.say(format_args!("{calls}: {}", made.effects()));
    if let Some(policy) = current {
        out.say(format_args!(
            "not included, because the log does not hold arguments and results: rules on arguments, `redact` and `result_bytes_max` of the current policy `{}`",
            visible(&policy.name)
        ));
    }
    let (grant, server) = (visible(&args.grant), visible(&server));
    out.say(format_args!(
        "next: save it to a file, then `tollgate policy simulate FILE --grant {grant} --server {server}`"
    ));
    Ok(Ending::Yes)
}

fn nothing(args: &SuggestArgs, out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        out.json(&fact(args, args.selection.server.as_deref(), &Usage::default(), None))?;
        return Ok(Ending::No);
    }
    let grant = visible(&args.grant);
    let server =
        args.selection.server.as_deref().map(|server| format!(" on `{}`", visible(server)));
    out.say(format_args!(
        "no call of grant `{grant}`{} was carried out; `tollgate audit search --grant {grant}` shows its requests",
        server.unwrap_or_default()
    ));
    Ok(Ending::No)
}

fn fact(
    args: &SuggestArgs,
    server: Option<&str>,
    used: &Usage,
    made: Option<&Suggestion>,
) -> Value {
    json!({
        "grant": args.grant,
        "server": server,
        "calls": used.calls,
        "first_time": used.first_time,
        "last_time": used.last_time,
        "policy": made.map(|made| &made.policy),
        "left_out": made.map_or(&[][..], |made| &made.left_out),
    })
}

/// Refuses a suggestion that does not load or fails its own tests.
fn check(text: &str, format: PolicyFormatArg) -> Result<()> {
    let format = match format {
        PolicyFormatArg::Json => Format::Json,
        PolicyFormatArg::Yaml => Format::Yaml,
    };
    Policy::load(text, format).map(drop).context("the suggestion does not load")
}

/// The policy that the grant has on the server now, if it still has one.
fn current_policy(grant: &str, server: &str, stores: &Stores) -> Result<Option<PolicyText>> {
    let Ok(grant) = stores.grant(grant) else { return Ok(None) };
    match grant.access(server).map(|access| &access.policy) {
        None => Ok(None),
        Some(Some(name)) => Ok(stores.policy(name).ok()),
        Some(None) => stores.own_policy(&grant, server),
    }
}

/// The pinned tools of the server, and whether the current policy hides them.
fn offered(server: &str, current: Option<&PolicyText>, stores: &Stores) -> Result<Offered> {
    let policy = current.and_then(|text| Policy::compile(&text.source, text.format).ok());
    let hides = |tool: &str| policy.as_ref().is_some_and(|policy| is_hidden(policy, tool));
    let names = stores.registry.pins(server)?.into_iter().map(|pin| pin.tool);
    let (hidden, open) = names.partition(|tool| hides(tool));
    Ok(Offered { open, hidden })
}

fn is_hidden(policy: &Policy, tool: &str) -> bool {
    let call = Call {
        subject: Subject::Tool(tool),
        args: None,
        params: None,
        caller: Caller::default(),
        tool: ToolFacts::default(),
        // Tools are hidden by name, at any time.
        time: LocalTime { hour: 0, weekday: Weekday::Monday },
    };
    matches!(policy.predict(&call).outcome, PredictedOutcome::Hidden { .. })
}
