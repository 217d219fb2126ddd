//! When what runs for a client has to end: with its token or with its grant.

use hashbrown::HashMap;
use store::effective::Effective;
use store::registry::TokenHash;
use tokio::sync::watch;

/// Turns true when what a client came in with is taken back: its token, or its grant with all tokens.
pub(crate) type Lease = watch::Receiver<bool>;

/// The leases of grants and of tokens. What runs under a token ends with that token, although its grant may
/// go on with another.
#[derive(Default)]
pub(crate) struct Leases {
    grants: HashMap<String, watch::Sender<bool>>,
    tokens: HashMap<TokenHash, TokenLease>,
}

struct TokenLease {
    ends: watch::Sender<bool>,
    /// When the overlap of a rotation is over.
    until_us: Option<i64>,
}

impl Leases {
    /// The lease of a grant, which is made where it has none.
    pub(super) fn of_grant(&mut self, id: &str) -> Lease {
        let lease = self.grants.entry(id.to_owned());
        lease.or_insert_with(|| watch::Sender::new(false)).subscribe()
    }

    /// Ends what runs under grants that are gone.
    pub(super) fn end_grants(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.grants.retain(|id, lease| {
            let is_gone = is_gone(id);
            if is_gone {
                lease.send_replace(true);
            }
            !is_gone
        });
    }

    /// Takes the tokens of a new state: those that are gone end, the others go on.
    pub(super) fn take_tokens(
        &mut self,
        effective: &Effective,
        now_us: i64,
    ) -> HashMap<TokenHash, Lease> {
        let live: HashMap<TokenHash, Option<i64>> = effective.live_tokens(now_us).collect();
        self.end_tokens(|hash, _| !live.contains_key(hash));
        let leases = live.into_iter().map(|(hash, until_us)| {
            let lease = self
                .tokens
                .entry(hash)
                .or_insert_with(|| TokenLease { ends: watch::Sender::new(false), until_us: None });
            lease.until_us = until_us;
            (hash, lease.ends.subscribe())
        });
        leases.collect()
    }

    /// Ends what runs under tokens whose overlap is over.
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
