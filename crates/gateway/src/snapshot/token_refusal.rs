//! Why a token is not accepted, for the owner.

use store::effective::{Ended, Lookup};
use store::registry::{Token, TokenFault};

use super::Snapshots;

impl Snapshots {
    /// Why a token is not accepted, for the audit row: which grant it belonged to and what is wrong. The client
    /// gets one text for all cases.
    pub(crate) fn token_refusal_reason(&self, token: &str, now_us: i64) -> String {
        let current = self.current.load();
        let (label, message) = match current.effective.lookup(token, now_us) {
            Lookup::Active(grant) if self.is_for_another_path(token) => {
                (&grant.label, "is for another resource than the one it was sent to")
            }
            Lookup::Active(grant) => (&grant.label, "is not active yet"),
            Lookup::Ended { grant, why: Ended::Revoked } => (&grant.label, "was revoked"),
            Lookup::Ended { grant, why: Ended::Expired } => (&grant.label, "has expired"),
            Lookup::Ended { grant, why: Ended::Replaced } if grant.client.is_some() => {
                (&grant.label, "is an access token that has expired")
            }
            Lookup::Ended { grant, why: Ended::Replaced } => {
                (&grant.label, "has a new token, and the overlap has ended")
            }
            Lookup::Unknown => return "a token of no grant in this home".to_owned(),
            Lookup::NotAToken(TokenFault::Mistyped) => {
                return "a token with a typo: its checksum does not match".to_owned();
            }
            Lookup::NotAToken(TokenFault::NotAToken) => {
                return "not a grant token".to_owned();
            }
        };
        format!("a token of grant `{label}`, which {message}")
    }

    /// Whether an active token has an audience: it is refused only where that does not fit.
    fn is_for_another_path(&self, token: &str) -> bool {
        let hash = Token::hash_of(token).ok();
        let current = self.current.load();
        hash.and_then(|hash| current.tokens.get(&hash)).is_some_and(|one| one.audience.is_some())
    }
}
