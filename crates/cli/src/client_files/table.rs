//! The clients tollgate knows: where each keeps its servers, and how each writes one. A new client
//! is one more entry here.

use super::folders::Base;

pub(crate) struct Client {
    /// The name on the command line, and the label of its grant.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) files: &'static [FileSpec],
    pub(crate) format: EntryFormat,
    /// What the owner should know when the file is changed.
    pub(crate) note: Option<&'static str>,
}

pub(crate) struct FileSpec {
    pub(crate) base: Base,
    pub(crate) path: &'static str,
    pub(crate) servers: &'static [KeyPath],
}

impl FileSpec {
    /// TOML; every other file is JSON of one kind or another.
    pub(crate) fn is_toml(&self) -> bool {
        std::path::Path::new(self.path).extension().is_some_and(|ending| ending == "toml")
    }

    /// The keys of a server's entry from the root.
    pub(crate) fn keys(&self, server: &str) -> Vec<String> {
        let at = self.servers.iter().find_map(|key_path| match key_path {
            KeyPath::At(keys) => Some(*keys),
            KeyPath::EachProject(..) => None,
        });
        let at = at.unwrap_or_default().iter().map(|key| (*key).to_owned());
        at.chain([server.to_owned()]).collect()
    }
}

/// Where in a file the servers are, as keys from the root.
pub(crate) enum KeyPath {
    At(&'static [&'static str]),
    /// Below every member of an object, named by a project's folder.
    EachProject(&'static str, &'static str),
}

/// How a client's file describes a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryFormat {
    /// The member that holds the address; none for a client that only starts commands.
    pub(crate) url: Option<&'static str>,
    pub(crate) headers: &'static str,
    /// The member `type`, where the client wants one: for addresses, for commands.
    pub(crate) kinds: Option<(&'static str, &'static str)>,
    /// Program and arguments are one list.
    pub(crate) one_list: bool,
}

const COMMAND_ONLY: EntryFormat =
    EntryFormat { url: None, headers: "headers", kinds: None, one_list: false };
const PLAIN_URL: EntryFormat =
    EntryFormat { url: Some("url"), headers: "headers", kinds: None, one_list: false };
const TYPED: EntryFormat = EntryFormat { kinds: Some(("http", "stdio")), ..PLAIN_URL };
const HTTP_URL: EntryFormat = EntryFormat { url: Some("httpUrl"), ..PLAIN_URL };

const MCP_SERVERS: &[KeyPath] = &[KeyPath::At(&["mcpServers"])];

const fn file(base: Base, path: &'static str, servers: &'static [KeyPath]) -> FileSpec {
    FileSpec { base, path, servers }
}

const VS_CODE_SETTINGS: &[KeyPath] =
    &[KeyPath::At(&["mcp", "servers"]), KeyPath::At(&["mcp.servers"])];
const VS_CODE_SERVERS: &[KeyPath] = &[KeyPath::At(&["servers"])];
const CODEX: &[KeyPath] = &[KeyPath::At(&["mcp_servers"])];

