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
    Documents,
    Registration,
    Authorize,
    Token,
}

impl SignInStep {
    const ALL: [SignInStep; 9] = [
        SignInStep::Internet,
        SignInStep::Challenge,
        SignInStep::Resource,
        SignInStep::Metadata,
        SignInStep::OfflineAccess,
        SignInStep::Documents,
        SignInStep::Registration,
        SignInStep::Authorize,
        SignInStep::Token,
    ];

    /// Whether only some clients take it.
    fn is_optional(self) -> bool {
        use SignInStep::{Documents, Internet, OfflineAccess};
        matches!(self, Internet | OfflineAccess | Documents)
    }
}

/// A client: its redirect addresses, and the optional steps that it takes.
pub(super) struct SignInClient {
    pub(super) name: &'static str,
    /// The redirect address that it registers, and the one that it sends.
    pub(super) registered: &'static str,
    pub(super) redirect: &'static str,
    optional: &'static [SignInStep],
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
        optional: &[SignInStep::Internet, SignInStep::Documents],
    },
    SignInClient {
        name: "ChatGPT",
        registered: "https://chatgpt.com/connector_platform_oauth_redirect",
        redirect: "https://chatgpt.com/connector_platform_oauth_redirect",
        optional: &[SignInStep::Internet, SignInStep::OfflineAccess, SignInStep::Documents],
    },
    SignInClient {
        name: "VS Code",
        registered: "http://127.0.0.1/",
        redirect: "http://127.0.0.1:33418/",
        optional: &[SignInStep::Documents],
    },
    SignInClient {
        name: "Cursor",
        registered: "cursor://anysphere.cursor-mcp/oauth/callback",
        redirect: "cursor://anysphere.cursor-mcp/oauth/callback",
        optional: &[],
    },
    SignInClient {
        name: "Claude Code",
        registered: "http://localhost/callback",
        redirect: "http://localhost:54545/callback",
        optional: &[SignInStep::Documents],
    },
];
