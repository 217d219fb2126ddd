//! The state of a provider: pending codes, valid tokens, pending device sign-ins.

use std::collections::HashMap;

use crate::rng::Rng;

#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) redirect: String,
    pub(super) scopes: Vec<String>,
    pub(super) challenge: Option<String>,
    /// The token response includes a refresh token.
    pub(super) offline: bool,
    pub(super) good_until_us: i64,
}

/// A token and the sign-in it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) sign_in: u64,
    pub(super) scopes: Vec<String>,
    pub(super) good_until_us: i64,
    /// When the owner consented; a refresh does not renew it.
    pub(super) agreed_us: i64,
    /// Issued for a code with a PKCE challenge and no client secret.
    pub(super) public: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) user_code: String,
    pub(super) scopes: Vec<String>,
    pub(super) good_until_us: i64,
    pub(super) asked_us: Option<i64>,
    /// How many times the device was told that the decision is pending.
    pub(super) pending: u32,
    pub(super) let_in: Option<bool>,
}

#[derive(Debug)]
pub(super) struct TokenStore {
    pub(super) codes: HashMap<String, Code>,
    pub(super) access: HashMap<String, Token>,
    pub(super) refresh: HashMap<String, Token>,
    pub(super) devices: HashMap<String, Device>,
    rng: Rng,
    sign_ins: u64,
}

impl TokenStore {
    pub(super) fn new(rng: Rng) -> TokenStore {
        let (codes, access) = (HashMap::new(), HashMap::new());
        let (refresh, devices) = (HashMap::new(), HashMap::new());
        TokenStore { codes, access, refresh, devices, rng, sign_ins: 0 }
    }

    pub(super) fn open(&mut self, code: Code) -> String {
        let name = self.secret("code");
        self.codes.insert(name.clone(), code);
        name
    }

    pub(super) fn next_sign_in(&mut self) -> u64 {
        self.sign_ins += 1;
        self.sign_ins
    }

    pub(super) fn secret(&mut self, kind: &str) -> String {
        format!("sandbox-{kind}-{}", self.rng.word(40))
    }

    pub(super) fn user_code(&mut self) -> String {
        let letters = self.rng.word(8).to_uppercase();
        let (first, second) = letters.split_at(4);
        format!("{first}-{second}")
    }

    pub(super) fn forget(&mut self, sign_in: u64) {
        self.access.retain(|_, token| token.sign_in != sign_in);
        self.refresh.retain(|_, token| token.sign_in != sign_in);
    }
}
