//! The demo: a sample server behind a policy that allows, limits, asks and denies, and a simulated account at
//! every service.

mod pretend;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use connectors::personal_server::{self, MEMBERS};
use connectors::{Connector, DemoCall};
use serde_json::{Map, Value, json};
use store::registry::{
    NewGrant, NewServer, OVERLAP_SECONDS_MAX, ServerAccess, ServerOptions, Target, Token,
};

use crate::context::{Context, DEMONSTRATION, DEMONSTRATION_SERVICES, Stores};
use crate::running;
use crate::snippet::Snippet;
use pretend::Pretend;

const NAME: &str = "demo";
pub(super) const POLICY: &str = include_str!("demo/policy.json");

/// What the demo prints.
pub(super) struct Demo {
    paste: Snippet,
    /// The same for a made-up account, and for several as one server.
    account: Option<Shown>,
    personal: Option<Shown>,
    token: Token,
}

/// A server and the call that the demo shows for it.
struct Shown {
    connector: &'static Connector,
    call: &'static DemoCall,
    paste: Snippet,
}

/// The environment of the demo: a separate home, so that the real one is not touched, and simulated
/// services.
pub(super) struct DemoHome {
    pub(super) context: Context,
    pretend: Pretend,
}

pub(super) fn open_home(context: &Context) -> Result<DemoHome> {
    let mut name = context.home_path()?.into_os_string();
    name.push("-demo");
    let home = PathBuf::from(name);
    refuse_second(&home)?;
    let pretend = Pretend::start(context.clock.now().wall_us)?;
    let context = context.with_home(home).with_services(pretend.look());
    mark(&context, &pretend)?;
    Ok(DemoHome { context, pretend })
}

/// The accounts of a home belong to the sandboxes of one demo; a second demo would replace them.
fn refuse_second(home: &Path) -> Result<()> {
    let gates = running::all(home);
    let Some(first) = gates.iter().find(|gate| gate.command == "up") else { return Ok(()) };
    let (shown, pid) = (home.display(), first.pid);
    let url = first.url.as_deref().unwrap_or("another address");
    bail!(
        "a demo runs on `{shown}` already: {url}, process {pid}\nhint: use that one, stop it with `kill {pid}`, or start another with `tollgate --home DIR up --demo`"
    )
}

/// Marks the home as a demo before it has an account.
fn mark(context: &Context, pretend: &Pretend) -> Result<()> {
    let stores = context.open()?;
    stores.registry.set_value(DEMONSTRATION, "pretend accounts", stores.now_us())?;
    // Other commands on this home use it to find the sandboxes.
    let services = serde_json::to_string(&pretend.settings())?;
    stores.registry.set_value(DEMONSTRATION_SERVICES, &services, stores.now_us())?;
    Ok(())
}

/// The same servers, policies and grant at every start. The token is a new one, because the old one
/// is stored only as a hash; earlier tokens keep working.
pub(super) fn prepare(demo_home: &DemoHome, stores: &Stores) -> Result<Demo> {
    demo_home.pretend.connect(stores)?;
    let mut servers = vec![(NAME, POLICY)];
    servers.extend(demo_home.pretend.connectors().map(|one| (one.name(), one.policy)));
    servers.push((personal_server::NAME, personal_server::CONNECTOR.policy));
    for (name, rules) in &servers {
        add(name, rules, stores)?;
    }
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let token = grant(&names, stores)?;
    let grant = stores.registry.grant(NAME)?;
    let paste = |server| Snippet::on(server, &grant, &token, &stores.settings, stores.home.path());
    let shown = |connector: &'static Connector| {
        Some(Shown { connector, call: connector.demo?, paste: paste(connector.name()) })
    };
    Ok(Demo {
        paste: paste(NAME),
        account: demo_home.pretend.connectors().find_map(shown),
        personal: shown(&personal_server::CONNECTOR),
        token: token.clone(),
    })
}

/// A built-in server and the policy of its name.
fn add(name: &str, rules: &str, stores: &Stores) -> Result<()> {
    let (registry, names, now_us) = (&stores.registry, &stores.file_names, stores.now_us());
    if registry.servers()?.iter().all(|server| server.name != name) {
        let target = Target::Builtin { service: name.to_owned() };
        let new = NewServer { name: name.to_owned(), target, options: ServerOptions::default() };
        registry.add_server(&new, names, now_us)?;
    }
    registry.put_policy(name, rules, policy::Format::Json, stores.actor(), names, now_us)?;
    Ok(())
}

