//! How a protected server and its authorization server behave.

use std::time::Duration;

/// Everything that a test can choose.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a test")]
pub struct Behaviour {
    /// The path of the issuer, such as `/tenant`; empty for the origin.
    pub issuer_path: &'static str,
    /// Where the metadata of the issuer is, relative to the origin; at all addresses if empty.
    pub metadata_at: Option<&'static str>,
    /// Whether there is a protected resource document.
    pub has_resource_document: bool,
    /// Whether the challenge names that document.
    pub names_document: bool,
    /// Another `resource` than the server's address.
    pub resource: Option<String>,
    /// Another issuer in the metadata than the document names.
    pub claimed_issuer: Option<String>,
    /// The status of a registration; none if there is no endpoint.
    pub registration: Option<u16>,
    pub takes_client_documents: bool,
    /// `code_challenge_methods_supported`; none to leave it out.
    pub challenge_methods: Option<Vec<&'static str>>,
    /// The scopes in the challenge of a request without a token.
    pub challenge_scope: Option<&'static str>,
    pub scopes_supported: Option<Vec<&'static str>>,
    /// Scopes that a tool call needs.
    pub call_scope: Option<&'static str>,
    /// Scopes that are granted whatever was requested.
    pub granted_scope: Option<&'static str>,
    /// The lifetime of an access token; none to leave it out.
    pub expires_s: Option<i64>,
    pub gives_refresh_token: bool,
    /// Each refresh token works once.
    pub rotates: bool,
    /// The status of the next refreshes instead of tokens.
    pub refresh_status: Option<u16>,
    /// Whether the redirect has `iss`, and which.
    pub iss: Iss,
    /// Whether the metadata promises `iss`.
    pub promises_iss: bool,
    /// The issuer refuses requests with `resource`.
    pub refuses_resource: bool,
    /// Whether tokens are refused by the server although they are valid.
    pub refuses_tokens: bool,
    pub has_revocation: bool,
    /// How long a refresh takes after it took effect.
    pub delay: Duration,
    /// Answers the handshake without a token.
    pub opens_handshake: bool,
    /// Gives out session ids, and refuses requests without a known one.
    pub has_sessions: bool,
    /// Speaks HTTP+SSE of 2024-11-05 instead of streamable HTTP.
    pub has_sse: bool,
    /// Repeats the bearer token in the result of a tool.
    pub leaks_token: bool,
}

/// The `iss` of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Iss {
    Absent,
    Right,
    Other(String),
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            issuer_path: "",
            metadata_at: None,
            has_resource_document: true,
            names_document: true,
            resource: None,
            claimed_issuer: None,
            registration: Some(201),
            takes_client_documents: false,
            challenge_methods: Some(vec!["S256"]),
            challenge_scope: None,
            scopes_supported: None,
            call_scope: None,
            granted_scope: None,
            expires_s: Some(3600),
            gives_refresh_token: true,
            rotates: true,
            refresh_status: None,
            iss: Iss::Absent,
            promises_iss: false,
            refuses_resource: false,
            refuses_tokens: false,
            has_revocation: true,
            delay: Duration::ZERO,
            opens_handshake: false,
            has_sessions: false,
            has_sse: false,
            leaks_token: false,
        }
    }
}
