//! The clients that the doctor checks for, and the steps of each.

/// A step of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Public https: the client calls from its own machines.
    Internet,
    Challenge,
    Resource,
    Metadata,
    Documents,
    Registration,
    OfflineAccess,
    Authorize,
    Token,
}

/// What a client does, in its order, and where it wants to be sent back to.
pub(super) struct Client {
    pub(super) name: &'static str,
    /// The redirect address that it registers, and the one that it sends.
    pub(super) registered: &'static str,
    pub(super) redirect: &'static str,
    pub(super) steps: &'static [Step],
}

pub(super) const CLIENTS: &[Client] = &[
    Client {
        name: "claude.ai",
        registered: "https://claude.ai/api/mcp/auth_callback",
        redirect: "https://claude.ai/api/mcp/auth_callback",
        steps: &[
            Step::Internet,
            Step::Challenge,
            Step::Resource,
            Step::Metadata,
            Step::Documents,
            Step::Registration,
            Step::Authorize,
            Step::Token,
        ],
    },
    Client {
        name: "ChatGPT",
        registered: "https://chatgpt.com/connector_platform_oauth_redirect",
        redirect: "https://chatgpt.com/connector_platform_oauth_redirect",
        steps: &[
            Step::Internet,
            Step::Challenge,
            Step::Resource,
            Step::Metadata,
            Step::OfflineAccess,
            Step::Documents,
            Step::Registration,
            Step::Authorize,
            Step::Token,
        ],
    },
    Client {
        name: "VS Code",
        registered: "http://127.0.0.1/",
        redirect: "http://127.0.0.1:33418/",
        steps: &[
            Step::Challenge,
            Step::Resource,
            Step::Metadata,
            Step::Documents,
            Step::Registration,
            Step::Authorize,
            Step::Token,
        ],
    },
    Client {
        name: "Cursor",
        registered: "cursor://anysphere.cursor-mcp/oauth/callback",
        redirect: "cursor://anysphere.cursor-mcp/oauth/callback",
        steps: &[
            Step::Challenge,
            Step::Resource,
            Step::Metadata,
            Step::Registration,
            Step::Authorize,
            Step::Token,
        ],
    },
    Client {
        name: "Claude Code",
        registered: "http://localhost/callback",
        redirect: "http://localhost:54545/callback",
        steps: &[
            Step::Challenge,
            Step::Resource,
            Step::Metadata,
            Step::Documents,
            Step::Registration,
            Step::Authorize,
            Step::Token,
        ],
    },
];
