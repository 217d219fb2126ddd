//! Grants: which client may use which servers, with which token and policy.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::Registry;
use super::error::{ObjectKind, Origin, RegistryError};
use super::names::{FileNames, check_label, taken};
use super::token::{Token, TokenHash, push_random};
use super::{policies, servers};
use crate::ledger::timestamp;
use policy::did_you_mean;

pub(super) mod rows;

/// How long the old token stays valid after a rotation by default: enough to change a client.
pub const OVERLAP_SECONDS_DEFAULT: u64 = 24 * 3600;
pub const OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 3600;
pub const SERVERS_PER_GRANT_MAX: usize = 256;
pub(super) const ID_CHARS: usize = 12;
const US_PER_SECOND: i64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `g_…`, or `file:LABEL` for one from `tollgate.toml`. Never reused.
    pub id: String,
    pub label: String,
    pub server_access: Vec<ServerAccess>,
    pub created_at_us: i64,
    pub expires_at_us: Option<i64>,
    /// When it was first found expired; from then on no clock change revives it.
    pub expired_at_us: Option<i64>,
    pub revoked_at_us: Option<i64>,
    pub tokens: Vec<TokenRecord>,
    pub prefix: Prefix,
    /// May use the operator server. Set when the grant is created, and never changed.
    pub operator: bool,
    /// The client that signed in for it, if the owner made the grant by consent.
    pub client: Option<GrantClient>,
    /// Who consented, or made it in the dashboard. None if it was made on the machine of the gate.
    pub person: Option<String>,
    pub origin: Origin,
}

/// Whether names at the endpoint of all servers have their server's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    #[default]
    Always,
    /// Only names that several servers have.
    Never,
}

impl Prefix {
    pub const ALL: [Prefix; 2] = [Prefix::Always, Prefix::Never];

    pub fn as_str(self) -> &'static str {
        match self {
            Prefix::Always => "always",
            Prefix::Never => "never",
        }
    }

    pub fn parse(text: &str) -> Option<Prefix> {
        Prefix::ALL.into_iter().find(|prefix| prefix.as_str() == text)
    }
}

/// The client of a grant that was made by consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantClient {
    /// The id that it registered, or the address of its metadata document.
    pub id: String,
    /// As it calls itself: untrusted text.
    pub name: String,
    /// The path of the resource that its tokens are for.
    pub audience: String,
}

/// A server that a grant may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerAccess {
    pub server: String,
    /// Without a policy every call is denied.
    pub policy: Option<String>,
}

/// What is stored about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub hash: TokenHash,
    pub created_at_us: i64,
    /// Set when a rotation replaced it, and for every access token.
    pub valid_until_us: Option<i64>,
    /// The path that an access token is for, such as `/mcp`; none for the grant's own token.
    pub audience: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGrant {
    pub label: String,
    pub server_access: Vec<ServerAccess>,
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
    /// `oauth` if it was made by consent, `token` otherwise.
    pub fn kind(&self) -> &'static str {
        if self.client.is_some() { "oauth" } else { "token" }
    }

    pub fn state(&self, now_us: i64) -> GrantState {
        let is_due = self.expires_at_us.is_some_and(|at| at <= now_us);
        match () {
            () if self.revoked_at_us.is_some() => GrantState::Revoked,
            () if is_due || self.expired_at_us.is_some() => GrantState::Expired,
            () => GrantState::Active,
        }
    }

    /// The policy on a server, if the grant has access to that server at all.
    pub fn access(&self, server: &str) -> Option<&ServerAccess> {
        self.server_access.iter().find(|access| access.server == server)
    }
}

impl Registry {
    /// Creates a grant. The token is only in the result.
    pub fn create_grant(
        &self,
        new: &NewGrant,
        file: &FileNames,
        now_us: i64,
    ) -> Result<(Grant, Token), RegistryError> {
        self.create(new, false, file, now_us)
    }

    /// Creates a grant that may use the operator server.
    pub fn create_operator_grant(
        &self,
        new: &NewGrant,
        file: &FileNames,
        now_us: i64,
    ) -> Result<(Grant, Token), RegistryError> {
        self.create(new, true, file, now_us)
    }

