//! The configuration files of MCP clients on this machine: finds them, reads their servers, and edits
//! their text without touching anything else. Writes no file itself.

use anyhow::{Result, anyhow};
use store::registry::Target;

use crate::context::Stores;

pub(crate) mod discover;
pub(crate) mod entry;
pub(crate) mod folders;
pub(crate) mod given_file;
pub(crate) mod json_file;
mod jsonc;
pub(crate) mod plan;
mod resolve;
pub(crate) mod skill_folders;
pub(crate) mod snippets;
pub(crate) mod table;
pub(crate) mod toml_file;
pub(crate) mod write;

pub(crate) use discover::{ConfigFile, find};
use folders::{UserFolders, this_os};
pub(crate) use given_file::GivenServer;
pub(crate) use jsonc::plain as plain_json;

/// The folders of the current user; the current folder is the project.
pub(crate) fn user_folders() -> Result<UserFolders> {
    let folder = std::env::current_dir()?;
    UserFolders::of(this_os(), &variable, &folder)
        .ok_or_else(|| anyhow!("cannot tell where clients keep their files: `HOME` is not set"))
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A server that a client reaches without the gate.
pub(crate) struct DirectServer {
    pub(crate) name: String,
    pub(crate) client: String,
    /// None when only the client itself can start it.
    pub(crate) target: Option<Target>,
}

/// The servers in the files of clients on this machine that the gate could start, each with its client and
/// its command or address without secrets.
pub(crate) fn importable_servers() -> Result<Vec<dashboard::ClientServer>> {
    let at = user_folders()?;
    let mut servers = Vec::new();
    for file in find(&at) {
        for entry in &file.entries {
            if let Ok(target) = plan::target_of(&file, entry, &at, &variable) {
                servers.push(dashboard::ClientServer {
                    client: file.client.title.to_owned(),
                    name: entry.name.clone(),
                    shown: entry.launch.shown(),
                    target,
                });
            }
        }
    }
    Ok(servers)
}

/// Every server that clients on this machine reach without the gate.
pub(crate) fn direct_servers(stores: &Stores) -> Result<Vec<DirectServer>> {
    let at = user_folders()?;
    let found = find(&at);
    let steps = plan::plan(&found, &at, &variable, stores)?;
    let open = steps
        .into_iter()
        .filter(|step| step.entry.enabled && !plan::is_behind_gate(&step.entry.launch));
    Ok(open
        .map(|step| DirectServer {
            name: step.entry.name.clone(),
            client: step.file.client.name.to_owned(),
            target: match step.action {
                plan::Action::Import { target, .. } => Some(target),
                plan::Action::Skip(_) => None,
            },
        })
        .collect())
}
