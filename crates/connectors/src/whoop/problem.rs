//! What can go wrong between an agent and WHOOP, under the ten codes that clients already know.
//! A problem is an ordinary answer: the envelope says what failed and where.

use serde_json::{Value, json};

/// The closed set of codes. Agents and skills branch on these texts, so they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
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

impl Code {
    pub const ALL: [Code; 10] = [
        Code::AuthFailed,
        Code::NotFound,
        Code::RateLimited,
        Code::UpstreamError,
        Code::ValidationError,
        Code::CacheError,
        Code::CacheEmpty,
        Code::FileExists,
        Code::ExportError,
        Code::SyncError,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Code::AuthFailed => "AUTH_FAILED",
            Code::NotFound => "NOT_FOUND",
            Code::RateLimited => "RATE_LIMITED",
            Code::UpstreamError => "UPSTREAM_ERROR",
            Code::ValidationError => "VALIDATION_ERROR",
            Code::CacheError => "CACHE_ERROR",
            Code::CacheEmpty => "CACHE_EMPTY",
            Code::FileExists => "FILE_EXISTS",
            Code::ExportError => "EXPORT_ERROR",
            Code::SyncError => "SYNC_ERROR",
        }
    }
}

/// One failure: its code, what happened in words, and the WHOOP path (without the version prefix)
/// or the tool it happened in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub words: String,
    pub endpoint: String,
}

impl Problem {
    pub fn new(code: Code, endpoint: impl Into<String>, words: impl Into<String>) -> Problem {
        Problem { code, words: words.into(), endpoint: endpoint.into() }
    }

    pub fn invalid(endpoint: impl Into<String>, words: impl Into<String>) -> Problem {
        Problem::new(Code::ValidationError, endpoint, words)
    }

    pub fn cache(endpoint: impl Into<String>, cause: &impl std::fmt::Display) -> Problem {
        let cause = cause.to_string().replace("\nhint: ", "; ");
        Problem::new(Code::CacheError, endpoint, format!("the local mirror failed: {cause}"))
    }

    /// The same failure, told from where the caller stands.
    #[must_use]
    pub fn at(mut self, endpoint: &str) -> Problem {
        endpoint.clone_into(&mut self.endpoint);
        self
    }

    /// What a tool answers.
    pub fn envelope(&self) -> Value {
        json!({"error": {"code": self.code.as_str(), "message": self.words, "endpoint": self.endpoint}})
    }

    /// What a resource answers: the same without the endpoint.
    pub fn bare_envelope(&self) -> Value {
        json!({"error": {"code": self.code.as_str(), "message": self.words}})
    }

    /// `CODE: words`, as sync results and audit rows show it.
    pub fn line(&self) -> String {
        format!("{}: {}", self.code.as_str(), self.words)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} ({})", self.code.as_str(), self.words, self.endpoint)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_holds_code_message_and_endpoint_and_nothing_else() {
        let problem = Problem::new(Code::NotFound, "/cycle/5", "resource not found");
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
    fn the_ten_codes_are_told_apart() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 10);
    }
}
