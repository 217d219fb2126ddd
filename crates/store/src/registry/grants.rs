//! Grants: who may come in, with which token, to which servers, under which policy.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::Registry;
use super::error::{Origin, RegistryError, Thing};
use super::names::{FileNames, check_label, taken};
use super::token::{Token, TokenHash, push_random};
use super::{policies, servers};
use crate::ledger::stamp;
use crate::nearest::did_you_mean;

pub(super) mod rows;

/// After a rotation the old token works for so long unless told otherwise: enough to change a client.
pub const OVERLAP_SECONDS_DEFAULT: u64 = 24 * 3600;
pub const OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 3600;
pub const HOLDINGS_MAX: usize = 256;
const ID_CHARS: usize = 12;
const US_PER_SECOND: i64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `g_…`, or `file:LABEL` for one from `tollgate.toml`. Never used for another grant.
    pub id: String,
    pub label: String,
    pub holdings: Vec<Holding>,
    pub created_at_us: i64,
    pub expires_at_us: Option<i64>,
    /// When it was first found expired; from then on no clock brings it back.
    pub expired_at_us: Option<i64>,
    pub revoked_at_us: Option<i64>,
    pub tokens: Vec<TokenRecord>,
    pub origin: Origin,
}

/// A server that a grant may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holding {
    pub server: String,
    /// Without a policy every call is denied.
    pub policy: Option<String>,
}

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub hash: TokenHash,
    pub created_at_us: i64,
    /// Set when a rotation replaced it.
    pub valid_until_us: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGrant {
    pub label: String,
    pub holdings: Vec<Holding>,
    pub expires_at_us: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    Active,
    Expired,
    Revoked,
}

impl GrantState {
    pub fn as_str(self) -> &'static str {
        match self {
            GrantState::Active => "active",
            GrantState::Expired => "expired",
            GrantState::Revoked => "revoked",
        }
    }
}

impl Grant {
    pub fn state(&self, now_us: i64) -> GrantState {
        let is_due = self.expires_at_us.is_some_and(|at| at <= now_us);
        match () {
            () if self.revoked_at_us.is_some() => GrantState::Revoked,
            () if is_due || self.expired_at_us.is_some() => GrantState::Expired,
            () => GrantState::Active,
        }
    }

    /// The policy on a server, if the grant holds that server at all.
    pub fn holding(&self, server: &str) -> Option<&Holding> {
        self.holdings.iter().find(|holding| holding.server == server)
    }
}

impl Registry {
    /// Makes a grant. The token is in the answer and nowhere else.
    pub fn create_grant(
        &self,
        new: &NewGrant,
        file: &FileNames,
        now_us: i64,
    ) -> Result<(Grant, Token), RegistryError> {
        check_label(&new.label)?;
        check_expiry(&new.label, new.expires_at_us, now_us)?;
        if file.grants.contains(&new.label) {
            return Err(taken(Thing::Grant, &new.label, Origin::File));
        }
        let token = Token::generate(&self.random)?;
        let mut id = String::from("g_");
        push_random(&mut id, ID_CHARS, &self.random)?;
        self.act(("grant_created", &new.label, now_us), |db| {
            if live_id(db, &new.label)?.is_some() {
                return Err(taken(Thing::Grant, &new.label, Origin::Registry));
            }
            db.execute(
                "INSERT INTO grants (id, label, created_at_us, expires_at_us)
                 VALUES (?1, ?2, ?3, ?4)",
                (&id, &new.label, now_us, new.expires_at_us),
            )?;
            put_holdings(db, &id, &new.holdings, file)?;
            put_token(db, &id, &token, now_us)?;
            Ok((rows::one(db, &id)?, words_of(&new.holdings)))
        })
        .map(|grant| (grant, token))
    }

    /// Gives a grant another set of servers and policies, from the next call on.
    pub fn set_holdings(
        &self,
        label: &str,
        holdings: &[Holding],
        file: &FileNames,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.act(("grant_policy", label, now_us), |db| {
            let id = known_id(db, label)?;
            let before = rows::one(db, &id)?.holdings;
            db.execute("DELETE FROM holdings WHERE grant_id = ?1", [&id])?;
            put_holdings(db, &id, holdings, file)?;
            Ok(((), difference(&before, holdings)))
        })
    }

    /// Moves or removes the expiry; a grant that had expired works again.
    pub fn set_expiry(
        &self,
        label: &str,
        expires_at_us: Option<i64>,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        check_expiry(label, expires_at_us, now_us)?;
        self.act(("grant_expiry", label, now_us), |db| {
            let id = known_id(db, label)?;
            let set = "UPDATE grants SET expires_at_us = ?2, expired_at_us = NULL WHERE id = ?1";
            db.execute(set, (id, expires_at_us))?;
            Ok(((), expires_at_us.map_or_else(|| "never".to_owned(), stamp::text)))
        })
    }

    /// Replaces the token. The old one works for `overlap_seconds` more, or stops at once at 0.
    pub fn rotate_grant(
        &self,
        label: &str,
        overlap_seconds: u64,
        now_us: i64,
    ) -> Result<Token, RegistryError> {
        if overlap_seconds > OVERLAP_SECONDS_MAX {
            return Err(RegistryError::OverlapTooLong { seconds: overlap_seconds });
        }
        let token = Token::generate(&self.random)?;
        let overlap_us = i64::try_from(overlap_seconds).unwrap_or(i64::MAX) * US_PER_SECOND;
        let until_us = now_us.saturating_add(overlap_us);
        self.act(("grant_rotated", label, now_us), |db| {
            let id = known_id(db, label)?;
            // An older token that ends sooner keeps its end; what has ended is cleared away.
            db.execute(
                "UPDATE tokens SET valid_until_us = min(coalesce(valid_until_us, ?2), ?2)
                 WHERE grant_id = ?1",
                (&id, until_us),
            )?;
            let clear = "DELETE FROM tokens WHERE grant_id = ?1 AND valid_until_us <= ?2";
            db.execute(clear, (&id, now_us))?;
            put_token(db, &id, &token, now_us)?;
            Ok(((), format!("overlap {overlap_seconds} s")))
        })?;
        Ok(token)
    }

