//! Tools that a policy names and no server has that it applies to: most often a typo, and then its rules
//! apply to nothing.

use std::collections::BTreeSet;

use anyhow::Result;
use policy::Policy;
use store::registry::{GrantState, PolicyText, Target};

use crate::context::Stores;
use crate::output::{Out, visible};

/// Tools of a policy that are on none of its servers.
pub(crate) struct UnknownTools {
    policy: String,
    /// Each with the tool that was probably meant.
    tools: Vec<String>,
    servers: BTreeSet<String>,
}

impl UnknownTools {
    /// None if all are known, or if the tools of a server are not.
    pub(crate) fn of(text: &PolicyText, stores: &Stores) -> Result<Option<UnknownTools>> {
        let Ok(policy) = Policy::load(&text.source, text.format) else { return Ok(None) };
        let servers = servers_with(&text.name, stores)?;
        let mut known = BTreeSet::new();
        for server in &servers {
            let tools = tools_of(server, stores)?;
            if tools.is_empty() {
                return Ok(None);
            }
            known.extend(tools);
        }
        if known.is_empty() {
            return Ok(None);
        }
        let unknown = policy.named_tools().filter(|tool| !known.contains(tool));
        let shown = |tool: String| {
            let near = policy::did_you_mean(&tool, known.iter().map(String::as_str));
            format!("`{tool}`{near}")
        };
        let tools: Vec<String> = unknown.map(shown).collect();
        let found = UnknownTools { policy: text.name.clone(), tools, servers };
        Ok((!found.tools.is_empty()).then_some(found))
    }

    pub(crate) fn words(&self) -> String {
        let names: Vec<String> = self.servers.iter().map(|name| format!("`{name}`")).collect();
        let servers = if names.len() == 1 { "" } else { "any of " };
        visible(&format!(
            "policy `{}` names tools that are not on {servers}{}: {}",
            self.policy,
            names.join(", "),
            self.tools.join(", ")
        ))
    }

    /// How to see the names.
    pub(crate) fn mend(&self) -> String {
        let commands = self.servers.iter().map(|name| format!("`tollgate server tools {name}`"));
        format!("{} lists the names", commands.collect::<Vec<_>>().join(", "))
    }
}

/// Warns about a policy that is or was just attached.
pub(crate) fn warn_about_unknown_tools(policy: &str, stores: &Stores, out: &Out) -> Result<()> {
    let Ok(text) = stores.policy(policy) else { return Ok(()) };
    if let Some(unknown) = UnknownTools::of(&text, stores)? {
        out.warn(format_args!("{}\nhint: {}", unknown.words(), unknown.mend()));
    }
    Ok(())
}

/// The servers on which an active grant has the policy.
fn servers_with(policy: &str, stores: &Stores) -> Result<BTreeSet<String>> {
    let (effective, now_us) = (stores.effective()?, stores.now_us());
    let active = effective.grants().iter().filter(|one| one.state(now_us) == GrantState::Active);
    let access = active.flat_map(|grant| grant.server_access.iter());
    let with_policy = access.filter(|access| access.policy.as_deref() == Some(policy));
    Ok(with_policy.map(|access| access.server.clone()).collect())
}

/// The tools of a server: a built-in one has a table, another was listed before.
fn tools_of(server: &str, stores: &Stores) -> Result<Vec<String>> {
    let servers = stores.servers()?;
    let target = servers.iter().find(|known| known.name == server).map(|found| &found.target);
    if let Some(Target::Builtin { service }) = target {
        let tools = connectors::connector(service).map(|found| found.tools).unwrap_or_default();
        return Ok(tools.iter().map(|tool| tool.name.to_owned()).collect());
    }
    Ok(stores.registry.pins(server)?.into_iter().map(|pin| pin.tool).collect())
}
