//! Configuration to paste into a client: JSON for Cursor and Claude Code, the stdio form for Claude
//! Desktop, and a `curl` that lists the tools.

use std::path::Path;

use serde_json::{Value, json};
use store::registry::{Grant, Token};
use store::settings::Settings;

/// Everything about a grant that a client needs.
#[derive(Clone)]
pub(crate) struct Snippet {
    /// The server's name in the client.
    name: String,
    pub(crate) url: String,
    token: Token,
    label: String,
    /// The server for the stdio form, which supports only one.
    server: Option<String>,
    home: String,
}

impl Snippet {
    pub(crate) fn new(grant: &Grant, token: &Token, settings: &Settings, home: &Path) -> Snippet {
        let server = match grant.server_access.as_slice() {
            [only] => Some(only.server.clone()),
            _ => None,
        };
        Snippet::of(server, grant, token, settings, home)
    }

    /// The same for one server of a grant that holds several, as the demo's does.
    #[cfg(feature = "demo")]
    pub(crate) fn on(
        server: &str,
        grant: &Grant,
        token: &Token,
        settings: &Settings,
        home: &Path,
    ) -> Snippet {
        Snippet::of(Some(server.to_owned()), grant, token, settings, home)
    }

    fn of(
        server: Option<String>,
        grant: &Grant,
        token: &Token,
        settings: &Settings,
        home: &Path,
    ) -> Snippet {
        let base = base(settings);
        Snippet {
            name: server.clone().unwrap_or_else(|| "tollgate".to_owned()),
            url: server.as_ref().map_or_else(|| base.clone(), |server| format!("{base}/{server}")),
            token: token.clone(),
            label: grant.label.clone(),
            server,
            home: home.display().to_string(),
        }
    }

    /// For clients that speak HTTP.
    pub(crate) fn http_json(&self) -> Value {
        let bearer = format!("Bearer {}", self.token.expose());
        let entry =
            json!({ "type": "http", "url": self.url, "headers": { "Authorization": bearer } });
        json!({ "mcpServers": { &self.name: entry } })
    }

    /// For clients that start a command. No token: only the owner can start it.
    fn stdio_json(&self, server: &str) -> Value {
        let program =
            std::env::current_exe().map_or("tollgate".to_owned(), |p| p.display().to_string());
        let arguments = ["--home", &self.home, "stdio", server, "--grant", &self.label];
        json!({ "mcpServers": { &self.name: { "command": program, "args": arguments } } })
    }

    /// A `curl` of one request. The newest revision needs no session, so one line is enough.
    pub(crate) fn curl(&self, method: &str, name: Option<&str>, params: &Value) -> String {
        let mut params = params.clone();
        if let Value::Object(fields) = &mut params {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            fields.insert("_meta".to_owned(), meta);
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let name = name.map(|name| format!(" -H 'Mcp-Name: {name}'")).unwrap_or_default();
        format!(
            "curl -s {url} -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \
             -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: {REVISION}' \
             -H 'Mcp-Method: {method}'{name} -d '{body}'",
            url = self.url,
            token = self.token.expose(),
        )
    }

    /// The same for a gate at another address than in the settings. `url` ends in `/mcp`.
    pub(crate) fn at(&self, url: &str) -> Snippet {
        let path = self.server.as_ref().map(|server| format!("/{server}")).unwrap_or_default();
        Snippet { url: format!("{url}{path}"), ..self.clone() }
    }

    /// Everything to paste, and a line to try it.
    pub(crate) fn text(&self) -> String {
        let list = self.curl("tools/list", None, &json!({}));
        format!("{}\nTry it while the gate is up:\n  {list}\n", self.client_text())
    }

    pub(crate) fn client_text(&self) -> String {
        let mut out = format!(
            "\ntoken (shown once; keep it like a password):\n  {}\n\nClaude Code:\n  {}\n",
            self.token.expose(),
            self.claude_code(),
        );
        out.push_str("\nCursor and other clients with a JSON file:\n");
        out.push_str(&indented(&self.http_json()));
        if let Some(server) = &self.server {
            out.push_str(
                "\nClaude Desktop and other clients that start a command (no token needed):\n",
            );
            out.push_str(&indented(&self.stdio_json(server)));
        }
        out
    }

    fn claude_code(&self) -> String {
        format!(
            "claude mcp add --transport http {} {} --header \"Authorization: Bearer {}\"",
            self.name,
            self.url,
            self.token.expose()
        )
    }
}

/// The address for clients. An unspecified address (0.0.0.0) is replaced by a host name if there is one.
fn base(settings: &Settings) -> String {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let listen = settings.listen;
    let host = match settings.hostnames.first() {
        Some(name) if listen.ip().is_unspecified() && name.contains(':') => name.clone(),
        Some(name) if listen.ip().is_unspecified() => format!("{name}:{}", listen.port()),
        _ => listen.to_string(),
    };
    format!("{scheme}://{host}/mcp")
}

const REVISION: &str = "2026-07-28";

fn indented(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("  {}\n", text.replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_is_replaced_by_the_host_name() {
        let called = |listen: &str, names: &[&str]| {
            let mut settings = Settings::default();
            settings.listen = listen.parse().unwrap_or(settings.listen);
            settings.hostnames = names.iter().map(|name| (*name).to_owned()).collect();
            base(&settings)
        };
        let names = ["gate.example.com"];
        assert_eq!(called("127.0.0.1:4180", &names), "http://127.0.0.1:4180/mcp");
        assert_eq!(called("0.0.0.0:4180", &names), "http://gate.example.com:4180/mcp");
        assert_eq!(called("[::]:4180", &["a.example:9"]), "http://a.example:9/mcp");
        assert_eq!(called("0.0.0.0:4180", &[]), "http://0.0.0.0:4180/mcp");
    }
}
