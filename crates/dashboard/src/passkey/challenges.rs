//! Challenges that cannot be guessed, moved or used twice. A challenge carries its own expiry and seal, so that
//! requests without a session fill no memory; only used ones are remembered, until they expire.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use store::random::Random;

use crate::problem::Problem;

/// How long a page may stay open before its challenge is used.
pub(crate) const CHALLENGE_SECONDS_MAX: i64 = 300;
/// Beyond this number no challenge is accepted until older ones expire.
const SPENT_MAX: usize = 4096;
const RANDOM_BYTES: usize = 16;
const US_PER_SECOND: i64 = 1_000_000;

/// What a challenge is for, and what it is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    /// A new passkey in the session of this cookie.
    Register { cookie: &'a str },
    /// A sign-in at this host.
    SignIn { rp_id: &'a str },
}

impl Purpose<'_> {
    fn parts(&self) -> [&str; 2] {
        match self {
            Purpose::Register { cookie } => ["register", cookie],
            Purpose::SignIn { rp_id } => ["sign in", rp_id],
        }
    }
}

#[derive(Default)]
pub(crate) struct Challenges {
    /// Made at the first challenge; challenges end with the process.
    key: OnceLock<[u8; 32]>,
    /// The random part of used challenges with their expiry.
    spent: Mutex<HashMap<[u8; RANDOM_BYTES], i64>>,
}

impl Challenges {
    pub(crate) fn make(
        &self,
        purpose: Purpose<'_>,
        random: &Random,
        now_us: i64,
    ) -> Result<Vec<u8>, Problem> {
        let failed = |error: store::random::RandomError| Problem::internal(error.to_string());
        let mut fresh = [0; 32];
        random.fill(&mut fresh).map_err(failed)?;
        let key = self.key.get_or_init(|| fresh);
        let mut nonce = [0; RANDOM_BYTES];
        random.fill(&mut nonce).map_err(failed)?;
        let expires_us = now_us.saturating_add(CHALLENGE_SECONDS_MAX * US_PER_SECOND);
        let mut challenge = [&nonce[..], &expires_us.to_be_bytes()].concat();
        let seal = sealed(key, purpose, &challenge);
        challenge.extend_from_slice(&seal.finalize().into_bytes());
        Ok(challenge)
    }

    /// Whether this process made the challenge for this purpose, recently.
    pub(crate) fn is_open(&self, purpose: Purpose<'_>, challenge: &[u8], now_us: i64) -> bool {
        let Some((body, seal)) = challenge.split_at_checked(RANDOM_BYTES + 8) else {
            return false;
        };
        let Some(expires_us) = body.last_chunk().copied().map(i64::from_be_bytes) else {
            return false;
        };
        let Some(key) = self.key.get() else { return false };
        sealed(key, purpose, body).verify_slice(seal).is_ok() && now_us < expires_us
    }

    /// Uses an open challenge up. Only the first use gets `true`.
    pub(crate) fn spend(&self, challenge: &[u8], now_us: i64) -> bool {
        let Some(nonce) = challenge.first_chunk::<RANDOM_BYTES>() else { return false };
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.retain(|_, expires_us| *expires_us > now_us);
        if spent.len() >= SPENT_MAX {
            return false;
        }
        let expires_us = now_us.saturating_add(CHALLENGE_SECONDS_MAX * US_PER_SECOND);
        spent.insert(*nonce, expires_us).is_none()
    }
}

fn sealed(key: &[u8; 32], purpose: Purpose<'_>, body: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::unwrap_used, reason = "an HMAC takes a key of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in purpose.parts() {
        mac.update(part.as_bytes());
        mac.update(b"\0");
    }
    mac.update(body);
    mac
}
