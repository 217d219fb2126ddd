//! A server that comes with tollgate, for `stdio`: it needs neither a registration nor a grant.

use anyhow::{Result, anyhow, bail};
use connectors::{Profile, Service};
use store::registry::{Origin, PolicyText, Server, ServerOptions, Target};
use store::settings::Settings;

use crate::context::Stores;

/// Which profile of the personal tools is shown, and what besides it.
const PROFILE_VARIABLE: &str = "MCP_TOOL_PROFILE";
const EXTRA_VARIABLE: &str = "MCP_EXTRA_ALLOWED_TOOLS";

/// A built-in server that is ready to speak.
pub(super) struct Builtin {
    pub(super) server: Server,
    /// The rules it brings along.
    pub(super) policy: Option<PolicyText>,
}

/// The built-in server of a name, be it registered or not; nothing when the name is another server's.
/// What was asked for is shown, else what the server's owner chose, else what the environment or the
/// service's settings did. `look` gives the value of a variable.
pub(super) fn find(
    name: &str,
    tools: &[String],
    stores: &Stores,
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Builtin>> {
    let registered = stores.servers()?.into_iter().find(|server| server.name == name);
    let service = match registered.as_ref().map(|server| &server.target) {
        None => connectors::service(name),
        Some(Target::Builtin { service }) => connectors::service(service),
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
    let mut server = registered.unwrap_or_else(|| passing(name, service.name, stores.now_us()));
    if !tools.is_empty() {
        server.options.tools = tools.to_vec();
    } else if server.options.tools.is_empty() {
        server.options.tools = match profile(service, look)? {
            Some(words) => words,
            None => stores.settings.service(service.name).tools,
        };
    }
    gateway::check_sets(service, &server.options.tools).map_err(|words| anyhow!(words))?;
    Ok(Some(Builtin { server, policy: gateway::own_policy(service) }))
}

/// What the environment chooses of the personal tools. A profile that does not exist is refused,
/// because nobody knows how much was meant; an unknown tool besides it shows nothing.
fn profile(
    service: &Service,
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Vec<String>>> {
    let Some(word) = look(PROFILE_VARIABLE).filter(|word| !word.trim().is_empty()) else {
        return Ok(None);
    };
    if service.name != connectors::personal::NAME {
        return Ok(None);
    }
    let Some(profile) = Profile::named(&word) else {
        let known = Profile::ALL.map(Profile::name).join("`, `");
        bail!("`{PROFILE_VARIABLE}` names no profile\nhint: profiles are `{known}`");
    };
    let mut words = vec![profile.name().to_owned()];
    let extra = look(EXTRA_VARIABLE).unwrap_or_default();
    for name in extra.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if service.tool(name).is_some() {
            words.push(name.to_owned());
        } else {
            tracing::warn!(variable = EXTRA_VARIABLE, tool = name, "there is no such tool");
        }
    }
    Ok(Some(words))
}

/// The settings with what the environment chooses of the personal tools, for a gate of many servers.
/// A profile that does not exist chooses nothing here; `check_profile` says whether that matters.
pub(super) fn with_profile(
    mut settings: Settings,
    look: &dyn Fn(&str) -> Option<String>,
) -> Settings {
    let service = connectors::service(connectors::personal::NAME);
    let chosen = service.and_then(|service| profile(service, look).ok().flatten());
    if let Some(words) = chosen {
        settings.services.entry(connectors::personal::NAME.to_owned()).or_default().tools = words;
    }
    settings
}

/// The variables are other programs' as well, so a profile that does not exist stops a gate only when
/// it has a server whose tools would be chosen by it.
pub(super) fn check_profile(stores: &Stores, look: &dyn Fn(&str) -> Option<String>) -> Result<()> {
    let Some(service) = connectors::service(connectors::personal::NAME) else { return Ok(()) };
    let is_chosen = |server: &Server| {
        matches!(&server.target, Target::Builtin { service: name } if name == service.name)
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
        let service = connectors::service(service).unwrap();
        super::profile(service, &look).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_chooses_a_profile_and_tools_besides_it() {
        let words = |list: &[&str]| Ok(Some(list.iter().map(|word| (*word).to_owned()).collect()));
        for (profile, extra, expected) in [
            ("", "add", Ok(None)),
            ("full", "", words(&["full"])),
            ("SAFE", " add , nothing_like_this,,", words(&["safe", "add"])),
            ("minimal", "get_steam_friends", words(&["minimal", "get_steam_friends"])),
        ] {
            assert_eq!(chosen("personal", profile, extra), expected, "{profile} {extra}");
        }
        assert_eq!(chosen("whoop", "safe", ""), Ok(None));
        let error = chosen("personal", "safest", "").unwrap_err();
        assert!(error.contains("`full`, `safe`, `minimal`"), "{error}");
    }
}
