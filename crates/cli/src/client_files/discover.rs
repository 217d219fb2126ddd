//! Finds the configuration files on this machine and the servers in them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use policy::json::Kind;

use super::entry::{self, Entry};
use super::folders::{Base, UserFolders};
use super::table::{ALL, Client, FileSpec, KeyPath};
use super::{json_file, jsonc, toml_file};

/// A larger file is no configuration.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A configuration file of a client and its servers.
pub(crate) struct ConfigFile {
    pub(crate) client: &'static Client,
    pub(crate) path: PathBuf,
    pub(crate) spec: &'static FileSpec,
    pub(crate) text: String,
    pub(crate) entries: Vec<Entry>,
    /// Why the file could not be read.
    pub(crate) problem: Option<String>,
}

impl ConfigFile {
    /// A file that belongs to a project and may be shared with others: no secret goes into it.
    pub(crate) fn is_shared(&self) -> bool {
        self.spec.base == Base::Project
    }

    pub(crate) fn is_toml(&self) -> bool {
        self.spec.is_toml()
    }
}

/// Every known file that exists, with its servers.
pub(crate) fn find(folders: &UserFolders) -> Vec<ConfigFile> {
    let mut found: Vec<ConfigFile> = Vec::new();
    for client in ALL {
        for spec in client.files {
            let path = path_of(spec, folders);
            // The home folder may be the project; one file is one file.
            let known = found.iter().any(|f| f.path == path);
            if !known && path.is_file() {
                found.push(read(client, spec, path, folders));
            }
        }
    }
    found
}

pub(crate) fn path_of(spec: &FileSpec, folders: &UserFolders) -> PathBuf {
    let folder = folders.folder(spec.base);
    spec.path.split('/').fold(folder, |path, part| path.join(part))
}

fn read(
    client: &'static Client,
    spec: &'static FileSpec,
    path: PathBuf,
    at: &UserFolders,
) -> ConfigFile {
    let text = read_text(&path);
    let read = text
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|text| entries(spec, text, at).map_err(|e| format!("{e:#}")));
    let (entries, problem) = match read {
        Ok(entries) => (entries, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    ConfigFile { client, path, spec, text: text.unwrap_or_default(), entries, problem }
}

pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    store::files::read_text(path, FILE_BYTES_MAX).map_err(|e| e.to_string())
}

pub(crate) fn entries(spec: &FileSpec, text: &str, at: &UserFolders) -> Result<Vec<Entry>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let project = (spec.base == Base::Project).then(|| at.project.clone());
    let mut found = Vec::new();
    for key_path in spec.servers {
        let more = match key_path {
            KeyPath::At(keys) if spec.is_toml() => {
                toml_file::entries(text, keys.first().copied().unwrap_or_default())?
            }
            KeyPath::At(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
                json_entries(text, &keys)?
            }
            KeyPath::EachProject(all, servers) => project_entries(text, all, servers)?,
        };
        found.extend(more);
    }
    for entry in &mut found {
        entry.project = entry.project.take().or_else(|| project.clone());
    }
    Ok(found)
}

fn json_entries(text: &str, keys: &[String]) -> Result<Vec<Entry>> {
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let Some(servers) = json_file::walk(doc.root(), keys) else { return Ok(Vec::new()) };
    let members = servers.entries().filter(|(_, value)| value.kind() == Kind::Object);
    Ok(members
        .map(|(key, value)| {
            let (launch, enabled) = entry::from_json(value);
            let name = key.text().into_owned();
            let keys = keys.iter().cloned().chain([name.clone()]).collect();
            Entry { name, keys, project: None, launch, enabled }
        })
        .collect())
}

fn project_entries(text: &str, all: &str, servers: &str) -> Result<Vec<Entry>> {
    let plain = jsonc::plain(text);
    let doc = jsonc::read(&plain)?;
    let projects = doc.root().get(all).into_iter().flat_map(policy::json::Value::entries);
    let mut found = Vec::new();
    for (folder, project) in projects {
        if project.get(servers).is_none_or(policy::json::Value::is_empty) {
            continue;
        }
        let folder = folder.text().into_owned();
        let keys = [all.to_owned(), folder.clone(), servers.to_owned()];
        let mut more = json_entries(text, &keys)?;
        for entry in &mut more {
            entry.project = Some(PathBuf::from(&folder));
        }
        found.extend(more);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::folders::Os;
    use super::*;

    #[test]
    fn every_client_is_found_where_its_system_keeps_it() {
        let paths = |os: Os, variables: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            };
            let at = UserFolders::of(os, &variable, Path::new("/p")).unwrap();
            let all = ALL.iter().flat_map(|client| client.files);
            all.map(|spec| path_of(spec, &at).display().to_string()).collect::<Vec<_>>()
        };
        let linux = paths(Os::Linux, &[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/cfg")]);
        let mac = paths(Os::Mac, &[("HOME", "/Users/me")]);
        let windows = paths(
            Os::Windows,
            &[
                ("USERPROFILE", "C:/Users/me"),
                ("APPDATA", "C:/Users/me/AppData/Roaming"),
                ("CODEX_HOME", "D:/codex"),
            ],
        );
        for (list, path) in [
            (&linux, "/cfg/Claude/claude_desktop_config.json"),
            (&linux, "/home/me/.claude.json"),
            (&linux, "/p/.mcp.json"),
            (&linux, "/cfg/Code/User/mcp.json"),
            (&linux, "/cfg/zed/settings.json"),
            (&mac, "/Users/me/Library/Application Support/Claude/claude_desktop_config.json"),
            (&mac, "/Users/me/Library/Application Support/Code/User/settings.json"),
            (&mac, "/Users/me/.config/zed/settings.json"),
            (&mac, "/Users/me/.codex/config.toml"),
            (&mac, "/Users/me/.codeium/windsurf/mcp_config.json"),
            (&windows, "C:/Users/me/AppData/Roaming/Claude/claude_desktop_config.json"),
            (&windows, "C:/Users/me/AppData/Roaming/Zed/settings.json"),
            (&windows, "C:/Users/me/.cursor/mcp.json"),
            (&windows, "D:/codex/config.toml"),
        ] {
            assert!(list.iter().any(|known| known.eq_ignore_ascii_case(path)), "{path}: {list:#?}");
        }
    }
}
