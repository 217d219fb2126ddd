//! A server that comes with tollgate, for `stdio`: it needs neither a registration nor a grant.

use anyhow::{Result, anyhow, bail};
use store::registry::{Origin, PolicyText, Server, ServerOptions, Target};

use crate::context::Stores;

/// A built-in server that is ready to speak.
pub(super) struct Builtin {
    pub(super) server: Server,
    /// The rules it brings along.
    pub(super) policy: Option<PolicyText>,
}

/// The built-in server of a name, be it registered or not; nothing when the name is another server's.
/// What was asked for is shown, else what the server's owner chose, else what the service's did.
pub(super) fn find(name: &str, tools: &[String], stores: &Stores) -> Result<Option<Builtin>> {
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
        server.options.tools = stores.settings.service(service.name).tools;
    }
    gateway::check_sets(service, &server.options.tools).map_err(|words| anyhow!(words))?;
    Ok(Some(Builtin { server, policy: gateway::own_policy(service) }))
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
