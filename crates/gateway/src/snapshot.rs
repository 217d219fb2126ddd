//! The state of the gate: servers, grants, policies and pins in one immutable value, which a reload replaces as
//! a whole.

mod current;
mod grantee;
mod leases;
mod program_path;
mod rules;
mod secrets;
mod stored_pins;
mod token_refusal;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::Policy;
use store::effective::Effective;
use store::registry::{
    self, Credential, EnvValue, PolicyText, Registry, Target, TokenHash, argv_in_clear,
};
use store::settings::Limits;
use tokio::sync::mpsc;
use url::Url;

use crate::builtin::{self, Builtin};
use crate::upstream::pins::Pins;
use crate::upstream::server::{Backend, Server};
use crate::upstream::{
    ChildOptions, GuardProgram, HttpOptions, HttpServer, Mask, ServerLogin, Waits, base_env,
};
use connectors::server_login::ServerLogins;
use connectors::{GateStores, LazyContext};

pub(crate) use current::Snapshots;
pub(crate) use grantee::{Grantee, ServerAccess};
pub(crate) use leases::{Lease, Leases, TokenAccess};
pub(crate) use rules::Rules;
use stored_pins::pins_and_offers;
pub(crate) use stored_pins::pins_of;

/// One consistent state of the gate.
pub(crate) struct Snapshot {
    pub(crate) effective: Effective,
    pub(crate) servers: BTreeMap<String, Arc<Server>>,
    pub(crate) grantees: HashMap<String, Arc<Grantee>>,
    pub(crate) tokens: HashMap<TokenHash, TokenAccess>,
    rules: HashMap<String, Arc<Rules>>,
}

/// What is needed to build servers.
pub(crate) struct UpstreamFactory {
    pub(crate) registry: Arc<Registry>,
    pub(crate) guard_program: GuardProgram,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) limits: Limits,
    pub(crate) connectors: Arc<LazyContext>,
    /// For the operator server.
    pub(crate) gate: Arc<GateStores>,
    pub(crate) stderr_to: Option<mpsc::Sender<String>>,
    /// The logins at servers.
    pub(crate) logins: Arc<ServerLogins>,
}

impl Snapshot {
    /// Builds a snapshot. Unchanged servers keep their connections, unchanged policies are not compiled again.
    pub(crate) fn build(
        effective: Effective,
        before: Option<&Snapshot>,
        factory: &UpstreamFactory,
        leases: &mut Leases,
        now_us: i64,
    ) -> Snapshot {
        factory.gate.set_settings(Arc::clone(&effective.settings));
        let servers = effective
            .servers
            .values()
            .map(|spec| with_default_tools(spec, &effective))
            .map(|spec| (spec.name.clone(), server(&spec, before, factory)))
            .collect::<BTreeMap<_, _>>();
        let rules = effective
            .policies
            .values()
            .filter_map(|text| Some((text.name.clone(), rules(text, before)?)))
            .collect::<HashMap<_, _>>();
        let mut grantees = HashMap::new();
        for grant in effective.grants() {
            if grant.state(now_us) != registry::GrantState::Active {
                continue;
            }
            let lease = leases.of_grant(&grant.id);
            let accesses = effective
                .accesses(grant)
                .filter_map(|access| {
                    let server = Arc::clone(servers.get(&access.server.name)?);
                    let rules = match access.policy {
                        Some(text) => rules.get(&text.name).cloned(),
                        None => built_in_rules(grant, &server, before),
                    };
                    Some((access.server.name.as_str().into(), ServerAccess::new(server, rules)))
                })
                .collect();
            let grantee = Grantee::new(
                grant.id.clone(),
                grant.label.clone(),
                accesses,
                lease,
                usize::try_from(factory.limits.in_flight_per_grant_max).unwrap_or(usize::MAX),
            )
            .with_prefix(grant.prefix);
            let known = before.and_then(|before| before.grantees.get(&grant.id));
            let grantee = match known {
                Some(known) => grantee.keeping_usage_of(known),
                None => grantee,
            };
            grantees.insert(grant.id.clone(), Arc::new(grantee));
        }
        leases.end_grants(|id| !grantees.contains_key(id));
        let tokens = leases.take_tokens(&effective, now_us);
        Snapshot { effective, servers, grantees, tokens, rules }
    }
}

