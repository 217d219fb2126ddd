//! What to paste into each client for a grant: the entries that `clients install` writes, into an empty file.

use dashboard::ClientSnippet;
use store::registry::{Grant, Token};

use super::discover::path_of;
use super::folders::{Base, UserFolders};
use super::table::{Client, FileSpec, client};
use super::write::Gate;
use super::{json_file, toml_file, user_folders};
use crate::context::{Stores, default_home};

/// In the order in which pages show them.
const CLIENTS: [&str; 6] = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini"];

pub(crate) struct ClientSnippets {
    gate: Gate,
}

impl ClientSnippets {
    /// For a gate whose `/mcp` is at this address.
    pub(crate) fn new(url: &str, stores: &Stores) -> ClientSnippets {
        ClientSnippets { gate: Gate::new(stores, default_home().as_deref()).at(url) }
    }

    pub(crate) fn of(&self, grant: &Grant, token: &Token) -> Vec<ClientSnippet> {
        let folders = user_folders().ok();
        let mut snippets = Vec::new();
        for client in CLIENTS.iter().filter_map(|name| client(name)) {
            if client.name == "claude-code" {
                snippets.extend(grant.server_access.first().map(|_| self.claude_code(token)));
            }
            let Some(spec) = client.files.iter().find(|spec| spec.base != Base::Project) else {
                continue;
            };
            if let Some(text) = self.file(client, spec, grant, token) {
                snippets.push(ClientSnippet {
                    client: client.title,
                    hint: format!("In {}", shown_path(spec, folders.as_ref())),
                    text,
                });
            }
        }
        snippets.push(self.plain(token));
        snippets
    }

    /// The whole file of a client that has nothing but the servers of this grant.
    fn file(
        &self,
        client: &Client,
        spec: &FileSpec,
        grant: &Grant,
        token: &Token,
    ) -> Option<String> {
        let mut text = String::new();
        for access in &grant.server_access {
            let keys = spec.keys(&access.server);
            let members =
                self.gate.members(client, false, &access.server, &grant.label, Some(token));
            let added = if spec.is_toml() {
                toml_file::add(&text, &keys, &members)
            } else {
                json_file::add(&text, &keys, &members)
            };
            text = added.ok()?;
        }
        (!text.is_empty()).then_some(text)
    }

    fn claude_code(&self, token: &Token) -> ClientSnippet {
        let text = format!(
            "claude mcp add --transport http tollgate {} --header \"Authorization: Bearer {}\"",
            self.gate.url,
            token.expose()
        );
        ClientSnippet { client: "Claude Code", hint: "In a terminal".to_owned(), text }
    }

    fn plain(&self, token: &Token) -> ClientSnippet {
        let bearer = format!("Bearer {}", token.expose());
        let entry = serde_json::json!({
            "type": "http",
            "url": self.gate.url,
            "headers": { "Authorization": bearer },
        });
        let text = format!("{:#}", serde_json::json!({ "mcpServers": { "tollgate": entry } }));
        ClientSnippet {
            client: "Other clients",
            hint: "All servers at one address".to_owned(),
            text,
        }
    }
}

fn shown_path(spec: &FileSpec, folders: Option<&UserFolders>) -> String {
    folders.map_or_else(|| spec.path.to_owned(), |at| path_of(spec, at).display().to_string())
}
