//! The clients tollgate knows: where each keeps its servers, and how each writes one. A new client
//! is one more entry here.

use super::places::Base;

pub(crate) struct Client {
    /// The word of the command line, and the label of its grant.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(super) files: &'static [Place],
    pub(super) speech: Speech,
    /// What the owner should know when the file is changed.
    pub(super) note: Option<&'static str>,
}

pub(super) struct Place {
    pub(super) base: Base,
    pub(super) path: &'static str,
    pub(super) servers: &'static [Spot],
}

impl Place {
    /// TOML; every other file is JSON of one kind or another.
    pub(super) fn is_toml(&self) -> bool {
        std::path::Path::new(self.path).extension().is_some_and(|ending| ending == "toml")
    }
}

/// Where in a file servers stand, by keys from the root.
pub(super) enum Spot {
    At(&'static [&'static str]),
    /// Below every member of an object, named by a project's folder.
    EachProject(&'static str, &'static str),
}

/// How a client writes a server it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Speech {
    /// The member that holds the address; none for a client that only starts commands.
    pub(super) url: Option<&'static str>,
    pub(super) headers: &'static str,
    /// The member `type`, where the client wants one: for addresses, for commands.
    pub(super) kinds: Option<(&'static str, &'static str)>,
    /// Program and arguments stand in one list.
    pub(super) one_list: bool,
}

const COMMAND_ONLY: Speech = Speech { url: None, headers: "headers", kinds: None, one_list: false };
const PLAIN_URL: Speech =
    Speech { url: Some("url"), headers: "headers", kinds: None, one_list: false };
const TYPED: Speech = Speech { kinds: Some(("http", "stdio")), ..PLAIN_URL };
const HTTP_URL: Speech = Speech { url: Some("httpUrl"), ..PLAIN_URL };

const MCP_SERVERS: &[Spot] = &[Spot::At(&["mcpServers"])];

const fn place(base: Base, path: &'static str, servers: &'static [Spot]) -> Place {
    Place { base, path, servers }
}

const VS_CODE_SETTINGS: &[Spot] = &[Spot::At(&["mcp", "servers"]), Spot::At(&["mcp.servers"])];
const VS_CODE_SERVERS: &[Spot] = &[Spot::At(&["servers"])];
const CODEX: &[Spot] = &[Spot::At(&["mcp_servers"])];

