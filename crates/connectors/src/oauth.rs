//! OAuth sign-in: authorization code, device code, and the token endpoint. Service-specific data is
//! in the service's `Account`.

pub mod browser;
pub mod code;
pub mod device;
pub mod grant;
pub mod listen;
pub mod token_response;

use store::random::RandomError;
use token_response::TokenRefusal;

/// Why a sign-in failed. The stored account is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the service refused: `{code}`\nhint: {}", advice(.code))]
    Declined { code: String },
    #[error(
        "the address does not belong to this sign-in\nhint: paste the whole address the browser ended at, or start again"
    )]
    NotOurs,
    #[error("the response comes from another issuer and is not used")]
    Issuer,
    #[error("sign-in timed out after {minutes} minutes\nhint: run the command again")]
    TimedOut { minutes: u64 },
    #[error(
        "cannot listen on port {port}: {why}\nhint: `--port N` takes another one; register the address it shows with the service"
    )]
    Port { port: u16, why: String },
    #[error(
        "`{0}` cannot be a redirect address\nhint: such as `http://127.0.0.1:8000/callback`, exactly as registered"
    )]
    Redirect(String),
    #[error("the address to open is neither https nor on this machine; it is not opened")]
    Address,
    #[error("cannot get tokens: {0}")]
    Refused(#[from] TokenRefusal),
    #[error(transparent)]
    Random(#[from] RandomError),
}

fn advice(code: &str) -> &'static str {
    match code {
        "access_denied" => "consent was not given; run the command again",
        "invalid_scope" => "the app lacks one of the scopes; tick them all where it is registered",
        "expired_token" => "the code was not typed in time; run the command again",
        _ => "check the settings of the app where it is registered",
    }
}
