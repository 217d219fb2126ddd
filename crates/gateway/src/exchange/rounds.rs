//! The sealed state that a client carries between the rounds of a call. It is valid once, for a limited time,
//! for one caller, server and call.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use store::random::Random;
use store::vault::{Purpose, Sealed, Vault};

use crate::exchange::context::RequestContext;
use crate::exchange::parked::Parked;

/// The next round must follow within this time.
pub(crate) const ROUND_SECONDS_MAX: i64 = 15 * 60;

/// The content of the sealed text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoundState {
    /// The audit row of the first round.
    pub(crate) call: u64,
    /// Keyed digest of the call: method, name and arguments.
    pub(crate) digest: String,
    pub(crate) until_us: i64,
    /// Makes every state unique, so that it can be used only once.
    pub(crate) nonce: String,
    pub(crate) inner: RoundContent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RoundContent {
    /// The server's own state, if it returned one.
    Server(Option<String>),
    /// A parked call to a legacy server.
    Parked(u64),
    /// The client's user was asked about this approval.
    Approval(String),
    /// A legacy server requires that a URL is opened before the call is repeated.
    Addresses,
    /// The grant had no login at the server. Nothing was sent, so the repeated call is judged as a first round.
    SignIn,
}

/// Why a state is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundStateError {
    NotOurs,
    OtherCall,
    Late,
    Used,
}

impl RoundStateError {
    pub(crate) fn message(self) -> &'static str {
        match self {
            RoundStateError::NotOurs => {
                "requestState was not issued by this gate for this caller and server"
            }
            RoundStateError::OtherCall => {
                "requestState belongs to another call; name and arguments must stay the same"
            }
            RoundStateError::Late => "requestState has expired; send the call again without it",
            RoundStateError::Used => {
                "requestState was used already; send the call again without it"
            }
        }
    }
}

/// Seals the state for the next round of a call.
pub(crate) fn seal(
    context: &RequestContext,
    server: &str,
    digest: &str,
    call: u64,
    inner: RoundContent,
) -> Option<String> {
    let sealer = Sealer::of(context, server);
    let until_us = context.services().now_us() + ROUND_SECONDS_MAX * 1_000_000;
    let state =
        RoundState { call, digest: digest.to_owned(), until_us, nonce: sealer.nonce()?, inner };
    sealer.seal(&state)
}

/// Opens a returned state, checks that it matches, and marks it as used.
pub(crate) fn open(
    context: &RequestContext,
    server: &str,
    text: &str,
    digest: &str,
) -> Result<RoundState, RoundStateError> {
    let parked = context.parked().ok_or(RoundStateError::Late)?;
    Sealer::of(context, server).open(text, digest, context.services().now_us(), &parked)
}

/// Seals and opens states for one caller and server.
struct Sealer<'a> {
    vault: &'a Vault,
    random: &'a Random,
    grant: &'a str,
    server: &'a str,
}

impl<'a> Sealer<'a> {
    fn of(context: &'a RequestContext, server: &'a str) -> Sealer<'a> {
        let services = context.services();
        let (vault, random) = (services.registry.vault(), &services.random);
        Sealer { vault, random, grant: &context.grantee.id, server }
    }

    fn row(&self) -> String {
        format!("{}\n{}", self.grant, self.server)
    }

    fn nonce(&self) -> Option<String> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).ok()?;
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn seal(&self, state: &RoundState) -> Option<String> {
        let plain = serde_json::to_vec(state).ok()?;
        let sealed =
            self.vault.seal(Purpose::RequestState, &self.row(), &plain, self.random).ok()?;
        Some(URL_SAFE_NO_PAD.encode(sealed.as_bytes()))
    }

    fn open(
        &self,
        text: &str,
        digest: &str,
        now_us: i64,
        parked: &Parked,
    ) -> Result<RoundState, RoundStateError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| RoundStateError::NotOurs)?;
        let sealed = Sealed::from_bytes(Purpose::RequestState, &self.row(), bytes);
        let plain = self.vault.open(&sealed).map_err(|_| RoundStateError::NotOurs)?;
        let state: RoundState =
            serde_json::from_slice(plain.expose()).map_err(|_| RoundStateError::NotOurs)?;
        if state.digest != digest {
            return Err(RoundStateError::OtherCall);
        }
        if state.until_us <= now_us {
            return Err(RoundStateError::Late);
        }
        parked.mark_used(&state)?;
        Ok(state)
    }
}
