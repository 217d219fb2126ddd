//! How an entry that points at the gate is written: an address with the grant's token where the
//! client can, a command elsewhere and in files that a project shares.

use anyhow::Result;
use serde_json::json;
use store::registry::Token;
use store::settings::Settings;

use super::edit::{self, Member};
use super::found::Found;
use super::table::Client;
use super::toml_file;
use crate::context::Stores;
use crate::program::find_program;
use crate::running;

/// The gate as clients reach it.
pub(super) struct Gate {
    /// Ends in `/mcp`.
    pub(super) url: String,
    program: String,
    /// The same for a file that others may have, too.
    shared_program: String,
    /// What stands before `stdio`: the home, when it is not the usual one.
    before: Vec<String>,
}

impl Gate {
    pub(super) fn new(stores: &Stores, usual_home: Option<&std::path::Path>) -> Gate {
        let home = stores.home.path();
        let running = running::all(home).into_iter().find_map(|facts| facts.url);
        let is_usual = usual_home.is_some_and(|usual| usual == home);
        let before = if is_usual {
            Vec::new()
        } else {
            vec!["--home".to_owned(), home.display().to_string()]
        };
        let (program, shared_program) = programs();
        let url = running.unwrap_or_else(|| address(&stores.settings));
        Gate { url, program, shared_program, before }
    }

    /// The members of an entry for `server`.
    pub(super) fn members(
        &self,
        client: &Client,
        is_shared: bool,
        server: &str,
        grant: &str,
        token: Option<&Token>,
    ) -> Vec<Member> {
        let speech = client.speech;
        let mut members = Vec::new();
        let kind = |name: &str| ("type".to_owned(), json!(name));
        if let (Some(url), Some(token)) = (speech.url, token) {
            members.extend(speech.kinds.map(|(http, _)| kind(http)));
            members.push((url.to_owned(), json!(format!("{}/{server}", self.url))));
            let bearer = format!("Bearer {}", token.expose());
            members.push((speech.headers.to_owned(), json!({ "Authorization": bearer })));
            return members;
        }
        let mut words = self.before.clone();
        words.extend(["stdio", server, "--grant", grant].map(str::to_owned));
        members.extend(speech.kinds.map(|(_, stdio)| kind(stdio)));
        let program = if is_shared { &self.shared_program } else { &self.program };
        if speech.one_list {
            words.insert(0, program.clone());
            members.push(("command".to_owned(), json!(words)));
        } else {
            members.push(("command".to_owned(), json!(program)));
            members.push(("args".to_owned(), json!(words)));
        }
        members
    }
}

/// Does an entry of this file carry a token?
pub(super) fn takes_token(found: &Found) -> bool {
    found.client.speech.url.is_some() && !found.is_shared()
}

pub(super) fn redirect(
    found: &Found,
    text: &str,
    keys: &[String],
    members: &[Member],
) -> Result<String> {
    if found.is_toml() {
        toml_file::redirect(text, keys, members)
    } else {
        edit::redirect(text, keys, members)
    }
}

fn address(settings: &Settings) -> String {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/mcp", settings.listen)
}

/// The full path, because a program with a window knows no shell's `PATH`; and for shared files the
/// name alone, when that is what a shell would start.
fn programs() -> (String, String) {
    const NAME: &str = "tollgate";
    let Ok(this) = std::env::current_exe() else { return (NAME.to_owned(), NAME.to_owned()) };
    let full = this.display().to_string();
    let found = find_program(NAME, None).and_then(|path| path.canonicalize().ok());
    let is_named = found.is_some() && found == this.canonicalize().ok();
    let shared = if is_named { NAME.to_owned() } else { full.clone() };
    (full, shared)
}