/// A built-in server without its own tool list uses that of its service in the settings.
fn with_default_tools<'s>(
    spec: &'s registry::Server,
    effective: &Effective,
) -> Cow<'s, registry::Server> {
    match &spec.target {
        Target::Builtin { service } if spec.options.tools.is_empty() => {
            let mut spec = spec.clone();
            spec.options.tools = effective.settings.service(service).tools;
            Cow::Owned(spec)
        }
        _ => Cow::Borrowed(spec),
    }
}

/// The default policy of a built-in server, for a grant that names none. `false` in the settings file means no
/// policy.
fn built_in_rules(
    grant: &registry::Grant,
    server: &Server,
    before: Option<&Snapshot>,
) -> Option<Arc<Rules>> {
    let named = grant.access(&server.name).is_none_or(|access| access.policy.is_some());
    if named || grant.origin == registry::Origin::File {
        return None;
    }
    let Backend::Builtin(builtin) = &server.backend else { return None };
    rules(&builtin::own_policy(builtin.connector)?, before)
}

fn rules(text: &PolicyText, before: Option<&Snapshot>) -> Option<Arc<Rules>> {
    let same = before.and_then(|before| before.rules.get(&text.name));
    if let Some(same) =
        same.filter(|same| same.sha256 == text.sha256 && same.version == text.number())
    {
        return Some(Arc::clone(same));
    }
    match compiled(text) {
        Ok(rules) => Some(Arc::new(rules)),
        Err(error) => {
            // The registry accepted this text, so its language is newer than this binary or the file was
            // changed: fail closed.
            tracing::error!(policy = %text.name, %error, "cannot load a policy; calls under it are denied");
            None
        }
    }
}

/// Compiles a policy and runs its tests.
pub(crate) fn compiled(text: &PolicyText) -> Result<Rules, policy::LoadError> {
    Ok(Rules {
        name: text.name.clone(),
        version: text.number(),
        sha256: text.sha256.clone(),
        policy: Policy::load(&text.source, text.format)?,
    })
}

fn server(
    spec: &registry::Server,
    before: Option<&Snapshot>,
    factory: &UpstreamFactory,
) -> Arc<Server> {
    let same = before.and_then(|before| before.servers.get(&spec.name));
    let same = same.filter(|same| same.spec == *spec);
    // A built-in server is as trusted as the gate, so older pins do not apply. Its list is read on first use.
    let is_builtin = matches!(spec.target, Target::Builtin { .. });
    if let Some(same) = same.filter(|_| is_builtin) {
        return Arc::clone(same);
    }
    let (pins, offers) = if is_builtin {
        (Pins::default(), None)
    } else {
        pins_and_offers(&spec.name, &factory.registry)
    };
    if let Some(same) = same {
        same.accept(pins);
        return Arc::clone(same);
    }
    let start_wait_max = start_wait_max(spec, &factory.limits);
    let server = Server::new(spec.clone(), backend(spec, factory), pins, start_wait_max);
    if let Some(offers) = offers {
        server.set_offers(&offers);
    }
    if !is_builtin {
        server.restore_lists(factory.registry.server_lists(&spec.name).unwrap_or_default());
    }
    Arc::new(server)
}

/// How to reach a server, with its secrets unsealed.
pub(crate) fn backend(spec: &registry::Server, factory: &UpstreamFactory) -> Backend {
    let target = match spec.target.opened(factory.registry.vault()) {
        Ok(target) => target,
        Err(error) => return Backend::broken(error.to_string()),
    };
    match target {
        Target::Builtin { service } => match connectors::connector(&service) {
            Some(connector) => {
                match Builtin::new(connector, &spec.options.tools, Arc::clone(&factory.connectors))
                {
                    Ok(builtin) => Backend::Builtin(Arc::new(builtin.with_gate(&factory.gate))),
                    Err(message) => Backend::Broken(message),
                }
            }
            None => Backend::broken(format!("unknown built-in service `{service}`")),
        },
        Target::Command { argv, env, cwd, secret_args } => {
            let mask = secrets::of_child(&env, &argv, &secret_args);
            let argv = argv_in_clear(&argv, &secret_args);
            child(spec, argv, env, cwd, mask, factory)
        }
        Target::Url { url, query, headers, allow_plain_http } => {
            match http(spec, &url, query.as_ref(), &headers, allow_plain_http, factory) {
                Ok(server) => Backend::Http(server),
                Err(message) => Backend::broken(message),
            }
        }
    }
}

