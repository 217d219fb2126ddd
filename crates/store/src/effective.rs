//! What a gate runs with: the objects of `gate.db` and of `tollgate.toml` as one, with the look-ups
//! that every call needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::registry::{
    Grant, GrantState, PolicyText, Server, Snapshot, Token, TokenFault, TokenHash,
};
use crate::settings::Settings;

pub mod merge;

pub use merge::{MergeError, MergeProblem};

/// One whole state of the gate; swapped whole when anything changes.
#[derive(Clone, Debug)]
pub struct Effective {
    /// Of the snapshot; for [`Registry::changed`](crate::registry::Registry::changed).
    pub generation: u64,
    pub settings: Arc<Settings>,
    pub servers: BTreeMap<String, Server>,
    pub policies: BTreeMap<String, PolicyText>,
    pub values: BTreeMap<String, String>,
    /// What does not fit together; each denies what it is about and nothing else.
    pub problems: Vec<MergeProblem>,
    grants: Vec<Grant>,
    tokens: HashMap<TokenHash, TokenPlace>,
}

#[derive(Clone, Debug)]
struct TokenPlace {
    hash: TokenHash,
    grant: usize,
    valid_until_us: Option<i64>,
}

/// What a presented token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'e> {
    Active(&'e Grant),
    /// A token that worked once; the grant is named in the audit row.
    Ended {
        grant: &'e Grant,
        why: Ended,
    },
    /// Well-formed, but nobody's.
    Unknown,
    NotAToken(TokenFault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Revoked,
    Expired,
    /// Rotated, and the overlap is over.
    Replaced,
}

/// A server within reach of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'e> {
    pub server: &'e Server,
    /// Without a policy every call is denied.
    pub policy: Option<&'e PolicyText>,
}

impl Effective {
    /// Puts the two together. An object that both places define, a token that two grants share, and
    /// a grant of the file that holds what does not exist are errors that name both places. For a
    /// start and for a changed file.
    pub fn merge(snapshot: Snapshot, settings: Arc<Settings>) -> Result<Effective, MergeError> {
        let effective = Effective::merge_closed(snapshot, settings);
        let problems: Vec<MergeProblem> =
            effective.problems.iter().filter(|problem| problem.is_error()).cloned().collect();
        if problems.is_empty() { Ok(effective) } else { Err(MergeError { problems }) }
    }

    /// The same for a changed `gate.db`, which must count at once (a revoked grant is in it): what
    /// clashes is in force from neither place.
    pub fn merge_closed(snapshot: Snapshot, settings: Arc<Settings>) -> Effective {
        merge::merge(snapshot, settings)
    }

    /// Whose token this is. The token is hashed first, so nothing that follows depends on it.
    pub fn lookup(&self, presented: &str, now_us: i64) -> Lookup<'_> {
        match Token::hash_of(presented) {
            Ok(hash) => self.lookup_hash(hash, now_us),
            Err(fault) => Lookup::NotAToken(fault),
        }
    }

    /// The same for a token of which only the hash is at hand.
    pub fn lookup_hash(&self, hash: TokenHash, now_us: i64) -> Lookup<'_> {
        let place = self.tokens.get(&hash).filter(|place| place.hash.same(&hash));
        let found = place.and_then(|place| Some((place, self.grants.get(place.grant)?)));
        let Some((place, grant)) = found else { return Lookup::Unknown };
        let is_replaced = place.valid_until_us.is_some_and(|until| until <= now_us);
        match grant.state(now_us) {
            GrantState::Revoked => Lookup::Ended { grant, why: Ended::Revoked },
            GrantState::Expired => Lookup::Ended { grant, why: Ended::Expired },
            GrantState::Active if is_replaced => Lookup::Ended { grant, why: Ended::Replaced },
            GrantState::Active => Lookup::Active(grant),
        }
    }

    /// The tokens that open something at this time, and until when, where a rotation replaced them.
    pub fn live_tokens(&self, now_us: i64) -> impl Iterator<Item = (TokenHash, Option<i64>)> {
        self.tokens.iter().filter_map(move |(hash, place)| {
            let is_live = matches!(self.lookup_hash(*hash, now_us), Lookup::Active(_));
            is_live.then_some((*hash, place.valid_until_us))
        })
    }

    /// Every grant, revoked ones included.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The grant of this label that is not revoked.
    pub fn grant(&self, label: &str) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.label == label && grant.revoked_at_us.is_none())
    }

    /// The server and the policy on it, if the grant holds that server and it exists.
    pub fn access(&self, grant: &Grant, server: &str) -> Option<Access<'_>> {
        let holding = grant.holding(server)?;
        let server = self.servers.get(server)?;
        let policy = holding.policy.as_deref().and_then(|name| self.policies.get(name));
        Some(Access { server, policy })
    }

    /// The servers of a grant that exist, by name.
    pub fn accesses<'e>(&'e self, grant: &'e Grant) -> impl Iterator<Item = Access<'e>> {
        grant.holdings.iter().filter_map(|holding| self.access(grant, &holding.server))
    }

    /// When the next grant or rotated token ends, if any: a gate may sleep until then.
    pub fn next_end_us(&self, now_us: i64) -> Option<i64> {
        let grants = self.grants.iter().filter_map(|grant| grant.expires_at_us);
        let tokens = self.tokens.values().filter_map(|place| place.valid_until_us);
        grants.chain(tokens).filter(|at| *at > now_us).min()
    }
}
