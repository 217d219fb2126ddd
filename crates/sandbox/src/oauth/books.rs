//! What a provider remembers: codes that wait, tokens that are good, devices that wait.

use std::collections::HashMap;

use crate::chance::Chance;

#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) redirect: String,
    pub(super) scopes: Vec<String>,
    pub(super) challenge: Option<String>,
    /// A refresh token comes with it.
    pub(super) offline: bool,
    pub(super) good_until_us: i64,
}

/// One sign-in and the tokens that came of it.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) sign_in: u64,
    pub(super) scopes: Vec<String>,
    pub(super) good_until_us: i64,
    /// When the owner agreed, which no refresh renews.
    pub(super) agreed_us: i64,
    /// Came from a code with a PKCE challenge and no secret.
    pub(super) public: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) user_code: String,
    pub(super) scopes: Vec<String>,
    pub(super) good_until_us: i64,
    pub(super) asked_us: Option<i64>,
    /// Answers that it is not decided yet.
    pub(super) pending: u32,
    pub(super) let_in: Option<bool>,
}

#[derive(Debug)]
pub(super) struct Books {
    pub(super) codes: HashMap<String, Code>,
    pub(super) access: HashMap<String, Token>,
    pub(super) refresh: HashMap<String, Token>,
    pub(super) devices: HashMap<String, Device>,
    chance: Chance,
    sign_ins: u64,
}

impl Books {
    pub(super) fn new(chance: Chance) -> Books {
        let (codes, access) = (HashMap::new(), HashMap::new());
        let (refresh, devices) = (HashMap::new(), HashMap::new());
        Books { codes, access, refresh, devices, chance, sign_ins: 0 }
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
        format!("sandbox-{kind}-{}", self.chance.word(40))
    }

    pub(super) fn user_code(&mut self) -> String {
        let letters = self.chance.word(8).to_uppercase();
        let (first, second) = letters.split_at(4);
        format!("{first}-{second}")
    }

    pub(super) fn forget(&mut self, sign_in: u64) {
        self.access.retain(|_, token| token.sign_in != sign_in);
        self.refresh.retain(|_, token| token.sign_in != sign_in);
    }
}
