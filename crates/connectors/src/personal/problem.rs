//! Errors of personal services for agents. Every problem has a stable code and a hint; it never holds
//! a URL, a token or the text of a response.

use serde_json::{Map, Value, json};

use crate::Service;

/// The closed set of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    NotConfigured,
    AuthExpired,
    ReauthorizationRequired,
    RemovedByUpstream,
    RestrictedResource,
    PremiumRequired,
    UserNotAllowlisted,
    InsufficientScope,
    ApprovalRequired,
    QuotaExceeded,
    RateLimited,
    PrivateProfile,
    UnsupportedUpstream,
    NotFound,
    InvalidArgument,
    UpstreamError,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::NotConfigured => "not_configured",
            Code::AuthExpired => "auth_expired",
            Code::ReauthorizationRequired => "reauthorization_required",
            Code::RemovedByUpstream => "removed_by_upstream",
            Code::RestrictedResource => "restricted_resource",
            Code::PremiumRequired => "premium_required",
            Code::UserNotAllowlisted => "user_not_allowlisted",
            Code::InsufficientScope => "insufficient_scope",
            Code::ApprovalRequired => "approval_required",
            Code::QuotaExceeded => "quota_exceeded",
            Code::RateLimited => "rate_limited",
            Code::PrivateProfile => "private_profile",
            Code::UnsupportedUpstream => "unsupported_upstream",
            Code::NotFound => "not_found",
            Code::InvalidArgument => "invalid_argument",
            Code::UpstreamError => "upstream_error",
        }
    }

    /// The code of a login that is no longer accepted: where consents expire, the owner must consent again.
    pub(crate) fn of_ended_login(service: &Service) -> Code {
        match service.account.and_then(|account| account.consent_days_max) {
            Some(_) => Code::ReauthorizationRequired,
            None => Code::AuthExpired,
        }
    }

    /// Can the same call succeed later without a change?
    fn is_passing(self) -> bool {
        matches!(self, Code::RateLimited | Code::UpstreamError | Code::QuotaExceeded)
    }
}

/// One failure of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub platform: &'static str,
    pub message: String,
    /// What to do next.
    pub hint: String,
    pub upstream_status: Option<u16>,
    pub retry_after_seconds: Option<u64>,
}

impl Problem {
    pub fn new(
        code: Code,
        platform: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem {
            code,
            platform,
            message: message.into(),
            hint: hint.into(),
            upstream_status: None,
            retry_after_seconds: None,
        }
    }

    pub fn invalid(
        platform: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem::new(Code::InvalidArgument, platform, message, hint)
    }

    #[must_use]
    pub fn status(mut self, status: u16) -> Problem {
        self.upstream_status = Some(status);
        self
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: Option<u64>) -> Problem {
        self.retry_after_seconds = seconds;
        self
    }

    /// The tool's result.
    pub fn envelope(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), json!(self.code.as_str()));
        error.insert("platform".to_owned(), json!(self.platform));
        error.insert("message".to_owned(), json!(self.message));
        error.insert("hint".to_owned(), json!(self.hint));
        error.insert("upstream_status".to_owned(), json!(self.upstream_status));
        error.insert("retryable".to_owned(), json!(self.code.is_passing()));
        if let Some(seconds) = self.retry_after_seconds {
            error.insert("retry_after_seconds".to_owned(), json!(seconds));
        }
        json!({ "error": error })
    }
}
