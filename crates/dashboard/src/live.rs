//! What only the running gate knows and does. The dashboard reaches the gate through this and nothing else.

use std::sync::Arc;

use connectors::ConnectorContext;
use oauth::server::Issuer;
use serde_json::Value;
use store::registry::{Grant, NewServer, PolicyText, Server, Target, Token};
use store::settings::Settings;

pub trait Live: Send + Sync {
    /// The settings file as the gate uses it now.
    fn settings(&self) -> Arc<Settings>;
    /// Makes the gate use the registry as it is now, before this returns.
    fn apply_changes(&self);
    /// The state of each server, as `tollgate status --json` prints it.
    fn servers(&self) -> Value;
    /// The owner's accounts and records; nothing where they cannot be opened.
    fn connectors(&self) -> Option<Arc<ConnectorContext>>;
    /// Whether this is the demo, which has a tour.
    fn is_demo(&self) -> bool {
        false
    }
    /// A command of tollgate for a terminal, with the `--home` of this gate if it was started with one.
    fn command(&self, words: &str) -> String {
        format!("tollgate {words}")
    }
    /// Calls a tool as the agent of the demo; waits for the response unless the call waits for a human.
    fn demo_call(&self, _server: &str, _tool: &str, _arguments: &Value, _waits: bool) {}
    /// Makes the server of the tour change the definition of its tool, or undo the change.
    fn change_demo_tool(&self) {}
    /// The address of `/mcp`.
    fn mcp_url(&self) -> String;
    /// The origin where clients sign in: the public URL, or the loopback address.
    fn issuer(&self) -> Issuer;
    /// The gate's own client metadata document (CIMD); none without a public address.
    fn client_document(&self) -> Option<Value>;
    /// Begins a sign-in at a server that wants OAuth, for one grant or for all, in a browser that reached the page
    /// at this host. The error is for a person.
    fn begin_server_sign_in(
        &self,
        server: &Server,
        grant: Option<&str>,
        host: &str,
    ) -> Result<ServerSignIn, String>;
    /// Ends all logins at a server that was removed. Returns how each ended.
    fn sign_out_of_server(&self, server: &str) -> Result<Vec<&'static str>, String>;
    /// Lists the tools of a registered server and updates its pins.
    fn list_tools(&self, server: &str) -> Result<(), String>;
    /// Connects to a server that is not registered and reads its lists. Nothing is stored.
    fn try_server(&self, new: &NewServer) -> Result<TriedServer, String>;
    /// The servers in the configuration files of clients on this machine.
    fn client_servers(&self) -> Vec<ClientServer>;
    /// Calls a tool as a client of this grant would: decided, admitted, recorded. Returns the response.
    fn call_tool(&self, call: &ToolTrial<'_>) -> Result<Value, String>;
    /// The built-in policy of a built-in server.
    fn own_policy(&self, service: &str) -> Option<PolicyText>;
    /// What to paste into each client.
    fn snippets(&self, grant: &Grant, token: &Token) -> Vec<ClientSnippet>;
}

/// A sign-in at a server that a browser continues.
pub struct ServerSignIn {
    /// The address at the issuer.
    pub url: String,
    pub issuer: String,
    pub scopes: Vec<String>,
    /// The cookie that the browser must present with the redirect, with its name, path and lifetime.
    pub cookie: String,
}

/// The lists of a server that was tried, each item as JSON.
pub struct TriedServer {
    /// With the full path of its program.
    pub target: Target,
    pub tools: Vec<String>,
    pub resources: Vec<String>,
    pub prompts: Vec<String>,
    pub instructions: Option<String>,
}

/// A server that a client reaches without the gate.
pub struct ClientServer {
    pub client: String,
    pub name: String,
    /// The command or address, without secrets.
    pub shown: String,
    pub target: Target,
}

/// One call of a tool from the dashboard.
pub struct ToolTrial<'a> {
    pub grant: &'a str,
    pub server: &'a str,
    pub tool: &'a str,
    /// A JSON object.
    pub arguments: &'a str,
    /// The client's name in the audit row.
    pub client: &'a str,
}

/// Configuration of one client.
pub struct ClientSnippet {
    pub client: &'static str,
    /// Where it goes.
    pub hint: String,
    pub text: String,
}
