//! `policy simulate`: the calls of the audit log, judged again by a draft. Yes when it decides each of them
//! as it was decided, no when something changes, cannot be told, or was never recorded.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use policy::{Foreseen, Policy, Sight};
use store::ledger::Replay;

use super::Source;
use super::explain::owners_zone;
use super::recorded::{self, Recorded, Tools, Where};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::Out;
use tally::{Now, Tally};

mod report;
mod tally;

#[derive(Args)]
pub(crate) struct SimulateArgs {
    /// The policy to try: a file, `-` for stdin, or the name of one in the gate
    #[arg(value_name = "DRAFT")]
    draft: String,
    /// Only calls of this grant
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
    #[command(flatten)]
    place: Where,
}

pub(super) fn run(args: &SimulateArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let draft = Draft::find(&args.draft, &stores, out)?;
    let zone = owners_zone(context, out);
    let mut judge = Judge {
        policy: &draft.policy,
        tools: Tools::new(&stores),
        replay: Replay::default(),
        has_limits: false,
    };
    let mut tally = Tally::default();
    recorded::each(args.grant.as_deref(), &args.place, &zone, &stores, |call| {
        let now = judge.judge(&call)?;
        tally.add(&call, now);
        Ok(())
    })?;
    tally.has_limits = judge.has_limits;
    report::show(&tally, &draft, out)?;
    Ok(Ending::of(!tally.is_empty() && tally.changes_nothing()))
}

/// What is tried.
struct Draft {
    /// As the owner named it.
    name: String,
    from: From,
    policy: Policy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    File,
    Stdin,
    Gate,
}

impl Draft {
    fn find(name: &str, stores: &Stores, out: &Out) -> Result<Draft> {
        let from = match name {
            "-" => From::Stdin,
            file if Path::new(file).exists() => From::File,
            _ => From::Gate,
        };
        if from == From::Gate {
            let Ok(kept) = stores.policy(name) else {
                bail!(
                    "`{name}` is neither a file nor a policy in the gate\nhint: `tollgate policy list` shows those there are"
                );
            };
            let policy = Policy::compile(&kept.source, kept.format)
                .with_context(|| format!("policy `{}` does not load", kept.label()))?;
            return Ok(Draft { name: name.to_owned(), from, policy });
        }
        let source = Source::read(Path::new(name))?;
        let policy = Policy::compile(&source.text, source.format).map_err(|error| {
            let words = format!("`{}` does not load", source.name);
            super::unusable(&error.problems, &source, words, out)
        })?;
        Ok(Draft { name: source.name, from, policy })
    }
}

struct Judge<'a> {
    policy: &'a Policy,
    tools: Tools<'a>,
    replay: Replay,
    has_limits: bool,
}

impl Judge<'_> {
    /// Limits are counted over the calls that were carried out, and that the draft does not stop.
    fn judge(&mut self, call: &Recorded) -> Result<Now> {
        let policy = self.policy;
        let Foreseen { sight, holds } = call.ask(&mut self.tools, |call| policy.foresee(call))?;
        if matches!(sight, Sight::Denied { .. } | Sight::Hidden { .. }) {
            return Ok(Now::of(sight));
        }
        self.has_limits |= !holds.is_empty();
        let (facts, tick) = (call.facts(), call.entry.tick);
        let is_further_part = call.entry.continuation_of.is_some();
        match self.replay.over(&holds, &facts, tick).filter(|_| !is_further_part) {
            None if call.counts() => self.replay.take(&holds, &facts, tick),
            Some(over) if matches!(sight, Sight::Passes { .. }) => {
                return Ok(Now::Limited { rule: Arc::clone(&over.rule) });
            }
            _ => {}
        }
        Ok(Now::of(sight))
    }
}
