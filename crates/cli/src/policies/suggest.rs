//! `policy suggest`: the least policy that would have allowed what a grant did on a server. It is loaded
//! with its own tests before anybody sees it; no when the grant did nothing there.

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use policy::{Call, Caller, Format, LocalTime, Policy, Sight, Subject, ToolFacts, Weekday};
use serde_json::{Value, json};
use store::registry::PolicyText;

use super::explain::owners_zone;
use super::recorded::{self, Where};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, count, visible};
use document::{Document, LeftOut, Offered};
use used::Used;

mod document;
mod used;
mod yaml;

#[derive(Args)]
pub(crate) struct SuggestArgs {
    /// The grant whose calls to look at
    #[arg(long, value_name = "LABEL")]
    grant: String,
    #[command(flatten)]
    place: Where,
    /// How to write it: json or yaml
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    format: FormatArg,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    #[default]
    Json,
    Yaml,
}

pub(super) fn run(args: &SuggestArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let zone = owners_zone(context, out);
    let mut used = Used::default();
    recorded::each(Some(&args.grant), &args.place, &zone, &stores, |call| {
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
    let in_force = in_force(&args.grant, &server, &stores)?;
    let offered = offered(&server, in_force.as_ref(), &stores)?;
    let made = Document::make(&args.grant, &server, &used, &offered);
    let text = match args.format {
        FormatArg::Json => format!("{:#}\n", made.policy),
        FormatArg::Yaml => yaml::text(&made.policy),
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
    if let Some(policy) = in_force {
        out.say(format_args!(
            "not in it, because the log does not tell: rules on arguments, `redact` and `result_bytes_max` of `{}`, which is in force",
            visible(&policy.name)
        ));
    }
    let (grant, server) = (visible(&args.grant), visible(&server));
    out.say(format_args!(
        "next: keep it in a file, then `tollgate policy simulate FILE --grant {grant} --server {server}`"
    ));
    Ok(Ending::Yes)
}

fn nothing(args: &SuggestArgs, out: &mut Out) -> Result<Ending> {
    if out.wants_json() {
        out.json(&fact(args, args.place.server.as_deref(), &Used::default(), None))?;
        return Ok(Ending::No);
    }
    let grant = visible(&args.grant);
    let server = args.place.server.as_deref().map(|server| format!(" on `{}`", visible(server)));
    out.say(format_args!(
        "no call of grant `{grant}`{} was carried out; `tollgate audit search --grant {grant}` shows what it asked for",
        server.unwrap_or_default()
    ));
    Ok(Ending::No)
}

fn fact(args: &SuggestArgs, server: Option<&str>, used: &Used, made: Option<&Document>) -> Value {
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

/// A suggestion that does not load, or fails its own tests, never leaves this function.
fn check(text: &str, format: FormatArg) -> Result<()> {
    let format = match format {
        FormatArg::Json => Format::Json,
        FormatArg::Yaml => Format::Yaml,
    };
    Policy::load(text, format).map(drop).context("the suggestion does not load")
}

/// The policy that the grant has on the server now, if it still has one.
fn in_force(grant: &str, server: &str, stores: &Stores) -> Result<Option<PolicyText>> {
    let Ok(grant) = stores.grant(grant) else { return Ok(None) };
    match grant.holding(server).map(|holding| &holding.policy) {
        None => Ok(None),
        Some(Some(name)) => Ok(stores.policy(name).ok()),
        Some(None) => stores.own_policy(&grant, server),
    }
}

/// The tools of the server, by the pins, and whether the policy in force hides them.
fn offered(server: &str, in_force: Option<&PolicyText>, stores: &Stores) -> Result<Offered> {
    let policy = in_force.and_then(|text| Policy::compile(&text.source, text.format).ok());
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
        // Names hide, at any hour.
        time: LocalTime { hour: 0, weekday: Weekday::Monday },
    };
    matches!(policy.foresee(&call).sight, Sight::Hidden { .. })
}
