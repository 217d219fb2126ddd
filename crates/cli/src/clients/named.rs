//! Reads a settings file that a person names, whichever client it belongs to.

use anyhow::Result;
use policy::json::Value;
use store::registry::Target;

use super::entry::{self, Entry, Launch};
use super::places::Base;
use super::plan::{is_behind_gate, target};
use super::resolve::Resolver;
use super::table::ALL;
use super::{found, surroundings, variable};

/// A server of such a file, or why it cannot be asked.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) target: Result<Target, String>,
}

/// The servers of a file under every member where some client keeps them. None is no error: the file
/// may be something else.
pub(crate) fn servers(text: &str, is_toml: bool) -> Result<Vec<Named>> {
    let at = surroundings()?;
    let mut entries: Vec<Entry> = Vec::new();
    for place in ALL.iter().flat_map(|client| client.files) {
        if place.is_toml() != is_toml {
            continue;
        }
        for mut entry in found::entries(place, text, &at)? {
            if place.base == Base::Project {
                // The file may lie anywhere; only what it says itself counts.
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

/// A bare entry, as documentation shows it.
pub(crate) fn server(name: &str, value: Value<'_>) -> Result<Named> {
    let (launch, enabled) = entry::from_json(value);
    named(&Entry { name: name.to_owned(), keys: Vec::new(), project: None, launch, enabled })
}

fn named(entry: &Entry) -> Result<Named> {
    let at = surroundings()?;
    let project = entry.project.as_deref();
    let resolver = Resolver { client: "", variable: &variable, home: at.home(), project };
    let target = if !entry.enabled {
        Err("it is switched off in the file".to_owned())
    } else if is_behind_gate(&entry.launch) {
        Err("it goes through the gate already; `tollgate scan SERVER` asks the server".to_owned())
    } else {
        target(entry, &resolver)
    };
    Ok(Named { name: entry.name.clone(), target })
}
