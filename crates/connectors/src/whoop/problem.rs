//! Errors of WHOOP's tools, with the ten codes that clients already know.
//! A problem is an ordinary result: the envelope says what failed and where.

use serde_json::{Value, json};

/// The closed set of codes. Agents and skills branch on these texts, so they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhoopCode {
    AuthFailed,
    NotFound,
    RateLimited,
    UpstreamError,
    ValidationError,
    CacheError,
    CacheEmpty,
    FileExists,
    ExportError,
    SyncError,
}

impl WhoopCode {
    pub const ALL: [WhoopCode; 10] = [
        WhoopCode::AuthFailed,
        WhoopCode::NotFound,
        WhoopCode::RateLimited,
        WhoopCode::UpstreamError,
        WhoopCode::ValidationError,
        WhoopCode::CacheError,
        WhoopCode::CacheEmpty,
        WhoopCode::FileExists,
        WhoopCode::ExportError,
        WhoopCode::SyncError,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            WhoopCode::AuthFailed => "AUTH_FAILED",
            WhoopCode::NotFound => "NOT_FOUND",
            WhoopCode::RateLimited => "RATE_LIMITED",
            WhoopCode::UpstreamError => "UPSTREAM_ERROR",
            WhoopCode::ValidationError => "VALIDATION_ERROR",
            WhoopCode::CacheError => "CACHE_ERROR",
            WhoopCode::CacheEmpty => "CACHE_EMPTY",
            WhoopCode::FileExists => "FILE_EXISTS",
            WhoopCode::ExportError => "EXPORT_ERROR",
            WhoopCode::SyncError => "SYNC_ERROR",
        }
    }
}

/// One failure: its code, a message, and the WHOOP path (without the version prefix)
/// or the tool it happened in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhoopProblem {
    pub code: WhoopCode,
    pub message: String,
    pub endpoint: String,
}

impl WhoopProblem {
    pub fn new(
        code: WhoopCode,
        endpoint: impl Into<String>,
        message: impl Into<String>,
    ) -> WhoopProblem {
        WhoopProblem { code, message: message.into(), endpoint: endpoint.into() }
    }

    pub fn invalid(endpoint: impl Into<String>, message: impl Into<String>) -> WhoopProblem {
        WhoopProblem::new(WhoopCode::ValidationError, endpoint, message)
    }

    pub fn cache(endpoint: impl Into<String>, cause: &impl std::fmt::Display) -> WhoopProblem {
        let cause = cause.to_string().replace("\nhint: ", "; ");
        WhoopProblem::new(
            WhoopCode::CacheError,
            endpoint,
            format!("the local mirror failed: {cause}"),
        )
    }

    /// The same failure with the caller's endpoint.
    #[must_use]
    pub fn at(mut self, endpoint: &str) -> WhoopProblem {
        endpoint.clone_into(&mut self.endpoint);
        self
    }

    /// The tool's result.
    pub fn envelope(&self) -> Value {
        json!({"error": {"code": self.code.as_str(), "message": self.message, "endpoint": self.endpoint}})
    }

    /// The resource's result: the same without the endpoint.
    pub fn bare_envelope(&self) -> Value {
        json!({"error": {"code": self.code.as_str(), "message": self.message}})
    }

    /// `CODE: message`, as sync results and audit rows show it.
    pub fn line(&self) -> String {
        format!("{}: {}", self.code.as_str(), self.message)
    }
}

impl std::fmt::Display for WhoopProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} ({})", self.code.as_str(), self.message, self.endpoint)
    }
}

impl std::error::Error for WhoopProblem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_holds_code_message_and_endpoint_and_nothing_else() {
        let problem = WhoopProblem::new(WhoopCode::NotFound, "/cycle/5", "resource not found");
        assert_eq!(
            problem.envelope().to_string(),
            r#"{"error":{"code":"NOT_FOUND","message":"resource not found","endpoint":"/cycle/5"}}"#
        );
        assert_eq!(
            problem.bare_envelope().to_string(),
            r#"{"error":{"code":"NOT_FOUND","message":"resource not found"}}"#
        );
        assert_eq!(problem.line(), "NOT_FOUND: resource not found");
    }

    #[test]
    fn the_ten_codes_are_distinct() {
        let mut names: Vec<_> = WhoopCode::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 10);
    }
}
