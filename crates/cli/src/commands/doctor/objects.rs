//! Checks policies, grants and servers.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use policy::Policy;
use store::registry::{EnvValue, Grant, GrantState, Origin, PinState, Server, Target};

use super::Finding;
use crate::context::{Context, DEMONSTRATION, Stores};
use crate::hints::word;
use crate::masking;
use crate::output::count;
use crate::policy_file::UnknownTools;
use crate::probe::{NotStarted, START_WAIT};
use crate::program::find_in;
use crate::{running, service_file};

const CONNECT_WAIT: Duration = Duration::from_secs(3);

pub(super) fn policies(stores: &Stores, findings: &mut Vec<Finding>) {
    let policies = match stores.policies() {
        Ok(policies) => policies,
        Err(e) => return findings.push(Finding::from_error("policies", &e)),
    };
    let mut good = 0;
    for text in &policies {
        match Policy::load(&text.source, text.format) {
            Ok(_) => {
                good += 1;
                if let Ok(Some(unknown)) = UnknownTools::of(text, stores) {
                    findings.push(Finding::careful("policies", unknown.words(), unknown.mend()));
                }
            }
            Err(error) => findings.push(Finding::wrong(
                "policies",
                format!("`{}` does not load: {error}", text.name),
                format!("fix its text and run `tollgate policy set {} FILE`", text.name),
            )),
        }
    }
    findings.push(Finding::good("policies", format!("{good} loaded, and their tests pass")));
}

pub(super) fn grants(stores: &Stores, findings: &mut Vec<Finding>) {
    let effective = match stores.effective() {
        Ok(effective) => effective,
        Err(e) => return findings.push(Finding::from_error("grants", &e)),
    };
    for problem in &effective.problems {
        findings.push(Finding::from_error("grants", &anyhow::anyhow!("{problem}")));
    }
    let now_us = stores.now_us();
    let live: Vec<_> = effective
        .grants()
        .iter()
        .filter(|grant| grant.state(now_us) == GrantState::Active)
        .collect();
    for grant in &live {
        for access in grant.server_access.iter().filter(|access| access.policy.is_none()) {
            if stores.own_policy(grant, &access.server).is_ok_and(|text| text.is_some()) {
                continue;
            }
            findings.push(Finding::careful(
                "grants",
                format!(
                    "`{}` has no policy on `{}`: every call is denied",
                    grant.label, access.server
                ),
                policy_fix(grant, &access.server),
            ));
        }
    }
    findings.push(Finding::good("grants", format!("{} active", live.len())));
}

/// A grant in the settings file is changed there.
fn policy_fix(grant: &Grant, server: &str) -> String {
    let label = &grant.label;
    match grant.origin {
        Origin::Registry => format!("`tollgate grant policy {label} {server} POLICY`"),
        Origin::File => format!(
            "if it needs one, name it in tollgate.toml: `{server} = \"POLICY\"` in `servers` of `[grants.{label}]`"
        ),
    }
}

pub(super) fn servers(
    stores: &Stores,
    context: &Context,
    thorough: bool,
    findings: &mut Vec<Finding>,
) {
    let servers = match stores.servers() {
        Ok(servers) => servers,
        Err(e) => return findings.push(Finding::from_error("servers", &e)),
    };
    if servers.is_empty() {
        let next = "`tollgate server add NAME -- COMMAND`, or try `tollgate up --demo`";
        findings.push(Finding::careful("servers", "no servers yet", next));
    }
    let path = gate_path(stores);
    let mut failing =
        if thorough { BTreeMap::new() } else { not_started(&servers, &path, stores, context) };
    for server in &servers {
        let failed = failing.remove(&server.name);
        findings.push(reachable(server, failed, &path, stores, context, thorough));
        pins(server, stores, findings);
        if let Some(advice) = masking::advice(&server.name, &server.target) {
            let (message, fix) = advice.split_once("\nhint: ").unwrap_or((&advice, ""));
            findings.push(Finding::careful("servers", message, fix));
        }
    }
}

/// The commands that do not start, with the reason. Those that cannot be tried are reported elsewhere.
fn not_started(
    servers: &[Server],
    path: &GatePath,
    stores: &Stores,
    context: &Context,
) -> BTreeMap<String, NotStarted> {
    let may_start = |server: &&Server| {
        let target = server.target.opened(stores.registry.vault());
        matches!(&target, Ok(target @ Target::Command { .. }) if check_target(server, target, path).is_ok())
    };
    let commands: Vec<Server> = servers.iter().filter(may_start).cloned().collect();
    if commands.is_empty() {
        return BTreeMap::new();
    }
    crate::probe::not_started(&commands, &path.text, stores, context).unwrap_or_default()
}

fn pins(server: &Server, stores: &Stores, findings: &mut Vec<Finding>) {
    let Ok(pins) = stores.registry.all_pins(&server.name) else { return };
    let open = pins.iter().filter(|pin| pin.state != PinState::Accepted).count();
    if open > 0 {
        let differ = if open == 1 { "differs" } else { "differ" };
        let tools = count(open, "tool");
        let message = format!("`{}`: {tools} {differ} from what you accepted", server.name);
        let fix = format!(
            "`tollgate server pins {0}`, then `tollgate server pins {0} --accept`",
            server.name
        );
        findings.push(Finding::careful("servers", message, fix));
    }
}

/// The `PATH` by which the gate finds programs, and whose it is.
struct GatePath {
    text: String,
    whose: &'static str,
}

