//! Leases: running work ends with the token or the grant it belongs to.

use std::sync::Arc;

use hashbrown::HashMap;
use store::effective::{Effective, LiveToken};
use store::registry::TokenHash;
use tokio::sync::watch;

/// Turns true when the client's token, or its grant with all tokens, is revoked.
pub(crate) type Lease = watch::Receiver<bool>;

/// The leases of grants and tokens. Work under a revoked token ends even if its grant has another token.
#[derive(Default)]
pub(crate) struct Leases {
    grants: HashMap<String, watch::Sender<bool>>,
    tokens: HashMap<TokenHash, TokenLease>,
}

/// A valid token as requests use it.
#[derive(Clone)]
pub(crate) struct TokenAccess {
    pub(crate) lease: Lease,
    /// The path that an access token is for; none for the grant's own token.
    pub(crate) audience: Option<Arc<str>>,
}

struct TokenLease {
    ends: watch::Sender<bool>,
    /// When the overlap of a rotation ends.
    until_us: Option<i64>,
}

impl Leases {
    /// The lease of a grant, created on first use.
    pub(super) fn of_grant(&mut self, id: &str) -> Lease {
        let lease = self.grants.entry(id.to_owned());
        lease.or_insert_with(|| watch::Sender::new(false)).subscribe()
    }

    /// Ends work under grants that no longer exist.
    pub(super) fn end_grants(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.grants.retain(|id, lease| {
            let is_gone = is_gone(id);
            if is_gone {
                lease.send_replace(true);
            }
            !is_gone
        });
    }

    /// Updates the token leases: those of removed tokens end.
    pub(super) fn take_tokens(
        &mut self,
        effective: &Effective,
        now_us: i64,
    ) -> HashMap<TokenHash, TokenAccess> {
        let live: HashMap<TokenHash, LiveToken> =
            effective.live_tokens(now_us).map(|token| (token.hash, token)).collect();
        self.end_tokens(|hash, _| !live.contains_key(hash));
        let leases = live.into_iter().map(|(hash, token)| {
            let lease = self
                .tokens
                .entry(hash)
                .or_insert_with(|| TokenLease { ends: watch::Sender::new(false), until_us: None });
            lease.until_us = token.valid_until_us;
            (hash, TokenAccess { lease: lease.ends.subscribe(), audience: token.audience })
        });
        leases.collect()
    }

    /// Ends work under tokens whose overlap has ended.
    pub(crate) fn end_replaced(&mut self, now_us: i64) {
        self.end_tokens(|_, lease| lease.until_us.is_some_and(|until| until <= now_us));
    }

    fn end_tokens(&mut self, is_over: impl Fn(&TokenHash, &TokenLease) -> bool) {
        self.tokens.retain(|hash, lease| {
            let is_over = is_over(hash, lease);
            if is_over {
                lease.ends.send_replace(true);
            }
            !is_over
        });
    }
}