    fn create(
        &self,
        new: &NewGrant,
        operator: bool,
        file: &FileNames,
        now_us: i64,
    ) -> Result<(Grant, Token), RegistryError> {
        check_label(&new.label)?;
        check_expiry(&new.label, new.expires_at_us, now_us)?;
        if file.grants.contains(&new.label) {
            return Err(taken(ObjectKind::Grant, &new.label, Origin::File));
        }
        let token = Token::generate(&self.random)?;
        let mut id = String::from("g_");
        push_random(&mut id, ID_CHARS, &self.random)?;
        self.act(("grant_created", &new.label, now_us), |db| {
            if live_id(db, &new.label)?.is_some() {
                return Err(taken(ObjectKind::Grant, &new.label, Origin::Registry));
            }
            db.execute(
                "INSERT INTO grants (id, label, created_at_us, expires_at_us, operator, person)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                (&id, &new.label, now_us, new.expires_at_us, operator, &self.person),
            )?;
            put_server_access(db, &id, &new.server_access, file)?;
            put_token(db, &id, &token, now_us)?;
            let kind = if operator { "operator: " } else { "" };
            Ok((rows::one(db, &id)?, format!("{kind}{}", words_of(&new.server_access))))
        })
        .map(|grant| (grant, token))
    }

    /// Replaces the servers and policies of a grant, effective from the next call.
    pub fn set_server_access(
        &self,
        label: &str,
        server_access: &[ServerAccess],
        file: &FileNames,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.act(("grant_policy", label, now_us), |db| {
            let id = known_id(db, label)?;
            let before = rows::one(db, &id)?.server_access;
            db.execute("DELETE FROM holdings WHERE grant_id = ?1", [&id])?;
            put_server_access(db, &id, server_access, file)?;
            Ok(((), difference(&before, server_access)))
        })
    }

    /// Sets how names are listed at the endpoint of all servers.
    pub fn set_prefix(
        &self,
        label: &str,
        prefix: Prefix,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.act(("grant_prefix", label, now_us), |db| {
            let id = known_id(db, label)?;
            let set = "UPDATE grants SET prefix = ?2 WHERE id = ?1";
            db.execute(set, (id, prefix.as_str()))?;
            Ok(((), prefix.as_str().to_owned()))
        })
    }

    /// Changes or removes the expiry; an expired grant becomes valid again.
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
            Ok(((), expires_at_us.map_or_else(|| "never".to_owned(), timestamp::text)))
        })
    }

    /// Replaces the token. The old one stays valid for `overlap_seconds`, or ends at once at 0.
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
            // A sign-in ends at once: its client cannot be told about an overlap.
            db.execute("DELETE FROM tokens WHERE grant_id = ?1 AND audience IS NOT NULL", [&id])?;
            db.execute("DELETE FROM oauth_sign_ins WHERE grant_id = ?1", [&id])?;
            // An older token that ends sooner keeps its end; ended tokens are deleted.
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

    /// Revokes a grant at once. It stays listed as revoked, and its tokens are recognised as such.
    pub fn revoke_grant(&self, label: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("grant_revoked", label, now_us), |db| {
            let id = known_id(db, label)?;
            db.execute("UPDATE grants SET revoked_at_us = ?2 WHERE id = ?1", (id, now_us))?;
            Ok(((), String::new()))
        })
    }

    /// Ends every token of a grant at once. False if it has none.
    pub(super) fn end_tokens(&self, label: &str, now_us: i64) -> Result<bool, RegistryError> {
        self.write(|db| {
            let id = known_id(db, label)?;
            let end = "UPDATE tokens SET valid_until_us = ?2
                       WHERE grant_id = ?1 AND coalesce(valid_until_us, ?2 + 1) > ?2";
            Ok(db.execute(end, (&id, now_us))? > 0)
        })
    }

    /// Marks what has expired by `now_us`, permanently. Returns the labels of newly marked grants.
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

    /// Every grant, including revoked ones, by label.
    pub fn grants(&self) -> Result<Vec<Grant>, RegistryError> {
        self.read(|db| rows::all(db))
    }

    /// The grant of this label that is not revoked.
    pub fn grant(&self, label: &str) -> Result<Grant, RegistryError> {
        self.read(|db| rows::one(db, &known_id(db, label)?))
    }
}

