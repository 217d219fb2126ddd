//! Signing in: a browser and a code, a code typed on another device, and the token endpoint behind
//! both. What is specific to a service stands in its `Account`.

pub mod answer;
pub mod browser;
pub mod code;
pub mod device;
pub mod grant;
pub mod listen;

use answer::Refusal;
use store::random::RandomError;

/// Why a sign-in came to nothing. The account that was there before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the service refused: `{code}`\nhint: {}", advice(.code))]
    Declined { code: String },
    #[error(
        "the address does not belong to this sign-in\nhint: paste the whole address the browser ended at, or start again"
    )]
    NotOurs,
    #[error("the answer comes from another issuer than the one that was asked; it is not used")]
    Issuer,
    #[error("nobody signed in within {minutes} minutes\nhint: run the command again")]
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
    Refusal(#[from] Refusal),
    #[error(transparent)]
    Random(#[from] RandomError),
}

fn advice(code: &str) -> &'static str {
    match code {
        "access_denied" => "consent was not given; run the command again to be asked once more",
        "invalid_scope" => "the app lacks one of the scopes; tick them all where it is registered",
        "expired_token" => "the code was not typed in time; run the command again",
        _ => "look at the settings of the app where it is registered",
    }
}