fn child(
    spec: &registry::Server,
    argv: Vec<String>,
    env: Vec<(String, EnvValue)>,
    cwd: Option<std::path::PathBuf>,
    mask: Option<Arc<Mask>>,
    factory: &UpstreamFactory,
) -> Backend {
    let mut message = argv.into_iter();
    let Some(program) = message.next() else { return Backend::broken("the command is empty") };
    let configured = env.into_iter().filter_map(|(name, value)| {
        let value = match value {
            EnvValue::Plain(value) => value,
            EnvValue::Hidden(Credential::Held(secret)) => secret.expose().clone(),
            // Unsealed above.
            EnvValue::Hidden(Credential::Sealed(_)) => return None,
        };
        Some((OsString::from(name), OsString::from(value)))
    });
    let mut options = ChildOptions::new(factory.guard_program.clone(), program);
    options.name.clone_from(&spec.name);
    options.args = message.map(OsString::from).collect();
    options.mask = mask;
    options.env = base_env(factory.env.iter().cloned(), configured);
    program_path::extend(&mut options);
    options.cwd = cwd;
    options.stderr_to.clone_from(&factory.stderr_to);
    options.route_to_request = true;
    set_waits(&mut options.waits, spec, &factory.limits);
    options.bounds.line_bytes_max = answer_bytes_max(&factory.limits);
    Backend::Child(Box::new(options))
}

fn http(
    spec: &registry::Server,
    url: &str,
    query: Option<&Credential>,
    headers: &[(String, Credential)],
    allow_plain_http: bool,
    factory: &UpstreamFactory,
) -> Result<Arc<HttpServer>, String> {
    let limits = &factory.limits;
    let held = |credential: &Credential| match credential {
        Credential::Held(secret) => Some(secret.expose().clone()),
        Credential::Sealed(_) => None,
    };
    let address = Url::parse(url).map_err(|error| format!("its address is not a URL: {error}"))?;
    let mut url = address.clone();
    if let Some(query) = query.and_then(held) {
        url.set_query(Some(&query));
    }
    let mask = secrets::of_http(&url, query, headers);
    let secure = url.scheme() == "https";
    let mut options = HttpOptions::new(url);
    options.allow_plain_http = allow_plain_http;
    options.mask = mask;
    for (name, value) in headers {
        let name: HeaderName =
            name.parse().map_err(|_| format!("`{name}` is not a header name"))?;
        let value = held(value).and_then(|value| HeaderValue::from_str(&value).ok());
        let mut value =
            value.ok_or_else(|| format!("the header `{name}` has a value that cannot be sent"))?;
        value.set_sensitive(true);
        options.headers.push((name, value));
    }
    let has_own_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    options.login = (!has_own_token).then(|| ServerLogin {
        logins: Arc::clone(&factory.logins),
        server: spec.name.clone(),
        url: address,
        per_grant: spec.options.per_grant,
    });
    if secure {
        options.tls =
            Some(crate::upstream::client_config(None).map_err(|error| error.to_string())?);
    }
    set_waits(&mut options.waits, spec, limits);
    options.bounds.answer_bytes_max = answer_bytes_max(limits);
    options.bounds.event_bytes_max = answer_bytes_max(limits);
    HttpServer::new(options).map_err(|error| error.to_string())
}

/// The configured timeouts. A server's own timeout overrides the gate's and limits the whole call.
fn set_waits(waits: &mut Waits, spec: &registry::Server, limits: &Limits) {
    let call_ms = spec.options.call_ms_max.unwrap_or(limits.upstream_call_wait_ms_max);
    waits.connect_max = Duration::from_millis(limits.upstream_connect_wait_ms_max);
    waits.first_byte_max = Duration::from_millis(call_ms);
    waits.idle_max = Duration::from_millis(call_ms);
    waits.busy_poll_max = Duration::from_micros(limits.busy_poll_us_max);
    if let Some(total_max) = spec.options.call_ms_max.map(Duration::from_millis) {
        waits.total_max = total_max;
        waits.queue_max = waits.queue_max.min(total_max);
        waits.connect_max = waits.connect_max.min(total_max);
    }
}

fn answer_bytes_max(limits: &Limits) -> usize {
    usize::try_from(limits.answer_bytes_max).unwrap_or(usize::MAX)
}

/// How long a server may take to start and complete the handshake.
pub(crate) fn start_wait_max(spec: &registry::Server, limits: &Limits) -> Duration {
    Duration::from_millis(spec.options.start_ms_max.unwrap_or(limits.upstream_start_wait_ms_max))
}
