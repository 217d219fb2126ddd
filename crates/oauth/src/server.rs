//! The rules of an authorization server for MCP clients: what a request must look like, what a client may
//! be, and what goes back. Tokens and codes are opaque to it.

pub mod authorize;
pub mod client;
pub mod issuer;
pub mod known_document;
pub mod redirect;
pub mod refusal;
pub mod rotation;
pub mod token;

pub use authorize::{Authorize, AuthorizeFault, CheckedAuthorize};
pub use client::{ClientMetadata, SecretUse, is_document_url, read_document, read_registration};
pub use issuer::Issuer;
pub use known_document::known_document;
pub use redirect::{RedirectKind, RedirectUri};
pub use refusal::{ErrorCode, Refusal};
pub use rotation::{Presented, present};
pub use token::{ClientCredentials, TokenRequest};

/// The one scope of the gate: policies decide the rest.
pub const SCOPE: &str = "mcp";
/// Says that a client wants refresh tokens. Every sign-in has one; the scope changes nothing.
pub const OFFLINE_ACCESS: &str = "offline_access";

/// A code is exchanged at once.
pub const CODE_SECONDS_MAX: i64 = 60;
/// Long, because clients in the cloud refresh late; every call checks that the grant is active.
pub const ACCESS_SECONDS_MAX: i64 = 12 * 3600;
/// A client that lost the response to a refresh may repeat it for so long.
pub const RETRY_SECONDS_MAX: i64 = 60;
/// A registration that no sign-in followed expires.
pub const UNUSED_REGISTRATION_SECONDS_MAX: i64 = 3600;
/// A fetched client document is used again for so long.
pub const DOCUMENT_SECONDS_MAX: i64 = 24 * 3600;
/// The largest client document and registration.
pub const DOCUMENT_BYTES_MAX: usize = 5 * 1024;

/// Name and value pairs of a query or a form, decoded.
pub type Pairs = [(String, String)];

/// A parameter that may occur once. An empty value counts as absent (RFC 6749, 3.1).
fn single<'p>(pairs: &'p Pairs, name: &str) -> Result<Option<&'p str>, Refusal> {
    let mut values = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let first = values.next();
    if values.next().is_some() {
        let description = format!("`{name}` was sent more than once");
        return Err(Refusal::new(ErrorCode::InvalidRequest, description));
    }
    Ok(first.filter(|value| !value.is_empty()))
}

fn needed<'p>(pairs: &'p Pairs, name: &str) -> Result<&'p str, Refusal> {
    single(pairs, name)?
        .ok_or_else(|| Refusal::new(ErrorCode::InvalidRequest, format!("`{name}` is missing")))
}
