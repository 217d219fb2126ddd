//! The clients that the doctor checks for: what each sends, as observed and documented in autumn 2026.

/// A client that is given the address of `/mcp` and nothing else.
pub(super) struct SignInClient {
    pub(super) name: &'static str,
    /// How its requests name it, where that is known. Firewalls have rules about such names.
    pub(super) user_agent: Option<&'static str>,
    /// Where it calls from.
    pub(super) origin: Origin,
    /// The address of its metadata document. It registers where documents are not taken.
    pub(super) document: Option<&'static str>,
    /// The redirect addresses that it registers.
    pub(super) registers: &'static [&'static str],
    /// The redirect addresses that it sends. Versions differ.
    pub(super) redirects: &'static [&'static str],
    /// The scopes that it asks for.
    pub(super) scope: &'static str,
    /// Whether it refuses a gate that does not offer `offline_access`.
    pub(super) needs_offline_access: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The machine of its user.
    Machine,
    /// Its vendor's machines.
    Cloud,
    /// Its vendor's machines, which have no IPv6.
    CloudIpv4,
}

/// A step of a sign-in, in the order of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignInStep {
    /// Public https: the client calls from its vendor's machines.
    Internet,
    Challenge,
    Resource,
    Metadata,
    /// The client gets an id: from its metadata document, or by registration.
    Identity,
    Authorize,
    Token,
}

impl SignInClient {
    /// The steps that it takes, in order.
    pub(super) fn steps(&self) -> &'static [SignInStep] {
        use SignInStep::{Authorize, Challenge, Identity, Internet, Metadata, Resource, Token};
        const ALL: &[SignInStep] =
            &[Internet, Challenge, Resource, Metadata, Identity, Authorize, Token];
        match (self.origin, ALL) {
            (Origin::Machine, [_, rest @ ..]) => rest,
            (_, all) => all,
        }
    }
}

pub(super) const CLIENTS: &[SignInClient] = &[
    SignInClient {
        name: "claude.ai",
        user_agent: Some("Claude-User"),
        origin: Origin::CloudIpv4,
        document: Some("https://claude.ai/oauth/mcp-oauth-client-metadata"),
        registers: &["https://claude.ai/api/mcp/auth_callback"],
        redirects: &["https://claude.ai/api/mcp/auth_callback"],
        scope: "mcp offline_access",
        needs_offline_access: false,
    },
    SignInClient {
        name: "ChatGPT",
        user_agent: Some("openai-mcp/1.0.0 (ChatGPT)"),
        origin: Origin::Cloud,
        document: Some("https://chatgpt.com/oauth/client.json"),
        registers: &["https://chatgpt.com/connector_platform_oauth_redirect"],
        redirects: &["https://chatgpt.com/connector_platform_oauth_redirect"],
        scope: "mcp offline_access",
        needs_offline_access: true,
    },
    SignInClient {
        name: "VS Code",
        user_agent: None,
        origin: Origin::Machine,
        document: Some("https://vscode.dev/oauth/client-metadata.json"),
        registers: &[
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
        ],
        redirects: &["http://127.0.0.1:33418/"],
        scope: "mcp",
        needs_offline_access: false,
    },
    // Newer versions have a document, too (https://cursor.com/oauth/mcp-client.json); older ones only register.
    SignInClient {
        name: "Cursor",
        user_agent: None,
        origin: Origin::Machine,
        document: None,
        registers: &[
            "http://localhost:8787/callback",
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "https://www.cursor.com/agents/mcp/oauth/callback",
        ],
        redirects: &[
            "http://localhost:8787/callback",
            "cursor://anysphere.cursor-mcp/oauth/callback",
        ],
        scope: "mcp offline_access",
        needs_offline_access: false,
    },
    SignInClient {
        name: "Claude Code",
        user_agent: Some("claude-code/2.1.259 (cli)"),
        origin: Origin::Machine,
        document: Some("https://claude.ai/oauth/claude-code-client-metadata"),
        registers: &["http://localhost:54545/callback"],
        redirects: &["http://localhost:54545/callback"],
        scope: "mcp offline_access",
        needs_offline_access: false,
    },
];

#[cfg(test)]
mod tests {
    use oauth::server::{RedirectUri, known_document};

    use super::*;

    /// The doctor must not say that a client can sign in whose request the consent page would refuse.
    #[test]
    fn a_document_names_the_redirect_addresses_that_its_client_sends() {
        for client in CLIENTS {
            let Some(id) = client.document else { continue };
            let document = known_document(id);
            for redirect in client.redirects {
                let sent = RedirectUri::parse(redirect);
                let accepts = |sent| document.as_ref().is_some_and(|known| known.accepts(&sent));
                assert!(sent.is_ok_and(accepts), "{}: {redirect}", client.name);
            }
        }
    }
}