pub(crate) const ALL: &[Client] = &[
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        files: &[place(Base::Settings, "Claude/claude_desktop_config.json", MCP_SERVERS)],
        speech: COMMAND_ONLY,
        note: Some(
            "Claude Desktop writes its file again from memory: quit it before an import, start it after",
        ),
    },
    Client {
        name: "claude-code",
        title: "Claude Code",
        files: &[
            place(
                Base::Home,
                ".claude.json",
                &[Spot::At(&["mcpServers"]), Spot::EachProject("projects", "mcpServers")],
            ),
            place(Base::Project, ".mcp.json", MCP_SERVERS),
        ],
        speech: TYPED,
        note: Some(
            "Claude Code writes `~/.claude.json` while it runs: end its sessions before an import",
        ),
    },
    Client {
        name: "cursor",
        title: "Cursor",
        files: &[
            place(Base::Home, ".cursor/mcp.json", MCP_SERVERS),
            place(Base::Project, ".cursor/mcp.json", MCP_SERVERS),
        ],
        speech: PLAIN_URL,
        note: None,
    },
    Client {
        name: "vscode",
        title: "VS Code",
        files: &[
            place(Base::Settings, "Code/User/mcp.json", VS_CODE_SERVERS),
            place(Base::Settings, "Code/User/settings.json", VS_CODE_SETTINGS),
            place(Base::Settings, "Code - Insiders/User/mcp.json", VS_CODE_SERVERS),
            place(Base::Settings, "Code - Insiders/User/settings.json", VS_CODE_SETTINGS),
            place(Base::Settings, "VSCodium/User/mcp.json", VS_CODE_SERVERS),
            place(Base::Project, ".vscode/mcp.json", VS_CODE_SERVERS),
        ],
        speech: TYPED,
        note: None,
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        files: &[place(Base::Home, ".codeium/windsurf/mcp_config.json", MCP_SERVERS)],
        speech: Speech { url: Some("serverUrl"), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "codex",
        title: "Codex",
        files: &[
            place(Base::Codex, "config.toml", CODEX),
            place(Base::Project, ".codex/config.toml", CODEX),
        ],
        speech: Speech { headers: "http_headers", ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        files: &[
            place(Base::Home, ".gemini/settings.json", MCP_SERVERS),
            place(Base::Project, ".gemini/settings.json", MCP_SERVERS),
        ],
        speech: HTTP_URL,
        note: None,
    },
    Client {
        name: "zed",
        title: "Zed",
        files: &[
            place(Base::Config, "zed/settings.json", &[Spot::At(&["context_servers"])]),
            place(Base::Project, ".zed/settings.json", &[Spot::At(&["context_servers"])]),
        ],
        speech: PLAIN_URL,
        note: None,
    },
    Client {
        name: "cline",
        title: "Cline",
        files: &[
            place(
                Base::Settings,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                MCP_SERVERS,
            ),
            place(Base::Home, ".cline/data/settings/cline_mcp_settings.json", MCP_SERVERS),
        ],
        speech: Speech { kinds: Some(("streamableHttp", "stdio")), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "roo",
        title: "Roo Code",
        files: &[
            place(
                Base::Settings,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                MCP_SERVERS,
            ),
            place(Base::Project, ".roo/mcp.json", MCP_SERVERS),
        ],
        speech: Speech { kinds: Some(("streamable-http", "stdio")), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "amazon-q",
        title: "Amazon Q",
        files: &[
            place(Base::Home, ".aws/amazonq/mcp.json", MCP_SERVERS),
            place(Base::Project, ".amazonq/mcp.json", MCP_SERVERS),
        ],
        speech: TYPED,
        note: None,
    },
    Client {
        name: "lm-studio",
        title: "LM Studio",
        files: &[place(Base::Home, ".lmstudio/mcp.json", MCP_SERVERS)],
        speech: PLAIN_URL,
        note: None,
    },
    Client {
        name: "opencode",
        title: "opencode",
        files: &[
            place(Base::Config, "opencode/opencode.json", &[Spot::At(&["mcp"])]),
            place(Base::Config, "opencode/opencode.jsonc", &[Spot::At(&["mcp"])]),
            place(Base::Project, "opencode.json", &[Spot::At(&["mcp"])]),
        ],
        speech: Speech { kinds: Some(("remote", "local")), one_list: true, ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "kiro",
        title: "Kiro",
        files: &[
            place(Base::Home, ".kiro/settings/mcp.json", MCP_SERVERS),
            place(Base::Project, ".kiro/settings/mcp.json", MCP_SERVERS),
        ],
        speech: PLAIN_URL,
        note: None,
    },
    Client {
        name: "copilot-cli",
        title: "GitHub Copilot CLI",
        files: &[place(Base::Home, ".copilot/mcp-config.json", MCP_SERVERS)],
        speech: Speech { kinds: Some(("http", "local")), ..PLAIN_URL },
        note: None,
    },
    Client {
        name: "qwen",
        title: "Qwen Code",
        files: &[
            place(Base::Home, ".qwen/settings.json", MCP_SERVERS),
            place(Base::Project, ".qwen/settings.json", MCP_SERVERS),
        ],
        speech: HTTP_URL,
        note: None,
    },
    Client {
        name: "crush",
        title: "Crush",
        files: &[
            place(Base::Config, "crush/crush.json", &[Spot::At(&["mcp"])]),
            place(Base::Project, "crush.json", &[Spot::At(&["mcp"])]),
        ],
        speech: TYPED,
        note: None,
    },
    Client {
        name: "junie",
        title: "JetBrains Junie",
        files: &[
            place(Base::Home, ".junie/mcp/mcp.json", MCP_SERVERS),
            place(Base::Project, ".junie/mcp/mcp.json", MCP_SERVERS),
        ],
        speech: COMMAND_ONLY,
        note: None,
    },
];

pub(crate) fn client(name: &str) -> Option<&'static Client> {
    ALL.iter().find(|client| client.name == name)
}

/// Members of an entry that say how to reach the server. They are replaced; all others stay.
pub(super) const CONNECTION: &[&str] = &[
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