/// The grant of the demo on these servers, each with the policy of its name.
fn grant(servers: &[&str], stores: &Stores) -> Result<Token> {
    let (registry, names, now_us) = (&stores.registry, &stores.file_names, stores.now_us());
    let access = |server: &&str| ServerAccess {
        server: (*server).to_owned(),
        policy: Some((*server).to_owned()),
    };
    let server_access: Vec<ServerAccess> = servers.iter().map(access).collect();
    let grants = registry.grants()?;
    let known = grants.iter().any(|grant| grant.label == NAME && grant.revoked_at_us.is_none());
    let token = if known {
        registry.set_server_access(NAME, &server_access, names, now_us)?;
        registry.rotate_grant(NAME, OVERLAP_SECONDS_MAX, now_us)?
    } else {
        let new = NewGrant { label: NAME.to_owned(), server_access, expires_at_us: None };
        registry.create_grant(&new, names, now_us)?.1
    };
    stores.record()?;
    Ok(token)
}

impl Shown {
    fn call_at(&self, url: &str) -> String {
        let arguments = serde_json::from_str(self.call.arguments).unwrap_or_default();
        call(&self.paste.at(url), self.call.tool, &arguments)
    }

    fn account_text(&self, url: &str) -> String {
        let (title, name) = (self.connector.title(), self.connector.name());
        let call = self.call_at(url);
        format!(
            "A made-up {title} account (`tollgate connect {name}` connects your own):\n  {call}\n\n"
        )
    }

    fn combined_text(&self, url: &str) -> String {
        let titles: Vec<&str> = MEMBERS.iter().map(|member| member.connector.title()).collect();
        let (titles, call) = (titles.join(", "), self.call_at(url));
        format!("Made-up accounts as one server ({titles}):\n  {call}\n\n")
    }
}

impl Demo {
    pub(super) fn facts(&self, url: &str) -> Map<String, Value> {
        let paste = self.paste.at(url);
        let mut facts = Map::new();
        facts.insert("token".to_owned(), self.token.expose().into());
        facts.insert("server_url".to_owned(), paste.url.clone().into());
        facts.insert("configuration".to_owned(), paste.http_json());
        facts.insert("allowed".to_owned(), allowed(&paste).into());
        facts.insert("denied".to_owned(), denied(&paste).into());
        for (name, shown) in [("account", &self.account), ("personal", &self.personal)] {
            facts.extend(shown.as_ref().map(|shown| (name.to_owned(), shown.call_at(url).into())));
        }
        facts
    }

    pub(super) fn text(&self, url: &str, home: &Path) -> String {
        let paste = self.paste.at(url);
        let home = home.display();
        format!(
            "{}\n\
             An allowed call:\n  {}\n\n\
             A denied call (the response has the reason):\n  {}\n\n\
             A call that waits for you (then `tollgate --home {home} approvals list`):\n  {}\n\n\
             {}{}\
             What happened: `tollgate --home {home} audit tail`\n\
             The rules:     `tollgate --home {home} policy show demo`\n",
            paste.client_text(),
            allowed(&paste),
            denied(&paste),
            asking(&paste),
            self.account.as_ref().map(|shown| shown.account_text(url)).unwrap_or_default(),
            self.personal.as_ref().map(|shown| shown.combined_text(url)).unwrap_or_default(),
        )
    }
}

fn allowed(paste: &Snippet) -> String {
    call(paste, "list_notes", &json!({}))
}

fn denied(paste: &Snippet) -> String {
    call(paste, "delete_note", &json!({ "id": 1 }))
}

fn asking(paste: &Snippet) -> String {
    call(paste, "send_money", &json!({ "to": "Ada", "amount": 50 }))
}

fn call(paste: &Snippet, tool: &str, arguments: &Value) -> String {
    paste.curl("tools/call", Some(tool), &json!({ "name": tool, "arguments": arguments }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::POLICY;
    use policy::{Format, Policy};

    #[test]
    fn the_demo_policy_loads_and_its_tests_pass() {
        let policy = Policy::load(POLICY, Format::Json).unwrap();
        assert_eq!(policy.warnings(), []);
        assert!(policy.run_tests().len() >= 8);
    }

    #[test]
    fn it_has_an_entry_for_every_tool_of_the_demo_server() {
        let service = connectors::connector("demo").unwrap();
        let document: serde_json::Value = serde_json::from_str(POLICY).unwrap();
        for tool in service.tools {
            assert!(document.pointer(&format!("/tools/{}", tool.name)).is_some(), "{}", tool.name);
        }
    }
}
