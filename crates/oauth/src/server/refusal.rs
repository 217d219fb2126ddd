//! Error responses (RFC 6749 5.2, RFC 7591 3.2.2, RFC 8707 2).

use std::borrow::Cow;

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    InvalidRequest,
    InvalidClient,
    InvalidGrant,
    UnsupportedGrantType,
    UnsupportedResponseType,
    InvalidTarget,
    AccessDenied,
    InvalidRedirectUri,
    InvalidClientMetadata,
    TemporarilyUnavailable,
    ServerError,
}

impl ErrorCode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InvalidRequest => "invalid_request",
            ErrorCode::InvalidClient => "invalid_client",
            ErrorCode::InvalidGrant => "invalid_grant",
            ErrorCode::UnsupportedGrantType => "unsupported_grant_type",
            ErrorCode::UnsupportedResponseType => "unsupported_response_type",
            ErrorCode::InvalidTarget => "invalid_target",
            ErrorCode::AccessDenied => "access_denied",
            ErrorCode::InvalidRedirectUri => "invalid_redirect_uri",
            ErrorCode::InvalidClientMetadata => "invalid_client_metadata",
            ErrorCode::TemporarilyUnavailable => "temporarily_unavailable",
            ErrorCode::ServerError => "server_error",
        }
    }

    /// The status of a response that is not a redirect.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::InvalidClient => 401,
            ErrorCode::TemporarilyUnavailable => 429,
            ErrorCode::ServerError => 500,
            _ => 400,
        }
    }
}

/// Why a request is refused. The words go to the client and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub description: Cow<'static, str>,
}

impl Refusal {
    pub fn new(code: ErrorCode, description: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, description: description.into() }
    }

    #[must_use]
    pub fn body(&self) -> Value {
        json!({ "error": self.code.as_str(), "error_description": self.description })
    }
}
