//! JSON-RPC error codes of the gate, outside the ranges reserved by JSON-RPC and MCP unless MCP defines them.

pub(crate) const DENIED: i64 = -31003;
pub(crate) const RATE_LIMITED: i64 = -31029;
/// The owner must sign in to the server.
pub(crate) const NEEDS_SIGN_IN: i64 = -31041;
/// MCP 2025-11-25: the user must open a URL before the call is repeated.
pub(crate) const URL_ELICITATION_REQUIRED: i64 = -32042;
pub(crate) const UPSTREAM_FAILED: i64 = -31052;
pub(crate) const STORE_UNAVAILABLE: i64 = -31053;
pub(crate) const UPSTREAM_TIMED_OUT: i64 = -31054;
pub(crate) const RESULT_TOO_LARGE: i64 = -31060;
