//! Sign-ins at the team's issuer that are in progress. Each is bound to the browser that began it, works once and
//! expires; memory is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use connectors::team_login::TeamSignIn;
use oauth::client::id_token::Claims;
use sha2::{Digest as _, Sha256};
use store::settings::OidcSettings;
use subtle::ConstantTimeEq as _;

/// How long a person may take at the issuer.
pub(crate) const TEAM_SIGN_IN_SECONDS_MAX: u32 = 600;
const PENDING_MAX: usize = 256;
const US_PER_SECOND: i64 = 1_000_000;

/// The team's issuer, reached from a thread that may block. Errors are for people.
pub trait TeamIssuer: Send + Sync {
    /// Where the browser goes.
    fn begin(&self, settings: &OidcSettings, sign_in: &TeamSignIn<'_>) -> Result<String, String>;
    /// Who signed in, by the query of the redirect.
    fn finish(
        &self,
        settings: &OidcSettings,
        sign_in: &TeamSignIn<'_>,
        query: &str,
    ) -> Result<Claims, String>;
}

/// What the redirect of a sign-in is checked against.
pub(crate) struct PendingTeamSignIn {
    pub(crate) redirect_uri: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// The digest of the cookie of the browser that began it.
    browser: [u8; 32],
    expires_us: i64,
}

impl PendingTeamSignIn {
    pub(crate) fn new(
        redirect_uri: &str,
        [nonce, verifier]: [String; 2],
        browser: &str,
        now_us: i64,
    ) -> PendingTeamSignIn {
        PendingTeamSignIn {
            redirect_uri: redirect_uri.to_owned(),
            nonce,
            verifier,
            browser: digest(browser),
            expires_us: now_us.saturating_add(i64::from(TEAM_SIGN_IN_SECONDS_MAX) * US_PER_SECOND),
        }
    }

    pub(crate) fn as_sign_in<'a>(&'a self, state: &'a str) -> TeamSignIn<'a> {
        TeamSignIn {
            redirect_uri: &self.redirect_uri,
            state,
            nonce: &self.nonce,
            verifier: &self.verifier,
        }
    }

    pub(crate) fn is_of(&self, browser: &str) -> bool {
        digest(browser).ct_eq(&self.browser).into()
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// By the state of the request.
#[derive(Default)]
pub(crate) struct TeamSignIns(Mutex<HashMap<String, PendingTeamSignIn>>);

impl TeamSignIns {
    pub(crate) fn put(&self, state: String, pending: PendingTeamSignIn, now_us: i64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, pending| pending.expires_us > now_us);
        if all.len() >= PENDING_MAX {
            let oldest = all.iter().min_by_key(|(_, pending)| pending.expires_us);
            if let Some(oldest) = oldest.map(|(state, _)| state.clone()) {
                all.remove(&oldest);
            }
        }
        all.insert(state, pending);
    }

    /// A sign-in in progress. It is gone with this, whatever comes of it.
    pub(crate) fn take(&self, state: &str, now_us: i64) -> Option<PendingTeamSignIn> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(state).filter(|pending| pending.expires_us > now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(now_us: i64) -> PendingTeamSignIn {
        let values = ["n", "v"].map(str::to_owned);
        PendingTeamSignIn::new("https://gate.example/x", values, "browser", now_us)
    }

    #[test]
    fn a_sign_in_works_once_within_its_time_and_in_its_browser() {
        let all = TeamSignIns::default();
        all.put("a".to_owned(), pending(0), 0);
        let taken = all.take("a", 1);
        assert!(taken.is_some_and(|taken| taken.is_of("browser") && !taken.is_of("other")));
        assert!(all.take("a", 1).is_none());
        all.put("b".to_owned(), pending(0), 0);
        assert!(all.take("b", 600 * US_PER_SECOND).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let all = TeamSignIns::default();
        for number in 0..2 * PENDING_MAX {
            all.put(number.to_string(), pending(number.try_into().unwrap_or(0)), 0);
        }
        assert_eq!(all.0.lock().map(|all| all.len()).ok(), Some(PENDING_MAX));
        assert!(all.take("0", 0).is_none() && all.take("511", 0).is_some());
    }
}
