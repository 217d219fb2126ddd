//! Passkeys (WebAuthn Level 3) as the relying party: challenges, and the checks of what an authenticator signed.
//! Only attestation `none`, user verification always, and ES256, EdDSA or RS256.

mod authenticator;
mod ceremony;
mod challenges;
mod site;

pub(crate) use ceremony::{PasskeyRefused, Signed, assertion, new_credential};
pub(crate) use challenges::{Challenges, Purpose};
pub(crate) use site::Site;

#[cfg(test)]
pub(crate) mod tests;
