//! What the gate runs with right now: one whole value, swapped whole. A call takes it once.

mod leases;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use hyper::header::{HeaderName, HeaderValue};
use policy::json::Value;
use policy::{Policy, ServerRequest, Subject};
use store::effective::Effective;
use store::registry::{self, Credential, EnvValue, PolicyText, Registry, Target, TokenHash};
use store::settings::Limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use url::Url;

use crate::builtin::{self, Builtin, LazyDesk};
use crate::pins::Pins;
use crate::room::Account;
use crate::server::{Reach, Server};
use crate::upstream::{ChildOptions, HttpOptions, HttpServer, Mask, Shim, Waits, base_env};

pub(crate) use leases::{Lease, Leases};

/// Everything in force.
pub(crate) struct InForce {
    pub(crate) effective: Effective,
    pub(crate) servers: BTreeMap<String, Arc<Server>>,
    pub(crate) holders: HashMap<String, Arc<Holder>>,
    /// The lease of each token that opens something.
    pub(crate) tokens: HashMap<TokenHash, Lease>,
    rules: HashMap<String, Arc<Rules>>,
}

/// A grant in use.
pub(crate) struct Holder {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) holdings: BTreeMap<Arc<str>, Holding>,
    lease: Lease,
    /// Held where nobody else could take the grant back.
    own_lease: Option<watch::Sender<bool>>,
    places: Arc<Semaphore>,
    /// For its large answers.
    pub(crate) room: Account,
}

/// A server within reach of a grant, and the rules on it.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) server: Arc<Server>,
    /// Without rules every call is denied.
    pub(crate) rules: Option<Arc<Rules>>,
    /// How often what agents are shown of the server's tools had changed when this came in force.
    shown: u64,
}

impl Holding {
    pub(crate) fn new(server: Arc<Server>, rules: Option<Arc<Rules>>) -> Holding {
        Holding { shown: server.times_shown_anew(), server, rules }
    }

    /// Whether it is the same server under the same rules, with the same tools accepted.
    pub(crate) fn is_as(&self, other: &Holding) -> bool {
        let rules = |holding: &Holding| holding.rules.as_ref().map(Arc::as_ptr);
        rules(self) == rules(other)
            && Arc::ptr_eq(&self.server, &other.server)
            && self.shown == other.shown
    }

    /// Whether the rules let their holder see something; without rules, nothing.
    pub(crate) fn shows(&self, subject: Subject<'_>) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.policy.shows(subject))
    }
}

/// A compiled policy with what names it in audit rows.
pub(crate) struct Rules {
    pub(crate) name: String,
    pub(crate) version: u64,
    sha256: String,
    pub(crate) policy: Policy,
}

impl Holder {
    pub(crate) fn new(
        id: String,
        label: String,
        holdings: BTreeMap<Arc<str>, Holding>,
        lease: Lease,
        in_flight_max: usize,
    ) -> Holder {
        Holder {
            id,
            label,
            holdings,
            lease,
            own_lease: None,
            places: Arc::new(Semaphore::new(in_flight_max)),
            room: Account::default(),
        }
    }

    /// What its calls in flight take up still counts when it comes in force anew.
    fn after(self, before: &Holder) -> Holder {
        Holder { places: Arc::clone(&before.places), room: before.room.clone(), ..self }
    }

    pub(crate) fn with_lease(self, lease: watch::Sender<bool>) -> Holder {
        Holder { own_lease: Some(lease), ..self }
    }

    /// Whether it holds the same servers under the same rules, with the same tools accepted.
    pub(crate) fn holds_as(&self, other: &Holder) -> bool {
        let mut pairs = self.holdings.iter().zip(&other.holdings);
        self.holdings.len() == other.holdings.len()
            && pairs.all(|((name, one), (named, other))| name == named && one.is_as(other))
    }

    /// The owner himself, who holds his own lease.
    pub(crate) fn is_owner(&self) -> bool {
        self.own_lease.is_some()
    }

    /// Turns true when the grant is taken back; open streams end on it.
    pub(crate) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Room for one more request of this grant.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}

impl Rules {
    /// Whether methods may be used that reach a server and name no tool, resource or prompt.
    pub(crate) fn allows_methods(&self) -> bool {
        self.policy.allows_unnamed()
    }

