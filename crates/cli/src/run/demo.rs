//! The demonstration: a pretend household behind a policy that allows, limits, asks and refuses.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Map, Value, json};
use store::registry::{
    Holding, NewGrant, NewServer, OVERLAP_SECONDS_MAX, ServerOptions, Target, Token,
};

use crate::context::{Context, Stores};
use crate::grant::paste::Paste;

const NAME: &str = "demo";
pub(super) const POLICY: &str = include_str!("demo/policy.json");

/// What a newcomer is handed.
pub(super) struct Demo {
    paste: Paste,
    token: Token,
}

/// A home beside the real one: trying things out must not touch it.
pub(super) fn context(context: &Context) -> Result<Context> {
    let mut name = context.home_path()?.into_os_string();
    name.push("-demo");
    Ok(context.with_home(PathBuf::from(name)))
}

/// The same server, policy and grant at every start. The token is a new one, because the old one is
/// known only by its hash; what was pasted before goes on working.
pub(super) fn prepare(stores: &Stores) -> Result<Demo> {
    let now_us = stores.now_us();
    let (registry, names) = (&stores.registry, &stores.file_names);
    if registry.servers()?.iter().all(|server| server.name != NAME) {
        let target = Target::Builtin { service: NAME.to_owned() };
        let new = NewServer { name: NAME.to_owned(), target, options: ServerOptions::default() };
        registry.add_server(&new, names, now_us)?;
        stores.note("server_added", NAME, "demonstration")?;
    }
    registry.put_policy(NAME, POLICY, policy::Format::Json, stores.actor(), names, now_us)?;
    let grants = registry.grants()?;
    let known = grants.iter().find(|grant| grant.label == NAME && grant.revoked_at_us.is_none());
    let (act, token) = if known.is_some() {
        ("grant_rotated", registry.rotate_grant(NAME, OVERLAP_SECONDS_MAX, now_us)?)
    } else {
        let holdings = vec![Holding { server: NAME.to_owned(), policy: Some(NAME.to_owned()) }];
        let new = NewGrant { label: NAME.to_owned(), holdings, expires_at_us: None };
        ("grant_created", registry.create_grant(&new, names, now_us)?.1)
    };
    stores.note(act, NAME, "demonstration")?;
    let grant = registry.grant(NAME)?;
    let paste = Paste::new(&grant, &token, &stores.settings, stores.home.path());
    Ok(Demo { paste, token })
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
             What happened: `tollgate --home {home} audit tail`\n\
             The rules:     `tollgate --home {home} policy show demo`\n",
            paste.client_text(),
            allowed(&paste),
            denied(&paste),
            asking(&paste),
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
