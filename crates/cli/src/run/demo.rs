//! The demonstration: a pretend household behind a policy that allows, limits, asks and refuses, and
//! a pretend account at every service beside it.

mod pretend;

use std::path::{Path, PathBuf};

use anyhow::Result;
use connectors::personal;
use serde_json::{Map, Value, json};
use store::registry::{
    Holding, NewGrant, NewServer, OVERLAP_SECONDS_MAX, ServerOptions, Target, Token,
};

use crate::context::{Context, DEMONSTRATION, DEMONSTRATION_SERVICES, Stores};
use crate::grant::paste::Paste;
use pretend::Pretend;

const NAME: &str = "demo";
pub(super) const POLICY: &str = include_str!("demo/policy.json");

/// What a newcomer is handed.
pub(super) struct Demo {
    paste: Paste,
    /// The same for a pretend account, and for several as one server.
    account_paste: Paste,
    personal_paste: Paste,
    token: Token,
}

/// The demonstration's own place: a home beside the real one, because trying things out must not
/// touch it, and services that are only pretended.
pub(super) struct Place {
    pub(super) context: Context,
    pretend: Pretend,
}

pub(super) fn place(context: &Context) -> Result<Place> {
    let mut name = context.home_path()?.into_os_string();
    name.push("-demo");
    let pretend = Pretend::start(context.clock.now().wall_us)?;
    let context = context.with_home(PathBuf::from(name)).with_services(pretend.look());
    mark(&context, &pretend)?;
    Ok(Place { context, pretend })
}

/// Says in the home what it is, before there is an account in it.
fn mark(context: &Context, pretend: &Pretend) -> Result<()> {
    let stores = context.open()?;
    stores.registry.set_value(DEMONSTRATION, "pretend accounts", stores.now_us())?;
    // Other commands on this home find the sandboxes by it while they run.
    let services = serde_json::to_string(&pretend.settings())?;
    stores.registry.set_value(DEMONSTRATION_SERVICES, &services, stores.now_us())?;
    Ok(())
}

/// The same servers, policies and grant at every start. The token is a new one, because the old one
/// is known only by its hash; what was pasted before goes on working.
pub(super) fn prepare(place: &Place, stores: &Stores) -> Result<Demo> {
    place.pretend.connect(stores)?;
    let mut servers = vec![(NAME, POLICY)];
    servers.extend(place.pretend.services().map(|service| (service.name, service.policy)));
    servers.push((personal::NAME, personal::SERVICE.policy));
    for (name, rules) in &servers {
        add(name, rules, stores)?;
    }
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let token = grant(&names, stores)?;
    let grant = stores.registry.grant(NAME)?;
    let paste = |server| Paste::on(server, &grant, &token, &stores.settings, stores.home.path());
    Ok(Demo {
        paste: paste(NAME),
        account_paste: paste("whoop"),
        personal_paste: paste(personal::NAME),
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

/// The grant of the demonstration on these servers, each under the policy of its name.
fn grant(servers: &[&str], stores: &Stores) -> Result<Token> {
    let (registry, names, now_us) = (&stores.registry, &stores.file_names, stores.now_us());
    let holding = |server: &&str| Holding {
        server: (*server).to_owned(),
        policy: Some((*server).to_owned()),
    };
    let holdings: Vec<Holding> = servers.iter().map(holding).collect();
    let grants = registry.grants()?;
    let known = grants.iter().any(|grant| grant.label == NAME && grant.revoked_at_us.is_none());
    let token = if known {
        registry.set_holdings(NAME, &holdings, names, now_us)?;
        registry.rotate_grant(NAME, OVERLAP_SECONDS_MAX, now_us)?
    } else {
        let new = NewGrant { label: NAME.to_owned(), holdings, expires_at_us: None };
        registry.create_grant(&new, names, now_us)?.1
    };
    stores.record()?;
    Ok(token)
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
        facts.insert("account".to_owned(), a_whole_day(&self.account_paste.at(url)).into());
        facts.insert("personal".to_owned(), games(&self.personal_paste.at(url)).into());
        facts
    }

    pub(super) fn text(&self, url: &str, home: &Path) -> String {
        let paste = self.paste.at(url);
        let home = home.display();
        format!(
            "{}\n\
             An allowed call:\n  {}\n\n\
             A denied call (it answers with the reason):\n  {}\n\n\
             A call that waits for you (then `tollgate --home {home} approvals list`):\n  {}\n\n\
             A pretend WHOOP account (nobody's nights; `tollgate connect whoop` brings your own):\n  {}\n\n\
             Pretend Spotify, YouTube, Steam, Reddit and Bilibili, as one server:\n  {}\n\n\
             What happened: `tollgate --home {home} audit tail`\n\
             The rules:     `tollgate --home {home} policy show demo`\n",
            paste.client_text(),
            allowed(&paste),
            denied(&paste),
            asking(&paste),
            a_whole_day(&self.account_paste.at(url)),
            games(&self.personal_paste.at(url)),
        )
    }
}

fn allowed(paste: &Paste) -> String {
    call(paste, "list_notes", &json!({}))
}

fn denied(paste: &Paste) -> String {
    call(paste, "delete_note", &json!({ "id": 1 }))
}

fn asking(paste: &Paste) -> String {
    call(paste, "send_money", &json!({ "to": "Ada", "amount": 50 }))
}

fn a_whole_day(paste: &Paste) -> String {
    // Not today, which is empty between the pretended owner's midnight and waking.
    call(paste, "get_whoop_daily_summary", &json!({ "date": "yesterday", "day": "local" }))
}

fn games(paste: &Paste) -> String {
    call(paste, "my_steam_recent_activity", &json!({}))
}

fn call(paste: &Paste, tool: &str, arguments: &Value) -> String {
    paste.curl("tools/call", Some(tool), &json!({ "name": tool, "arguments": arguments }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::POLICY;
    use policy::{Format, Policy};

    #[test]
    fn the_demonstration_policy_loads_and_its_tests_pass() {
        let policy = Policy::load(POLICY, Format::Json).unwrap();
        assert_eq!(policy.warnings(), []);
        assert!(policy.run_tests().len() >= 8);
    }

    #[test]
    fn it_speaks_of_every_tool_of_the_demonstration_server() {
        let service = connectors::service("demo").unwrap();
        let document: serde_json::Value = serde_json::from_str(POLICY).unwrap();
        for tool in service.tools {
            assert!(document.pointer(&format!("/tools/{}", tool.name)).is_some(), "{}", tool.name);
        }
    }
}
