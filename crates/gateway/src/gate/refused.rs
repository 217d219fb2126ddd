//! Why a token opens nothing, in words for the owner.

use store::effective::{Ended, Lookup};
use store::registry::TokenFault;

use super::Gate;

impl Gate {
    /// Why a token opens nothing, for the audit row: whose it once was, and what is wrong with it. Its
    /// client is told the same whatever it is.
    pub(crate) fn why_refused(&self, token: &str) -> String {
        let in_force = self.in_force.load();
        let (label, words) = match in_force.effective.lookup(token, self.now_us()) {
            Lookup::Active(grant) => (&grant.label, "is not in force yet"),
            Lookup::Ended { grant, why: Ended::Revoked } => (&grant.label, "was revoked"),
            Lookup::Ended { grant, why: Ended::Expired } => (&grant.label, "has expired"),
            Lookup::Ended { grant, why: Ended::Replaced } => {
                (&grant.label, "has a new token, and the overlap is over")
            }
            Lookup::Unknown => return "a token of no grant in this home".to_owned(),
            Lookup::NotAToken(TokenFault::Mistyped) => {
                return "a token with a typo in it: its last letters do not fit the rest"
                    .to_owned();
            }
            Lookup::NotAToken(TokenFault::NotAToken) => {
                return "this is no token of a grant".to_owned();
            }
        };
        format!("a token of grant `{label}`, which {words}")
    }
}
