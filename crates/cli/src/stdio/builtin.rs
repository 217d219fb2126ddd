//! A server that comes with tollgate, for `stdio`: it needs neither a registration nor a grant.

use anyhow::{Result, anyhow, bail};
use connectors::Connector;
use store::registry::{Origin, PolicyText, Server, ServerOptions, Target};
use store::settings::Settings;

use crate::context::Stores;

/// The profile of the personal tools, and further tools.
const PROFILE_VARIABLE: &str = "MCP_TOOL_PROFILE";
const EXTRA_VARIABLE: &str = "MCP_EXTRA_ALLOWED_TOOLS";

/// A built-in server with its tools selected.
pub(crate) struct Builtin {
    pub(crate) server: Server,
    /// Its built-in policy.
    pub(crate) policy: Option<PolicyText>,
}

/// The built-in server with this name, registered or not; none if the name belongs to another server. Its
/// tools are those of the arguments, else of the registration, else of the environment, else of the
/// service's settings. `look` returns a variable.
pub(crate) fn find(
    name: &str,
    tools: &[String],
    stores: &Stores,
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Builtin>> {
    let registered = stores.servers()?.into_iter().find(|server| server.name == name);
    let service = match registered.as_ref().map(|server| &server.target) {
        None => connectors::connector(name),
        Some(Target::Builtin { service }) => connectors::connector(service),
        Some(_) => None,
    };
    let Some(service) = service else {
        if tools.is_empty() {
            return Ok(None);
        }
        bail!(
            "`--tools` is for servers that come with tollgate\nhint: a policy chooses the tools of other servers"
        );
    };
    let mut server = registered.unwrap_or_else(|| passing(name, service.name(), stores.now_us()));
    if !tools.is_empty() {
        server.options.tools = tools.to_vec();
    } else if server.options.tools.is_empty() {
        server.options.tools = match profile(service, look)? {
            Some(message) => message,
            None => stores.settings.service(service.name()).tools,
        };
    }
    gateway::check_sets(service, &server.options.tools).map_err(|message| anyhow!(message))?;
    Ok(Some(Builtin { server, policy: gateway::own_policy(service) }))
}

/// The personal tools that the environment selects. An unknown profile is refused; an unknown further tool
/// is ignored with a warning.
fn profile(
    connector: &Connector,
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Vec<String>>> {
    let Some(word) = look(PROFILE_VARIABLE).filter(|word| !word.trim().is_empty()) else {
        return Ok(None);
    };
    if connector.profiles.is_empty() {
        return Ok(None);
    }
    let Some(profile) = connector.profile(&word) else {
        let known: Vec<&str> = connector.profiles.iter().map(|profile| profile.name).collect();
        let known = known.join("`, `");
        bail!("`{PROFILE_VARIABLE}` names no profile\nhint: profiles are `{known}`");
    };
    let mut message = vec![profile.name.to_owned()];
    let extra = look(EXTRA_VARIABLE).unwrap_or_default();
    for name in extra.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if connector.tool(name).is_some() {
            message.push(name.to_owned());
        } else {
            tracing::warn!(variable = EXTRA_VARIABLE, tool = name, "unknown tool");
        }
    }
    Ok(Some(message))
}

/// The settings with the personal tools that the environment selects, for a gate of many servers. An
/// unknown profile selects nothing here; `check_profile` reports it if it matters.
pub(crate) fn with_profile(
    mut settings: Settings,
    look: &dyn Fn(&str) -> Option<String>,
) -> Settings {
    let service = connectors::connector(connectors::personal_server::NAME);
    let chosen = service.and_then(|service| profile(service, look).ok().flatten());
    if let Some(message) = chosen {
        settings.services.entry(connectors::personal_server::NAME.to_owned()).or_default().tools =
            message;
    }
    settings
}

/// Other programs use the same variables, so an unknown profile stops a gate only if one of its servers
/// depends on it.
pub(crate) fn check_profile(stores: &Stores, look: &dyn Fn(&str) -> Option<String>) -> Result<()> {
    let Some(service) = connectors::connector(connectors::personal_server::NAME) else {
        return Ok(());
    };
    let is_chosen = |server: &Server| {
        matches!(&server.target, Target::Builtin { service: name } if name == service.name())
            && server.options.tools.is_empty()
    };
    if stores.servers()?.iter().any(is_chosen) {
        profile(service, look)?;
    }
    Ok(())
}

fn passing(name: &str, service: &str, now_us: i64) -> Server {
    Server {
        name: name.to_owned(),
        target: Target::Builtin { service: service.to_owned() },
        options: ServerOptions::default(),
        created_at_us: now_us,
        updated_at_us: now_us,
        origin: Origin::File,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn chosen(service: &str, profile: &str, extra: &str) -> Result<Option<Vec<String>>, String> {
        let look = |name: &str| match name {
            PROFILE_VARIABLE => Some(profile.to_owned()),
            EXTRA_VARIABLE => Some(extra.to_owned()),
            _ => None,
        };
        let service = connectors::connector(service).unwrap();
        super::profile(service, &look).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_selects_a_profile_and_further_tools() {
        let message =
            |list: &[&str]| Ok(Some(list.iter().map(|word| (*word).to_owned()).collect()));
        for (profile, extra, expected) in [
            ("", "add", Ok(None)),
            ("full", "", message(&["full"])),
            ("SAFE", " add , nothing_like_this,,", message(&["safe", "add"])),
            ("minimal", "get_steam_friends", message(&["minimal", "get_steam_friends"])),
        ] {
            assert_eq!(chosen("personal", profile, extra), expected, "{profile} {extra}");
        }
        assert_eq!(chosen("whoop", "safe", ""), Ok(None));
        let error = chosen("personal", "safest", "").unwrap_err();
        assert!(error.contains("`full`, `safe`, `minimal`"), "{error}");
    }
}
