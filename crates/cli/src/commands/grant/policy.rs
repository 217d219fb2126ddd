//! `tollgate grant policy`: the policy of a grant on one of its servers, and the warning about policies that name
//! tools which no server has.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;
use store::registry::{Grant, ServerAccess};

use super::{grant_json, refuse_file};
use crate::context::Stores;
use crate::failure::Ending;
use crate::output::Out;
use crate::policy_file::warn_about_unknown_tools;

#[derive(Args)]
pub(crate) struct PolicyArgs {
    /// The grant's label
    label: String,
    /// One of its servers, or one to add
    server: String,
    /// The policy for that server
    policy: String,
}

pub(super) fn run(args: &PolicyArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    refuse_file(&args.label, stores)?;
    let mut server_access = stores.registry.grant(&args.label)?.server_access;
    server_access.retain(|access| access.server != args.server);
    server_access
        .push(ServerAccess { server: args.server.clone(), policy: Some(args.policy.clone()) });
    stores.ready_to_note()?;
    stores.registry.set_server_access(
        &args.label,
        &server_access,
        &stores.file_names,
        stores.now_us(),
    )?;
    stores.record()?;
    if out.wants_json() {
        out.json(&grant_json(&stores.registry.grant(&args.label)?, stores))?;
    } else {
        out.line(format_args!(
            "grant `{}`: policy `{}` applies on `{}` from the next call",
            args.label, args.policy, args.server
        ))?;
    }
    warn_about_unknown_tools(&args.policy, stores, out)?;
    Ok(Ending::Yes)
}

/// For a new grant: its policies may have met their servers for the first time.
pub(super) fn warn(grant: &Grant, stores: &Stores, out: &Out) -> Result<()> {
    let named = grant.server_access.iter().filter_map(|access| access.policy.as_deref());
    let policies: BTreeSet<&str> = named.collect();
    policies.into_iter().try_for_each(|policy| warn_about_unknown_tools(policy, stores, out))
}
