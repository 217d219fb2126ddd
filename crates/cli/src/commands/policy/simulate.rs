//! `policy simulate`: replays the calls of the audit log against a draft. Yes when it decides each of them
//! as before, no when something changes, cannot be determined, or was never recorded.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use dashboard::replay::{Judge, Tally};
use policy::Policy;

use super::recorded::{self, CallFilter};
use crate::context::{Context, Stores, owners_zone};
use crate::failure::Ending;
use crate::output::Out;
use crate::policy_file::{PolicySource, unusable};

mod report;

#[derive(Args)]
pub(crate) struct SimulateArgs {
    /// The policy to try: a file, `-` for stdin, or the name of one in the gate
    #[arg(value_name = "DRAFT")]
    draft: String,
    /// Only calls of this grant
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
    #[command(flatten)]
    selection: CallFilter,
}

pub(super) fn run(args: &SimulateArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let draft = Draft::find(&args.draft, &stores, out)?;
    let zone = owners_zone(context, out);
    let mut judge = Judge::new(&draft.policy, &stores.registry);
    let mut tally = Tally::default();
    recorded::each(args.grant.as_deref(), &args.selection, &zone, &stores, |call| {
        let now = judge.judge(&call)?;
        tally.add(&call, now);
        Ok(())
    })?;
    tally.has_limits = judge.has_limits;
    report::show(&tally, &draft, out)?;
    Ok(Ending::of(!tally.is_empty() && tally.changes_nothing()))
}

/// The policy to try.
struct Draft {
    /// The name on the command line.
    name: String,
    from: DraftOrigin,
    policy: Policy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DraftOrigin {
    File,
    Stdin,
    Gate,
}

impl Draft {
    fn find(name: &str, stores: &Stores, out: &Out) -> Result<Draft> {
        let from = match name {
            "-" => DraftOrigin::Stdin,
            file if Path::new(file).exists() => DraftOrigin::File,
            _ => DraftOrigin::Gate,
        };
        if from == DraftOrigin::Gate {
            let Ok(stored) = stores.policy(name) else {
                bail!(
                    "`{name}` is neither a file nor a policy in the gate\nhint: `tollgate policy list` shows the policies"
                );
            };
            let policy = Policy::compile(&stored.source, stored.format)
                .with_context(|| format!("policy `{}` does not load", stored.label()))?;
            return Ok(Draft { name: name.to_owned(), from, policy });
        }
        let source = PolicySource::read(Path::new(name))?;
        let policy = Policy::compile(&source.text, source.format).map_err(|error| {
            let message = format!("`{}` does not load", source.name);
            unusable(&error.problems, &source, message, out)
        })?;
        Ok(Draft { name: source.name, from, policy })
    }
}
