//! Why a message is refused, and the error response to it. The text never repeats what was sent.

use policy::json::{Refusal, RefusalKind};

use crate::envelope::error_body;
use crate::id::Id;

/// Error codes of JSON-RPC and MCP.
pub mod code {
    pub const PARSE: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const UNKNOWN_METHOD: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL: i64 = -32603;
    pub const HEADER_MISMATCH: i64 = -32020;
    pub const MISSING_CAPABILITY: i64 = -32021;
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// Why a message is refused: an HTTP status and a JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProtocolError {
    pub http_status: u16,
    pub code: i64,
    pub message: String,
    /// The id of the refused request, where known.
    pub id: Option<Id>,
    /// `error.data` as raw JSON.
    pub raw_data: Option<String>,
}

impl ProtocolError {
    pub fn new(http_status: u16, code: i64, message: impl Into<String>) -> ProtocolError {
        ProtocolError { http_status, code, message: message.into(), id: None, raw_data: None }
    }

    /// Not a valid MCP message.
    pub fn invalid(message: impl Into<String>) -> ProtocolError {
        ProtocolError::new(400, code::INVALID_REQUEST, message)
    }

    /// Params that do not fit the method. The protocol responds to these with status 200.
    pub fn params(message: impl Into<String>) -> ProtocolError {
        ProtocolError::new(200, code::INVALID_PARAMS, message)
    }

    /// Headers that contradict the body or are missing.
    pub fn mismatch(message: impl Into<String>) -> ProtocolError {
        ProtocolError::new(400, code::HEADER_MISMATCH, message)
    }

    /// A method that this revision does not have.
    pub fn unknown_method() -> ProtocolError {
        ProtocolError::new(404, code::UNKNOWN_METHOD, "this revision has no such method")
    }

    /// A task request of a client that does not declare this extension.
    pub fn undeclared(extension: &str) -> ProtocolError {
        let message = format!("this client does not declare the extension `{extension}`");
        let needed =
            format!("{{\"requiredCapabilities\":{{\"extensions\":{{\"{extension}\":{{}}}}}}}}");
        ProtocolError::new(400, code::MISSING_CAPABILITY, message).with_data(needed)
    }

    /// The status of an error of this code since 2026-07-28, where it is not 200.
    pub fn status_of(code: i64) -> Option<u16> {
        match code {
            code::UNKNOWN_METHOD => Some(404),
            code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION => {
                Some(400)
            }
            _ => None,
        }
    }

    #[must_use]
    pub fn with_id(mut self, id: &Id) -> ProtocolError {
        self.id = Some(id.clone());
        self
    }

    #[must_use]
    pub fn with_data(mut self, raw_data: impl Into<String>) -> ProtocolError {
        self.raw_data = Some(raw_data.into());
        self
    }

    /// The JSON-RPC error response.
    pub fn to_body(&self) -> Vec<u8> {
        error_body(self.id.as_ref(), self.code, &self.message, self.raw_data.as_deref())
    }
}

impl From<Refusal> for ProtocolError {
    fn from(refusal: Refusal) -> ProtocolError {
        let (http_status, code) = match refusal.kind {
            RefusalKind::TooLarge => (413, code::INVALID_REQUEST),
            RefusalKind::DuplicateKey
            | RefusalKind::ConfusableKey
            | RefusalKind::NumberNotExact
            | RefusalKind::TooDeep
            | RefusalKind::TooManyNodes
            | RefusalKind::LongString
            | RefusalKind::LongNumber => (400, code::INVALID_REQUEST),
            RefusalKind::NotUtf8
            | RefusalKind::ByteOrderMark
            | RefusalKind::Syntax
            | RefusalKind::TrailingData
            | RefusalKind::LoneSurrogate
            | RefusalKind::Empty => (400, code::PARSE),
        };
        let (line, column) = (refusal.line, refusal.column);
        ProtocolError::new(
            http_status,
            code,
            format!("{} (line {line}, column {column})", refusal.message),
        )
    }
}
