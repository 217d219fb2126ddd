//! The demo: a sample server behind a policy that allows, limits, asks and denies, a server that changes a tool
//! when it is told to, and a simulated account at every service.

mod pretend;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use connectors::personal_server::{self, MEMBERS};
use connectors::{Connector, DemoCall};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sandbox::changing_server::{ADDED_ARGUMENT, CHANGING_TOOL, ChangingServer};
use serde_json::{Map, Value, json};
use store::ledger::{EntryKind, Filter};
use store::registry::{
    NewGrant, NewServer, OVERLAP_SECONDS_MAX, ServerAccess, ServerOptions, Target, Token,
};

use super::demo_agent::{ChangeTool, DemoParts, FirstCall};
use crate::context::{Context, DEMONSTRATION, DEMONSTRATION_SERVICES, Stores, owners_zone};
use crate::output::Out;
use crate::running;
use crate::snippet::Snippet;
use pretend::SandboxAccounts;

const NAME: &str = "demo";
/// The end of the name of a demo's home.
const SUFFIX: &str = "-demo";
/// The grant of the agent whose calls a new demo shows. It has limits of its own.
const ASSISTANT: &str = "assistant";
/// The server that changes its tool.
const WEATHER: &str = "weather";
const WEATHER_POLICY: &str = include_str!("demo/weather_policy.json");
const US_PER_DAY: i64 = 86_400 * 1_000_000;
/// The calls of a new demo before and after those to the accounts: allowed, then refused, limited and, last, one
/// that waits for the owner.
const FIRST_CALLS: &[FirstCall] = &[
    (NAME, "list_notes", "{}"),
    (NAME, "add_note", r#"{"text":"Return the library books"}"#),
    (NAME, "add_note", r#"{"text":"Water the plants"}"#),
    (NAME, "send_money", r#"{"to":"Linus","amount":12.5}"#),
    (WEATHER, CHANGING_TOOL, r#"{"place":"Utrecht"}"#),
];
const LAST_CALLS: &[FirstCall] = &[
    (NAME, "delete_note", r#"{"id":1}"#),
    (NAME, "send_money", r#"{"to":"Mallory","amount":900}"#),
    (NAME, "send_money", r#"{"to":"Mallory","amount":"5000"}"#),
    (NAME, "add_note", r#"{"text":"Bread"}"#),
    (NAME, "add_note", r#"{"text":"Butter"}"#),
    (NAME, "add_note", r#"{"text":"Eggs"}"#),
    (NAME, "add_note", r#"{"text":"Flour"}"#),
    (NAME, "list_notes", r#"{"limit":5}"#),
    (NAME, "send_money", r#"{"to":"Katherine","amount":35}"#),
];
pub(super) const POLICY: &str = include_str!("demo/policy.json");

/// What the demo prints.
pub(super) struct Demo {
    paste: Snippet,
    /// The same for a made-up account, and for several as one server.
    account: Option<Shown>,
    personal: Option<Shown>,
    token: Token,
    assistant: Token,
    /// None if the log of the last day has calls of agents.
    first_calls: Vec<FirstCall>,
    servers: Vec<String>,
    weather: Arc<ChangingServer>,
    home: PathBuf,
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
    pretend: SandboxAccounts,
    weather: Arc<ChangingServer>,
}

pub(super) fn open_home(context: &Context, out: &Out) -> Result<DemoHome> {
    let home = demo_home(context)?;
    refuse_second(&home)?;
    let context = context.with_home(home);
    let now_us = context.clock.now().wall_us;
    let offset_min = offset_min(&owners_zone(&context, out), now_us);
    let pretend = SandboxAccounts::start(now_us, offset_min)?;
    let context = context.with_services(pretend.look());
    mark(&context, &pretend)?;
    Ok(DemoHome { context, pretend, weather: Arc::new(ChangingServer::start()?) })
}

/// The home with `-demo` behind its name. A home that has such a name is used as it is, unless it is a real one.
fn demo_home(context: &Context) -> Result<PathBuf> {
    let home = context.home_path()?;
    let has_name =
        home.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()));
    if has_name && (!home.join("gate.db").exists() || is_marked(context, &home)?) {
        return Ok(home);
    }
    let mut name = home.into_os_string();
    name.push(SUFFIX);
    Ok(PathBuf::from(name))
}

fn is_marked(context: &Context, home: &Path) -> Result<bool> {
    let stores = context.with_home(home.to_owned()).open()?;
    Ok(stores.registry.value(DEMONSTRATION)?.is_some())
}

/// The offset of a zone from UTC now; UTC where it is not known.
fn offset_min(zone: &TimeZone, now_us: i64) -> i64 {
    let now = Timestamp::from_microsecond(now_us);
    now.map_or(0, |now| i64::from(zone.to_offset(now).seconds()) / 60)
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
fn mark(context: &Context, pretend: &SandboxAccounts) -> Result<()> {
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
    add_weather(&demo_home.weather, stores)?;
    let mut names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    names.push(WEATHER);
    let token = grant(NAME, &names, stores)?;
    let assistant = grant(ASSISTANT, &names, stores)?;
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
        assistant,
        first_calls: if is_empty(stores)? { first_calls(demo_home) } else { Vec::new() },
        servers: names.iter().map(|name| (*name).to_owned()).collect(),
        weather: Arc::clone(&demo_home.weather),
        home: stores.home.path().to_owned(),
    })
}

fn first_calls(demo_home: &DemoHome) -> Vec<FirstCall> {
    let accounts = demo_home.pretend.connectors().chain([&*personal_server::CONNECTOR]);
    let call = |one: &Connector| one.demo.map(|call| (one.name(), call.tool, call.arguments));
    let mut calls = FIRST_CALLS.to_vec();
    calls.extend(accounts.filter_map(call));
    calls.extend_from_slice(LAST_CALLS);
    calls
}

fn is_empty(stores: &Stores) -> Result<bool> {
    let since_us = stores.now_us().saturating_sub(US_PER_DAY);
    let filter =
        Filter { only: Some(EntryKind::Call), since_us: Some(since_us), ..Filter::default() };
    Ok(stores.read_log()?.newest_first(&filter)?.next().is_none())
}

/// The server of the rug pull at its address of this run. It offers what the owner accepted last, so that a new
/// start is not itself a change.
fn add_weather(weather: &ChangingServer, stores: &Stores) -> Result<()> {
    let (registry, names, now_us) = (&stores.registry, &stores.file_names, stores.now_us());
    let target = Target::from_url(weather.url(), Vec::new(), false)?;
    let new = NewServer { name: WEATHER.to_owned(), target, options: ServerOptions::default() };
    if registry.servers()?.iter().any(|server| server.name == WEATHER) {
        let pins = registry.pins(WEATHER)?;
        let accepted = pins.iter().find_map(|pin| pin.accepted.as_ref());
        weather.set_changed(accepted.is_some_and(|one| one.definition.contains(ADDED_ARGUMENT)));
        registry.replace_server(&new, now_us)?;
    } else {
        registry.add_server(&new, names, now_us)?;
    }
    let (format, actor) = (policy::Format::Json, stores.actor());
    registry.put_policy(WEATHER, WEATHER_POLICY, format, actor, names, now_us)?;
    Ok(())
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

/// A grant on these servers, each with the policy of its name.
fn grant(label: &str, servers: &[&str], stores: &Stores) -> Result<Token> {
    let (registry, names, now_us) = (&stores.registry, &stores.file_names, stores.now_us());
    let access = |server: &&str| ServerAccess {
        server: (*server).to_owned(),
        policy: Some((*server).to_owned()),
    };
    let server_access: Vec<ServerAccess> = servers.iter().map(access).collect();
    let grants = registry.grants()?;
    let known = grants.iter().any(|grant| grant.label == label && grant.revoked_at_us.is_none());
    let token = if known {
        registry.set_server_access(label, &server_access, names, now_us)?;
        registry.rotate_grant(label, OVERLAP_SECONDS_MAX, now_us)?
    } else {
        let new = NewGrant { label: label.to_owned(), server_access, expires_at_us: None };
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

impl DemoParts for Demo {
    fn introduce(&self, url: &str) -> (Map<String, Value>, String) {
        (self.facts(url), self.text(url, &self.home))
    }

    fn change_tool(&self) -> ChangeTool {
        let weather = Arc::clone(&self.weather);
        Arc::new(move || weather.change())
    }

    fn first_calls(&self) -> (&str, &[FirstCall]) {
        (self.assistant.expose(), &self.first_calls)
    }

    fn servers(&self) -> Vec<String> {
        self.servers.clone()
    }
}

impl Demo {
    fn facts(&self, url: &str) -> Map<String, Value> {
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

    fn text(&self, url: &str, home: &Path) -> String {
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
    use super::{FIRST_CALLS, LAST_CALLS, POLICY, WEATHER_POLICY};
    use policy::{Format, Policy};

    #[test]
    fn the_demo_policy_loads_and_its_tests_pass() {
        let policy = Policy::load(POLICY, Format::Json).unwrap();
        assert_eq!(policy.warnings(), []);
        assert!(policy.run_tests().len() >= 8);
    }

    #[test]
    fn the_first_calls_name_tools_and_have_arguments() {
        Policy::load(WEATHER_POLICY, Format::Json).unwrap();
        for (server, tool, arguments) in FIRST_CALLS.iter().chain(LAST_CALLS) {
            assert!(serde_json::from_str::<serde_json::Value>(arguments).unwrap().is_object());
            let connector = connectors::connector(server);
            assert!(connector.is_none_or(|one| one.tool(tool).is_some()), "{server}/{tool}");
        }
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
