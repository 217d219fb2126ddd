//! The configuration a gate runs with: the objects of `gate.db` and `tollgate.toml` merged, with
//! the look-ups that every call needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::registry::{
    Grant, GrantState, PolicyText, RegistrySnapshot, Server, Token, TokenFault, TokenHash,
};
use crate::settings::Settings;

pub mod merge;

pub use merge::{MergeError, MergeProblem};

/// One complete state of the gate; replaced as a whole on every change.
#[derive(Clone, Debug)]
pub struct Effective {
    /// Of the snapshot; for [`Registry::changed`](crate::registry::Registry::changed).
    pub generation: u64,
    pub settings: Arc<Settings>,
    pub servers: BTreeMap<String, Server>,
    pub policies: BTreeMap<String, PolicyText>,
    pub values: BTreeMap<String, String>,
    /// Conflicts; each denies what it concerns and nothing else.
    pub problems: Vec<MergeProblem>,
    grants: Vec<Grant>,
    tokens: HashMap<TokenHash, TokenEntry>,
}

#[derive(Clone, Debug)]
struct TokenEntry {
    hash: TokenHash,
    grant: usize,
    valid_until_us: Option<i64>,
    audience: Option<Arc<str>>,
}

/// A token that is valid now.
#[derive(Clone, Debug)]
pub struct LiveToken {
    pub hash: TokenHash,
    /// When it ends, if it does.
    pub valid_until_us: Option<i64>,
    /// The path that an access token is for; none for the grant's own token.
    pub audience: Option<Arc<str>>,
}

/// What a presented token identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'e> {
    Active(&'e Grant),
    /// A token that was valid once; the audit row names the grant.
    Ended {
        grant: &'e Grant,
        why: Ended,
    },
    /// Well-formed, but unknown.
    Unknown,
    NotAToken(TokenFault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Revoked,
    Expired,
    /// Rotated, and the overlap has ended; or an access token that has expired.
    Replaced,
}

/// A server that a grant can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'e> {
    pub server: &'e Server,
    /// Without a policy every call is denied.
    pub policy: Option<&'e PolicyText>,
}

impl Effective {
    /// Merges the two, for a start and for a changed file. An object that both define, a token that
    /// two grants share, and a grant of the file that refers to something missing are errors that
    /// name both sources.
    pub fn merge(
        snapshot: RegistrySnapshot,
        settings: Arc<Settings>,
    ) -> Result<Effective, MergeError> {
        let effective = Effective::merge_closed(snapshot, settings);
        let problems: Vec<MergeProblem> =
            effective.problems.iter().filter(|problem| problem.is_error()).cloned().collect();
        if problems.is_empty() { Ok(effective) } else { Err(MergeError { problems }) }
    }

    /// The same for a changed `gate.db`, which must take effect at once (it may revoke a grant):
    /// conflicting objects are active from neither source.
    pub fn merge_closed(snapshot: RegistrySnapshot, settings: Arc<Settings>) -> Effective {
        merge::merge(snapshot, settings)
    }

    /// The grant of a token. The token is hashed first, so that timing does not depend on it.
    pub fn lookup(&self, presented: &str, now_us: i64) -> Lookup<'_> {
        match Token::hash_of(presented) {
            Ok(hash) => self.lookup_hash(hash, now_us),
            Err(fault) => Lookup::NotAToken(fault),
        }
    }

    /// The same for the hash of a token.
    pub fn lookup_hash(&self, hash: TokenHash, now_us: i64) -> Lookup<'_> {
        let entry = self.tokens.get(&hash).filter(|entry| entry.hash.same(&hash));
        let found = entry.and_then(|entry| Some((entry, self.grants.get(entry.grant)?)));
        let Some((entry, grant)) = found else { return Lookup::Unknown };
        let is_replaced = entry.valid_until_us.is_some_and(|until| until <= now_us);
        match grant.state(now_us) {
            GrantState::Revoked => Lookup::Ended { grant, why: Ended::Revoked },
            GrantState::Expired => Lookup::Ended { grant, why: Ended::Expired },
            GrantState::Active if is_replaced => Lookup::Ended { grant, why: Ended::Replaced },
            GrantState::Active => Lookup::Active(grant),
        }
    }

    /// The currently valid tokens.
    pub fn live_tokens(&self, now_us: i64) -> impl Iterator<Item = LiveToken> {
        self.tokens.iter().filter_map(move |(hash, entry)| {
            let is_live = matches!(self.lookup_hash(*hash, now_us), Lookup::Active(_));
            is_live.then(|| LiveToken {
                hash: *hash,
                valid_until_us: entry.valid_until_us,
                audience: entry.audience.clone(),
            })
        })
    }

    /// Every grant, including revoked ones.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The grant of this label that is not revoked.
    pub fn grant(&self, label: &str) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.label == label && grant.revoked_at_us.is_none())
    }

    /// The server and its policy, if the grant has access to it and it exists. For a grant that is not
    /// an operator the operator server does not exist, whatever its policy says.
    pub fn access(&self, grant: &Grant, server: &str) -> Option<Access<'_>> {
        let access = grant.access(server)?;
        let server = self.servers.get(server)?;
        if server.target.is_operator() && !grant.operator {
            return None;
        }
        let policy = access.policy.as_deref().and_then(|name| self.policies.get(name));
        Some(Access { server, policy })
    }

    /// The servers of a grant that exist, by name.
    pub fn accesses<'e>(&'e self, grant: &'e Grant) -> impl Iterator<Item = Access<'e>> {
        grant.server_access.iter().filter_map(|access| self.access(grant, &access.server))
    }

    /// When the next grant or rotated token expires, if any; a gate may sleep until then.
    pub fn next_end_us(&self, now_us: i64) -> Option<i64> {
        let grants = self.grants.iter().filter_map(|grant| grant.expires_at_us);
        let tokens = self.tokens.values().filter_map(|entry| entry.valid_until_us);
        grants.chain(tokens).filter(|at| *at > now_us).min()
    }
}