/// The `PATH` of the running gate, of the installed service, or of this shell.
fn gate_path(stores: &Stores) -> GatePath {
    let gates = running::all(stores.home.path()).into_iter();
    if let Some(text) = gates.filter(|gate| gate.url.is_some()).find_map(|gate| gate.path) {
        return GatePath { text, whose: "the running gate's PATH" };
    }
    if let Some(text) = service_file::installed_search_path() {
        return GatePath { text, whose: "the service's PATH" };
    }
    GatePath { text: std::env::var("PATH").unwrap_or_default(), whose: "PATH" }
}

fn reachable(
    server: &Server,
    failed: Option<NotStarted>,
    path: &GatePath,
    stores: &Stores,
    context: &Context,
    thorough: bool,
) -> Finding {
    let name = &server.name;
    let target = match server.target.opened(stores.registry.vault()) {
        Ok(target) => target,
        Err(e) => return Finding::from_error("servers", &anyhow::Error::new(e)),
    };
    if let Err((message, fix)) = check_target(server, &target, path) {
        if matches!(target, Target::Url { .. }) && is_stopped_demo(stores) {
            let message = format!("`{name}`: {message}; the demo of this home is not running");
            return Finding::careful("servers", message, "`tollgate up --demo` starts it");
        }
        return Finding::wrong("servers", format!("`{name}`: {message}"), fix);
    }
    let does_not_answer = |e: anyhow::Error| {
        let e = e.context(format!("`{name}` does not answer as an MCP server"));
        Finding::from_error("servers", &e).or_fix(by_hand(&target))
    };
    match failed {
        Some(NotStarted::Failed(error)) => return does_not_answer(error),
        Some(NotStarted::Unread(why)) => {
            let message = format!("`{name}` can be started, but {}", why.join("; "));
            return Finding::careful("servers", message, by_hand(&target));
        }
        Some(NotStarted::Slow) => {
            let seconds = START_WAIT.as_secs();
            let words = format!("`{name}` was started and has not answered within {seconds} s");
            return Finding::careful("servers", words, "`tollgate doctor --thorough` waits for it");
        }
        None => {}
    }
    if !thorough {
        return Finding::good("servers", format!("`{name}` can be started or reached"));
    }
    match crate::probe::update_pins_on_path(&path.text, name, stores, context) {
        Ok(tools) => {
            Finding::good("servers", format!("`{name}` answers with {}", count(tools, "tool")))
        }
        Err(e) => does_not_answer(e),
    }
}

/// Whether this is the home of a demo, whose servers run with it.
fn is_stopped_demo(stores: &Stores) -> bool {
    let is_running = || running::all(stores.home.path()).iter().any(|gate| gate.url.is_some());
    stores.registry.value(DEMONSTRATION).is_ok_and(|found| found.is_some()) && !is_running()
}

/// Where to find the reason.
fn by_hand(target: &Target) -> String {
    match target {
        Target::Command { argv, .. } => {
            let message: Vec<String> = masking::shown_argv(argv).iter().map(word).collect();
            format!("start it by hand and see what is missing: `{}`", message.join(" "))
        }
        _ => "check the log of that server".to_owned(),
    }
}

/// Checks without a request. The error is the problem and its fix.
fn check_target(server: &Server, target: &Target, path: &GatePath) -> Result<(), (String, String)> {
    match target {
        Target::Builtin { service } => match connectors::connector(service) {
            Some(_) => Ok(()),
            None => Err((
                format!("this tollgate has no built-in server `{service}`"),
                "use the tollgate it was added with".to_owned(),
            )),
        },
        Target::Command { argv, env, cwd, .. } => {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            let own = env.iter().find(|(name, _)| name == "PATH");
            let own = own.and_then(|(_, value)| match value {
                EnvValue::Plain(text) => Some(text),
                EnvValue::Hidden(_) => None,
            });
            if let Some(folder) = cwd.as_ref().filter(|folder| !folder.is_dir()) {
                let message = format!("its folder `{}` is not there", folder.display());
                return Err((message, format!("`mkdir -p {}`", word(folder))));
            }
            let text = OsStr::new(own.unwrap_or(&path.text));
            if find_in(program, cwd.as_deref(), Some(text)).is_none() {
                let whose = if own.is_some() { "its own PATH" } else { path.whose };
                let message = if program.contains('/') {
                    format!("there is no program `{program}`")
                } else {
                    format!("`{program}` is not on {whose}")
                };
                return Err((message, program_fix(server, program)));
            }
            Ok(())
        }
        Target::Url { url, .. } => reach(url),
    }
}

fn program_fix(server: &Server, program: &str) -> String {
    match server.origin {
        Origin::Registry => format!(
            "install `{program}`, or `tollgate server remove {}` and add it again with its full path",
            server.name
        ),
        Origin::File => format!("install `{program}`, or write its full path in tollgate.toml"),
    }
}

fn reach(url: &str) -> Result<(), (String, String)> {
    let address = host_and_port(url);
    let fix = || "start that server, or check the network".to_owned();
    let addresses =
        address.to_socket_addrs().map_err(|e| (format!("cannot find `{address}`: {e}"), fix()))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(_) => return Ok(()),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(|| "it has no address".to_owned(), |e| e.to_string());
    Err((format!("cannot reach `{address}`: {why}"), fix()))
}

/// The registry has checked the address; only its host and port are needed here.
fn host_and_port(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_port =
        host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let port = if scheme == "http" { 80 } else { 443 };
    if has_port { host.to_owned() } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_follows_from_the_scheme_unless_it_is_named() {
        for (url, address) in [
            ("https://example.com/mcp", "example.com:443"),
            ("http://127.0.0.1:9000/mcp", "127.0.0.1:9000"),
            ("http://[::1]/x", "[::1]:80"),
            ("http://[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(host_and_port(url), address);
        }
    }
}
