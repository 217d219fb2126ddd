//! Reads a settings file given on the command line, whichever client it belongs to.

use anyhow::Result;
use policy::json::Value;
use store::registry::Target;

use super::entry::{self, Entry, Launch};
use super::folders::Base;
use super::plan::{is_behind_gate, target};
use super::resolve::Resolver;
use super::table::ALL;
use super::{discover, user_folders, variable};

/// A server of such a file, or why it cannot be scanned.
pub(crate) struct GivenServer {
    pub(crate) name: String,
    pub(crate) target: Result<Target, String>,
}

/// The servers of a file under every member where some client keeps them. None is no error: the file
/// may hold something else.
pub(crate) fn servers(text: &str, is_toml: bool) -> Result<Vec<GivenServer>> {
    let at = user_folders()?;
    let mut entries: Vec<Entry> = Vec::new();
    for spec in ALL.iter().flat_map(|client| client.files) {
        if spec.is_toml() != is_toml {
            continue;
        }
        for mut entry in discover::entries(spec, text, &at)? {
            if spec.base == Base::Project {
                // The file may be anywhere, so its folder is not the project.
                entry.project = None;
            }
            let known = entries.iter().any(|known| known.keys == entry.keys);
            if !known && entry.launch != Launch::Other {
                entries.push(entry);
            }
        }
    }
    entries.iter().map(named).collect()
}

/// A single entry without its parent object, as documentation shows it.
pub(crate) fn server(name: &str, value: Value<'_>) -> Result<GivenServer> {
    let (launch, enabled) = entry::from_json(value);
    named(&Entry { name: name.to_owned(), keys: Vec::new(), project: None, launch, enabled })
}

fn named(entry: &Entry) -> Result<GivenServer> {
    let at = user_folders()?;
    let project = entry.project.as_deref();
    let resolver = Resolver { client: "", variable: &variable, home: at.home(), project };
    let target = if !entry.enabled {
        Err("it is switched off in the file".to_owned())
    } else if is_behind_gate(&entry.launch) {
        Err("it is behind the gate already; `tollgate scan SERVER` scans the server".to_owned())
    } else {
        target(entry, &resolver)
    };
    Ok(GivenServer { name: entry.name.clone(), target })
}