    /// Whether the resource that a notification names may be seen.
    pub(crate) fn shows_resource_of(&self, notification: Value<'_>) -> bool {
        let uri = notification.get("params").and_then(|params| params.get("uri")?.as_str());
        uri.is_some_and(|uri| self.policy.shows(Subject::Resource(&uri)))
    }

    /// Whether a server may ask this of the client. What the language does not name follows the client.
    pub(crate) fn server_may_ask(&self, method: &str) -> bool {
        let request = match method {
            "elicitation/create" => ServerRequest::Elicitation,
            "sampling/createMessage" => ServerRequest::Sampling,
            "roots/list" => ServerRequest::Roots,
            // Whoever lists what servers may ask lists all of it.
            _ => return ServerRequest::ALL.into_iter().all(|one| self.policy.server_may_ask(one)),
        };
        self.policy.server_may_ask(request)
    }
}

/// What is needed to make servers reachable.
pub(crate) struct Makings {
    pub(crate) registry: Arc<Registry>,
    pub(crate) shim: Shim,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) limits: Limits,
    pub(crate) desk: Arc<LazyDesk>,
    pub(crate) stderr_to: Option<mpsc::Sender<String>>,
}

impl InForce {
    /// Builds the new state, keeping what did not change: a server's connections and a compiled policy.
    pub(crate) fn build(
        effective: Effective,
        before: Option<&InForce>,
        makings: &Makings,
        leases: &mut Leases,
        now_us: i64,
    ) -> InForce {
        let servers = effective
            .servers
            .values()
            .map(|spec| with_usual_tools(spec, &effective))
            .map(|spec| (spec.name.clone(), server(&spec, before, makings)))
            .collect::<BTreeMap<_, _>>();
        let rules = effective
            .policies
            .values()
            .filter_map(|text| Some((text.name.clone(), rules(text, before)?)))
            .collect::<HashMap<_, _>>();
        let mut holders = HashMap::new();
        for grant in effective.grants() {
            if grant.state(now_us) != registry::GrantState::Active {
                continue;
            }
            let lease = leases.of_grant(&grant.id);
            let holdings = effective
                .accesses(grant)
                .filter_map(|access| {
                    let server = Arc::clone(servers.get(&access.server.name)?);
                    let rules = match access.policy {
                        Some(text) => rules.get(&text.name).cloned(),
                        None => built_in_rules(grant, &server, before),
                    };
                    Some((access.server.name.as_str().into(), Holding::new(server, rules)))
                })
                .collect();
            let holder = Holder::new(
                grant.id.clone(),
                grant.label.clone(),
                holdings,
                lease,
                usize::try_from(makings.limits.in_flight_per_grant_max).unwrap_or(usize::MAX),
            );
            let known = before.and_then(|before| before.holders.get(&grant.id));
            let holder = match known {
                Some(known) => holder.after(known),
                None => holder,
            };
            holders.insert(grant.id.clone(), Arc::new(holder));
        }
        leases.end_grants(|id| !holders.contains_key(id));
        let tokens = leases.take_tokens(&effective, now_us);
        InForce { effective, servers, holders, tokens, rules }
    }
}

/// A built-in server shows what the settings say of its service, where nobody said it of the server.
fn with_usual_tools<'s>(
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

/// The rules that a built-in server brings along, for a grant on which no policy was named. In the
/// settings file `false` says that there shall be none.
fn built_in_rules(
    grant: &registry::Grant,
    server: &Server,
    before: Option<&InForce>,
) -> Option<Arc<Rules>> {
    let named = grant.holding(&server.name).is_none_or(|holding| holding.policy.is_some());
    if named || grant.origin == registry::Origin::File {
        return None;
    }
    let Reach::Builtin(builtin) = &server.reach else { return None };
    rules(&builtin::own_policy(builtin.service)?, before)
}

fn rules(text: &PolicyText, before: Option<&InForce>) -> Option<Arc<Rules>> {
    let same = before.and_then(|before| before.rules.get(&text.name));
    if let Some(same) =
        same.filter(|same| same.sha256 == text.sha256 && same.version == text.number())
    {
        return Some(Arc::clone(same));
    }
    match compiled(text) {
        Ok(rules) => Some(Arc::new(rules)),
        Err(error) => {
            // The registry took it, so this is a newer language or a changed file: fail closed.
            tracing::error!(policy = %text.name, %error, "a policy does not load; its grants are denied");
            None
        }
    }
}