/// `files (policy read-only), bank (no policy named)`.
pub(super) fn words_of(server_access: &[ServerAccess]) -> String {
    let word = |access: &ServerAccess| match &access.policy {
        Some(policy) => format!("{} (policy {policy})", access.server),
        None => format!("{} (no policy named)", access.server),
    };
    server_access.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// What changed in a grant: `bank=large-change`, and what it can no longer use.
fn difference(before: &[ServerAccess], after: &[ServerAccess]) -> String {
    let new = after.iter().filter(|access| !before.contains(access)).map(|access| {
        let policy = access.policy.as_deref();
        policy.map_or_else(|| access.server.clone(), |policy| format!("{}={policy}", access.server))
    });
    let gone = before.iter().filter(|old| after.iter().all(|new| new.server != old.server));
    new.chain(gone.map(|access| format!("no {}", access.server))).collect::<Vec<_>>().join(", ")
}

pub(super) fn check_expiry(
    label: &str,
    expires_at_us: Option<i64>,
    now_us: i64,
) -> Result<(), RegistryError> {
    match expires_at_us {
        Some(at) if at <= now_us => Err(RegistryError::ExpiryPast(label.to_owned())),
        _ => Ok(()),
    }
}

pub(super) fn put_server_access(
    db: &Transaction<'_>,
    id: &str,
    server_access: &[ServerAccess],
    file: &FileNames,
) -> Result<(), RegistryError> {
    if server_access.len() > SERVERS_PER_GRANT_MAX {
        let most = SERVERS_PER_GRANT_MAX;
        return Err(RegistryError::TooMany { kind: ObjectKind::Grant, what: "servers", most });
    }
    let known_servers = servers::names(db)?;
    let known_policies = policies::names(db)?;
    refuse_operator_server(db, id, server_access)?;
    for ServerAccess { server, policy } in server_access {
        check_known(ObjectKind::Server, server, known_servers.iter().chain(&file.servers))?;
        if let Some(policy) = policy {
            check_known(ObjectKind::Policy, policy, known_policies.iter().chain(&file.policies))?;
        }
        db.execute(
            "INSERT INTO holdings (grant_id, server, policy) VALUES (?1, ?2, ?3)
             ON CONFLICT (grant_id, server) DO UPDATE SET policy = excluded.policy",
            (id, server, policy),
        )?;
    }
    Ok(())
}

/// The gate hides the operator server from other grants; this says so where it would be confusing.
fn refuse_operator_server(
    db: &Transaction<'_>,
    id: &str,
    server_access: &[ServerAccess],
) -> Result<(), RegistryError> {
    let select = "SELECT label, operator FROM grants WHERE id = ?1";
    let (label, is_operator): (String, bool) =
        db.query_row(select, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if is_operator {
        return Ok(());
    }
    let servers = servers::rows::all(db)?;
    let mut held = server_access
        .iter()
        .filter_map(|access| servers.iter().find(|server| server.name == access.server));
    match held.find(|server| server.target.is_operator()) {
        Some(server) => Err(RegistryError::NotOperator { label, server: server.name.clone() }),
        None => Ok(()),
    }
}

fn check_known<'k>(
    kind: ObjectKind,
    name: &str,
    known: impl Iterator<Item = &'k String> + Clone,
) -> Result<(), RegistryError> {
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    let near = did_you_mean(name, known.map(String::as_str));
    Err(RegistryError::Missing { kind, name: name.to_owned(), near })
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

pub(super) fn live_id(db: &Connection, label: &str) -> Result<Option<String>, RegistryError> {
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
    Err(RegistryError::Missing { kind: ObjectKind::Grant, name: label.to_owned(), near })
}