    /// Ends a grant at once. It stays listed as revoked, and its tokens are known as such.
    pub fn revoke_grant(&self, label: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("grant_revoked", label, now_us), |db| {
            let id = known_id(db, label)?;
            db.execute("UPDATE grants SET revoked_at_us = ?2 WHERE id = ?1", (id, now_us))?;
            Ok(((), String::new()))
        })
    }

    /// Marks what has expired by `now_us`, for good. Answers with the labels of what it marked.
    pub fn expire_due(&self, now_us: i64) -> Result<Vec<String>, RegistryError> {
        let due = self.read(|db| rows::due(db, now_us))?;
        if due.is_empty() {
            return Ok(due);
        }
        self.write(|db| {
            db.execute(
                "UPDATE grants SET expired_at_us = ?1
                 WHERE expires_at_us <= ?1 AND expired_at_us IS NULL AND revoked_at_us IS NULL",
                [now_us],
            )?;
            Ok(due)
        })
    }

    /// Every grant, revoked ones included, by label.
    pub fn grants(&self) -> Result<Vec<Grant>, RegistryError> {
        self.read(|db| rows::all(db))
    }

    /// The grant of this label that is not revoked.
    pub fn grant(&self, label: &str) -> Result<Grant, RegistryError> {
        self.read(|db| rows::one(db, &known_id(db, label)?))
    }
}

/// `files (policy read-only), bank (no policy named)`.
fn words_of(holdings: &[Holding]) -> String {
    let word = |holding: &Holding| match &holding.policy {
        Some(policy) => format!("{} (policy {policy})", holding.server),
        None => format!("{} (no policy named)", holding.server),
    };
    holdings.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// What changed in a grant: `bank=large-change`, and what it no longer holds.
fn difference(before: &[Holding], after: &[Holding]) -> String {
    let new = after.iter().filter(|holding| !before.contains(holding)).map(|holding| {
        let policy = holding.policy.as_deref();
        policy
            .map_or_else(|| holding.server.clone(), |policy| format!("{}={policy}", holding.server))
    });
    let gone = before.iter().filter(|old| after.iter().all(|new| new.server != old.server));
    new.chain(gone.map(|holding| format!("no {}", holding.server))).collect::<Vec<_>>().join(", ")
}

fn check_expiry(label: &str, expires_at_us: Option<i64>, now_us: i64) -> Result<(), RegistryError> {
    match expires_at_us {
        Some(at) if at <= now_us => Err(RegistryError::ExpiryPast(label.to_owned())),
        _ => Ok(()),
    }
}

fn put_holdings(
    db: &Transaction<'_>,
    id: &str,
    holdings: &[Holding],
    file: &FileNames,
) -> Result<(), RegistryError> {
    if holdings.len() > HOLDINGS_MAX {
        let most = HOLDINGS_MAX;
        return Err(RegistryError::TooMany { thing: Thing::Grant, what: "servers", most });
    }
    let known_servers = servers::names(db)?;
    let known_policies = policies::names(db)?;
    for Holding { server, policy } in holdings {
        check_known(Thing::Server, server, known_servers.iter().chain(&file.servers))?;
        if let Some(policy) = policy {
            check_known(Thing::Policy, policy, known_policies.iter().chain(&file.policies))?;
        }
        db.execute(
            "INSERT INTO holdings (grant_id, server, policy) VALUES (?1, ?2, ?3)
             ON CONFLICT (grant_id, server) DO UPDATE SET policy = excluded.policy",
            (id, server, policy),
        )?;
    }
    Ok(())
}

fn check_known<'k>(
    thing: Thing,
    name: &str,
    known: impl Iterator<Item = &'k String> + Clone,
) -> Result<(), RegistryError> {
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    let near = did_you_mean(name, known.map(String::as_str));
    Err(RegistryError::Missing { thing, name: name.to_owned(), near })
}

fn put_token(
    db: &Transaction<'_>,
    id: &str,
    token: &Token,
    now_us: i64,
) -> Result<(), RegistryError> {
    db.execute(
        "INSERT INTO tokens (hash, grant_id, created_at_us) VALUES (?1, ?2, ?3)",
        (token.hash().as_bytes(), id, now_us),
    )?;
    Ok(())
}

fn live_id(db: &Connection, label: &str) -> Result<Option<String>, RegistryError> {
    let select = "SELECT id FROM grants WHERE label = ?1 AND revoked_at_us IS NULL";
    Ok(db.query_row(select, [label], |r| r.get(0)).optional()?)
}

fn known_id(db: &Connection, label: &str) -> Result<String, RegistryError> {
    if let Some(id) = live_id(db, label)? {
        return Ok(id);
    }
    let select = "SELECT max(revoked_at_us) FROM grants WHERE label = ?1";
    if let Some(at_us) = db.query_row(select, [label], |row| row.get(0))? {
        return Err(RegistryError::Revoked { label: label.to_owned(), at_us });
    }
    let known = rows::live_labels(db)?;
    let near = did_you_mean(label, known.iter().map(String::as_str));
    Err(RegistryError::Missing { thing: Thing::Grant, name: label.to_owned(), near })
}