/// A policy text, compiled and with its own tests passed.
pub(crate) fn compiled(text: &PolicyText) -> Result<Rules, policy::LoadError> {
    Ok(Rules {
        name: text.name.clone(),
        version: text.number(),
        sha256: text.sha256.clone(),
        policy: Policy::load(&text.source, text.format)?,
    })
}

fn server(spec: &registry::Server, before: Option<&InForce>, makings: &Makings) -> Arc<Server> {
    let same = before.and_then(|before| before.servers.get(&spec.name));
    let same = same.filter(|same| same.spec == *spec);
    // What is built in is as trusted as the gate itself, so what was pinned before an upgrade does
    // not speak against it; its list is read at its first use.
    let is_builtin = matches!(spec.target, Target::Builtin { .. });
    if let Some(same) = same.filter(|_| is_builtin) {
        return Arc::clone(same);
    }
    let (pins, offers) = if is_builtin {
        (Pins::default(), None)
    } else {
        pins_and_offers(&spec.name, &makings.registry)
    };
    if let Some(same) = same {
        same.accept(pins);
        return Arc::clone(same);
    }
    let start_wait_max = start_wait_max(spec, &makings.limits);
    let server = Server::new(spec.clone(), reach(spec, makings), pins, start_wait_max);
    if let Some(offers) = offers {
        server.set_offers(&offers);
    }
    Arc::new(server)
}

/// The pins of a server as the registry has them now.
pub(crate) fn pins_of(server: &str, registry: &Registry) -> Pins {
    pins_and_offers(server, registry).0
}

/// The same with the features that the server declared, where that was noted.
fn pins_and_offers(server: &str, registry: &Registry) -> (Pins, Option<String>) {
    let read = || -> Result<_, registry::RegistryError> {
        Ok((registry.pins(server)?, registry.tool_sets(server)?))
    };
    match read() {
        Ok((pins, sets)) => (Pins::of(server, &pins, &sets), sets.offers),
        Err(error) => {
            tracing::error!(server, %error, "the pins cannot be read; the tools are looked at anew");
            (Pins::default(), None)
        }
    }
}

/// How a server is reached, with its secrets in hand.
pub(crate) fn reach(spec: &registry::Server, makings: &Makings) -> Reach {
    let target = match spec.target.opened(makings.registry.vault()) {
        Ok(target) => target,
        Err(error) => return Reach::broken(error.to_string()),
    };
    match target {
        Target::Builtin { service } => match connectors::service(&service) {
            Some(service) => {
                match Builtin::new(service, &spec.options.tools, Arc::clone(&makings.desk)) {
                    Ok(builtin) => Reach::Builtin(Arc::new(builtin)),
                    Err(words) => Reach::Broken(words),
                }
            }
            None => Reach::broken(format!("there is no built-in service `{service}`")),
        },
        Target::Command { argv, env, cwd } => child(spec, argv, env, cwd, makings),
        Target::Url { url, query, headers, allow_plain_http } => {
            match http(spec, &url, query.as_ref(), &headers, allow_plain_http, &makings.limits) {
                Ok(server) => Reach::Http(server),
                Err(words) => Reach::broken(words),
            }
        }
    }
}