pub(crate) const ALL: &[Client] = &[
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        files: &[file(Base::Settings, "Claude/claude_desktop_config.json", MCP_SERVERS)],
        format: COMMAND_ONLY,
        note: Some(
            "Claude Desktop writes its file again from memory: quit it before an import, start it after",
        ),
    },
    Client {
        name: "claude-code",
        title: "Claude Code",
        files: &[
            file(
                Base::Home,
                ".claude.json",
                &[KeyPath::At(&["mcpServers"]), KeyPath::EachProject("projects", "mcpServers")],
            ),
            file(Base::Project, ".mcp.json", MCP_SERVERS),
        ],
        format: TYPED,
        note: Some(
            "Claude Code writes `~/.claude.json` while it runs: end its sessions before an import",
        ),
    },
    Client {
        name: "cursor",
        title: "Cursor",
        files: &[
            file(Base::Home, ".cursor/mcp.json", MCP_SERVERS),
            file(Base::Project, ".cursor/mcp.json", MCP_SERVERS),
        ],
        format: PLAIN_URL,
        note: None,
    },
    Client {
        name: "vscode",
        title: "VS Code",
        files: &[
            file(Base::Settings, "Code/User/mcp.json", VS_CODE_SERVERS),
            file(Base::Settings, "Code/User/settings.json", VS_CODE_SETTINGS),
            file(Base::Settings, "Code - Insiders/User/mcp.json", VS_CODE_SERVERS),
            file(Base::Settings, "Code - Insiders/User/settings.json", VS_CODE_SETTINGS),
            file(Base::Settings, "VSCodium/User/mcp.json", VS_CODE_SERVERS),
            file(Base::Project, ".vscode/mcp.json", VS_CODE_SERVERS),
        ],
        format: TYPED,
        note: None,
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        files: &[file(Base::Home, ".codeium/windsurf/mcp_config.json", MCP_SERVERS)],
        format: EntryFormat { url: Some("serverUrl"), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "codex",
        title: "Codex",
        files: &[
            file(Base::Codex, "config.toml", CODEX),
            file(Base::Project, ".codex/config.toml", CODEX),
        ],
        format: EntryFormat { headers: "http_headers", ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        files: &[
            file(Base::Home, ".gemini/settings.json", MCP_SERVERS),
            file(Base::Project, ".gemini/settings.json", MCP_SERVERS),
        ],
        format: HTTP_URL,
        note: None,
    },
    Client {
        name: "zed",
        title: "Zed",
        files: &[
            file(Base::Config, "zed/settings.json", &[KeyPath::At(&["context_servers"])]),
            file(Base::Project, ".zed/settings.json", &[KeyPath::At(&["context_servers"])]),
        ],
        format: PLAIN_URL,
        note: None,
    },
    Client {
        name: "cline",
        title: "Cline",
        files: &[
            file(
                Base::Settings,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                MCP_SERVERS,
            ),
            file(Base::Home, ".cline/data/settings/cline_mcp_settings.json", MCP_SERVERS),
        ],
        format: EntryFormat { kinds: Some(("streamableHttp", "stdio")), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "roo",
        title: "Roo Code",
        files: &[
            file(
                Base::Settings,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                MCP_SERVERS,
            ),
            file(Base::Project, ".roo/mcp.json", MCP_SERVERS),
        ],
        format: EntryFormat { kinds: Some(("streamable-http", "stdio")), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "amazon-q",
        title: "Amazon Q",
        files: &[
            file(Base::Home, ".aws/amazonq/mcp.json", MCP_SERVERS),
            file(Base::Project, ".amazonq/mcp.json", MCP_SERVERS),
        ],
        format: TYPED,
        note: None,
    },
    Client {
        name: "lm-studio",
        title: "LM Studio",
        files: &[file(Base::Home, ".lmstudio/mcp.json", MCP_SERVERS)],
        format: PLAIN_URL,
        note: None,
    },
    Client {
        name: "opencode",
        title: "opencode",
        files: &[
            file(Base::Config, "opencode/opencode.json", &[KeyPath::At(&["mcp"])]),
            file(Base::Config, "opencode/opencode.jsonc", &[KeyPath::At(&["mcp"])]),
            file(Base::Project, "opencode.json", &[KeyPath::At(&["mcp"])]),
        ],
        format: EntryFormat { kinds: Some(("remote", "local")), one_list: true, ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "kiro",
        title: "Kiro",
        files: &[
            file(Base::Home, ".kiro/settings/mcp.json", MCP_SERVERS),
            file(Base::Project, ".kiro/settings/mcp.json", MCP_SERVERS),
        ],
        format: PLAIN_URL,
        note: None,
    },
    Client {
        name: "copilot-cli",
        title: "GitHub Copilot CLI",
        files: &[file(Base::Home, ".copilot/mcp-config.json", MCP_SERVERS)],
        format: EntryFormat { kinds: Some(("http", "local")), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "qwen",
        title: "Qwen Code",
        files: &[
            file(Base::Home, ".qwen/settings.json", MCP_SERVERS),
            file(Base::Project, ".qwen/settings.json", MCP_SERVERS),
        ],
        format: HTTP_URL,
        note: None,
    },
    Client {
        name: "crush",
        title: "Crush",
        files: &[
            file(Base::Config, "crush/crush.json", &[KeyPath::At(&["mcp"])]),
            file(Base::Project, "crush.json", &[KeyPath::At(&["mcp"])]),
        ],
        format: TYPED,
        note: None,
    },
    Client {
        name: "junie",
        title: "JetBrains Junie",
        files: &[
            file(Base::Home, ".junie/mcp/mcp.json", MCP_SERVERS),
            file(Base::Project, ".junie/mcp/mcp.json", MCP_SERVERS),
        ],
        format: COMMAND_ONLY,
        note: None,
    },
];

pub(crate) fn client(name: &str) -> Option<&'static Client> {
    ALL.iter().find(|client| client.name == name)
}

/// Members of an entry that hold the connection. They are replaced; all others stay.
pub(crate) const CONNECTION: &[&str] = &[
    "args",
    "auth",
    "authProviderType",
    "bearer_token_env_var",
    "command",
    "cwd",
    "env",
    "env_http_headers",
    "env_vars",
    "envFile",
    "environment",
    "headers",
    "httpUrl",
    "http_headers",
    "oauth",
    "serverUrl",
    "source",
    "transport",
    "transportType",
    "type",
    "url",
];
