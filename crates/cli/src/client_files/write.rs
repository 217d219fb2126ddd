//! Writes entries that point at the gate: an address with the grant's token if the client supports it,
//! otherwise, and in files that a project shares, a command.

use anyhow::Result;
use serde_json::json;
use store::registry::Token;
use store::settings::Settings;

use crate::client_files::discover::ConfigFile;
use crate::client_files::json_file::{self, Member};
use crate::client_files::table::Client;
use crate::client_files::toml_file;
use crate::context::Stores;
use crate::program::find_program;
use crate::running;

/// The gate as clients reach it.
pub(crate) struct Gate {
    /// Ends in `/mcp`.
    pub(crate) url: String,
    program: String,
    /// The same for a file that is shared with others.
    shared_program: String,
    /// Arguments before `stdio`: the home, if it is not the default one.
    before: Vec<String>,
}

impl Gate {
    pub(crate) fn new(stores: &Stores, usual_home: Option<&std::path::Path>) -> Gate {
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

    /// The same gate at another address, which ends in `/mcp`.
    pub(crate) fn at(self, url: &str) -> Gate {
        Gate { url: url.to_owned(), ..self }
    }

    /// The members of an entry for `server`.
    pub(crate) fn members(
        &self,
        client: &Client,
        is_shared: bool,
        server: &str,
        grant: &str,
        token: Option<&Token>,
    ) -> Vec<Member> {
        let format = client.format;
        let mut members = Vec::new();
        let kind = |name: &str| ("type".to_owned(), json!(name));
        if let (Some(url), Some(token)) = (format.url, token) {
            members.extend(format.kinds.map(|(http, _)| kind(http)));
            members.push((url.to_owned(), json!(format!("{}/{server}", self.url))));
            let bearer = format!("Bearer {}", token.expose());
            members.push((format.headers.to_owned(), json!({ "Authorization": bearer })));
            return members;
        }
        let mut argv = self.before.clone();
        argv.extend(["stdio", server, "--grant", grant].map(str::to_owned));
        members.extend(format.kinds.map(|(_, stdio)| kind(stdio)));
        let program = if is_shared { &self.shared_program } else { &self.program };
        if format.one_list {
            argv.insert(0, program.clone());
            members.push(("command".to_owned(), json!(argv)));
        } else {
            members.push(("command".to_owned(), json!(program)));
            members.push(("args".to_owned(), json!(argv)));
        }
        members
    }
}

/// Whether an entry of this file carries a token.
pub(crate) fn takes_token(file: &ConfigFile) -> bool {
    file.client.format.url.is_some() && !file.is_shared()
}

pub(crate) fn redirect(
    file: &ConfigFile,
    text: &str,
    keys: &[String],
    members: &[Member],
) -> Result<String> {
    if file.is_toml() {
        toml_file::redirect(text, keys, members)
    } else {
        json_file::redirect(text, keys, members)
    }
}

fn address(settings: &Settings) -> String {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/mcp", settings.listen)
}

/// The full path, because desktop programs do not have the shell's `PATH`; and for shared files the name
/// alone, if a shell finds this program by it.
fn programs() -> (String, String) {
    const NAME: &str = "tollgate";
    let Ok(this) = std::env::current_exe() else { return (NAME.to_owned(), NAME.to_owned()) };
    let full = this.display().to_string();
    let found = find_program(NAME, None).and_then(|path| path.canonicalize().ok());
    let is_named = found.is_some() && found == this.canonicalize().ok();
    let shared = if is_named { NAME.to_owned() } else { full.clone() };
    (full, shared)
}