fn child(
    spec: &registry::Server,
    argv: Vec<String>,
    env: Vec<(String, EnvValue)>,
    cwd: Option<std::path::PathBuf>,
    makings: &Makings,
) -> Reach {
    let mut words = argv.into_iter();
    let Some(program) = words.next() else { return Reach::broken("the command is empty") };
    let secrets = env.iter().filter_map(|(name, value)| match value {
        EnvValue::Hidden(Credential::Held(secret)) => {
            Some((name.as_str(), secret.expose().as_str()))
        }
        EnvValue::Hidden(Credential::Sealed(_)) | EnvValue::Plain(_) => None,
    });
    let mask = Mask::new(secrets);
    let configured = env.into_iter().filter_map(|(name, value)| {
        let value = match value {
            EnvValue::Plain(value) => value,
            EnvValue::Hidden(Credential::Held(secret)) => secret.expose().clone(),
            // Opened above.
            EnvValue::Hidden(Credential::Sealed(_)) => return None,
        };
        Some((OsString::from(name), OsString::from(value)))
    });
    let mut options = ChildOptions::new(makings.shim.clone(), program);
    options.name.clone_from(&spec.name);
    options.args = words.map(OsString::from).collect();
    options.mask = mask;
    options.env = base_env(makings.env.iter().cloned(), configured);
    find_beside(&mut options);
    options.cwd = cwd;
    options.stderr_to.clone_from(&makings.stderr_to);
    options.route_to_request = true;
    set_waits(&mut options.waits, spec, &makings.limits);
    options.bounds.line_bytes_max = answer_bytes_max(&makings.limits);
    Reach::Child(Box::new(options))
}

/// A script such as `npx` starts its interpreter by name, and that lies in the script's folder: a program
/// that is named by its full path also finds what lies beside it.
fn find_beside(options: &mut ChildOptions) {
    let program = std::path::Path::new(&options.program);
    let Some(folder) = program.parent().filter(|folder| folder.is_absolute()) else { return };
    let Some((_, path)) = options.env.iter_mut().find(|(name, _)| name == "PATH") else { return };
    let mut folders: Vec<std::path::PathBuf> = std::env::split_paths(path).collect();
    if !folders.iter().any(|known| known == folder) {
        folders.insert(0, folder.to_owned());
        if let Ok(longer) = std::env::join_paths(folders) {
            *path = longer;
        }
    }
}

fn http(
    spec: &registry::Server,
    url: &str,
    query: Option<&Credential>,
    headers: &[(String, Credential)],
    allow_plain_http: bool,
    limits: &Limits,
) -> Result<Arc<HttpServer>, String> {
    let held = |credential: &Credential| match credential {
        Credential::Held(secret) => Some(secret.expose().clone()),
        Credential::Sealed(_) => None,
    };
    let mut url = Url::parse(url).map_err(|error| format!("its address is not a URL: {error}"))?;
    if let Some(query) = query.and_then(held) {
        url.set_query(Some(&query));
    }
    let mask = http_mask(&url, query, headers);
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
    if secure {
        options.tls =
            Some(crate::upstream::client_config(None).map_err(|error| error.to_string())?);
    }
    set_waits(&mut options.waits, spec, limits);
    options.bounds.answer_bytes_max = answer_bytes_max(limits);
    options.bounds.event_bytes_max = answer_bytes_max(limits);
    HttpServer::new(options).map_err(|error| error.to_string())
}

/// The secrets that an HTTP server is given: the headers that the owner set, and a sealed query, whole and
/// value by value.
fn http_mask(
    url: &Url,
    query: Option<&Credential>,
    headers: &[(String, Credential)],
) -> Option<Arc<Mask>> {
    let mut secrets: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        if let Credential::Held(value) = value {
            secrets.push((name.clone(), value.expose().clone()));
        }
    }
    if let Some(Credential::Held(query)) = query {
        secrets.push(("query".to_owned(), query.expose().clone()));
        let pairs = url.query_pairs();
        secrets.extend(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())));
    }
    secrets.extend(url.password().map(|word| ("password".to_owned(), word.to_owned())));
    Mask::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

/// The owner's waits; a server's own number comes before the gate's.
fn set_waits(waits: &mut Waits, spec: &registry::Server, limits: &Limits) {
    let call_ms = spec.options.call_ms_max.unwrap_or(limits.upstream_call_wait_ms_max);
    waits.connect_max = Duration::from_millis(limits.upstream_connect_wait_ms_max);
    waits.first_byte_max = Duration::from_millis(call_ms);
    waits.idle_max = Duration::from_millis(call_ms);
}

fn answer_bytes_max(limits: &Limits) -> usize {
    usize::try_from(limits.answer_bytes_max).unwrap_or(usize::MAX)
}

/// How long a server may take to start and shake hands.
pub(crate) fn start_wait_max(spec: &registry::Server, limits: &Limits) -> Duration {
    Duration::from_millis(spec.options.start_ms_max.unwrap_or(limits.upstream_start_wait_ms_max))
}
