//! The clients that the doctor checks for, and the steps of each.

/// A step of a sign-in, in the order of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignInStep {
    /// Public https: the client calls from its own machines.
    Internet,
    Challenge,
    Resource,
    Metadata,
    OfflineAccess,
    /// The client gets an id: from its metadata document, or by registration.
    Registration,
    Authorize,
    Token,
}

impl SignInStep {
    const ALL: [SignInStep; 8] = [
        SignInStep::Internet,
        SignInStep::Challenge,
        SignInStep::Resource,
        SignInStep::Metadata,
        SignInStep::OfflineAccess,
        SignInStep::Registration,
        SignInStep::Authorize,
        SignInStep::Token,
    ];

    /// Whether only some clients take it.
    fn is_optional(self) -> bool {
        matches!(self, SignInStep::Internet | SignInStep::OfflineAccess)
    }
}

/// A client: its redirect addresses, and the optional steps that it takes.
pub(super) struct SignInClient {
    pub(super) name: &'static str,
    /// The redirect address that it registers, and the one that it sends.
    pub(super) registered: &'static str,
    pub(super) redirect: &'static str,
    optional: &'static [SignInStep],
    /// Whether it has a metadata document, and registers only where those are not taken.
    pub(super) has_document: bool,
}

impl SignInClient {
    /// The steps that it takes, in order.
    pub(super) fn steps(&self) -> Vec<SignInStep> {
        let is_taken = |step: &SignInStep| !step.is_optional() || self.optional.contains(step);
        SignInStep::ALL.into_iter().filter(is_taken).collect()
    }
}

pub(super) const CLIENTS: &[SignInClient] = &[
    SignInClient {
        name: "claude.ai",
        registered: "https://claude.ai/api/mcp/auth_callback",
        redirect: "https://claude.ai/api/mcp/auth_callback",
        optional: &[SignInStep::Internet],
        has_document: true,
    },
    SignInClient {
        name: "ChatGPT",
        registered: "https://chatgpt.com/connector_platform_oauth_redirect",
        redirect: "https://chatgpt.com/connector_platform_oauth_redirect",
        optional: &[SignInStep::Internet, SignInStep::OfflineAccess],
        has_document: true,
    },
    SignInClient {
        name: "VS Code",
        registered: "http://127.0.0.1/",
        redirect: "http://127.0.0.1:33418/",
        optional: &[],
        has_document: true,
    },
    SignInClient {
        name: "Cursor",
        registered: "cursor://anysphere.cursor-mcp/oauth/callback",
        redirect: "cursor://anysphere.cursor-mcp/oauth/callback",
        optional: &[],
        has_document: false,
    },
    SignInClient {
        name: "Claude Code",
        registered: "http://localhost/callback",
        redirect: "http://localhost:54545/callback",
        optional: &[],
        has_document: true,
    },
];
