//! OAuth clients: registrations, bounded and short-lived until they are used, and fetched documents.

use oauth::server::{self, ClientMetadata, SecretUse};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::US_PER_SECOND;
use crate::registry::people::{BrowserSecret, hash};
use crate::registry::token::push_random;
use crate::registry::{Registry, RegistryError};

/// Registrations that no sign-in followed. Beyond this number, one of the oldest makes space.
pub const UNUSED_CLIENTS_MAX: i64 = 200;
/// An unused registration is safe from that for so long: enough to sign in.
const UNUSED_SAFE_US: i64 = 10 * 60 * US_PER_SECOND;
/// Registrations with a sign-in, and fetched documents.
const CLIENTS_MAX: i64 = 2_000;
/// A registration is kept for so long after its last sign-in.
const USED_US_MAX: i64 = 400 * 86_400 * US_PER_SECOND;
const ID_CHARS: usize = 22;

/// A known client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthClient {
    pub id: String,
    pub metadata: ClientMetadata,
    /// Its metadata is the document at its id; otherwise it registered itself.
    pub is_fetched: bool,
    secret_hash: Option<Vec<u8>>,
}

/// A client that was registered now.
pub struct RegisteredClient {
    pub id: String,
    pub secret: Option<BrowserSecret>,
}

impl OAuthClient {
    /// A client that is known by a metadata document, which is not stored.
    #[must_use]
    pub fn of_document(id: &str, metadata: ClientMetadata) -> OAuthClient {
        OAuthClient { id: id.to_owned(), metadata, is_fetched: true, secret_hash: None }
    }

    /// Whether the client proved itself as it registered. A public client has nothing to prove.
    pub fn is_proven_by(&self, secret: Option<&str>) -> bool {
        use subtle::ConstantTimeEq as _;
        match (&self.secret_hash, secret) {
            (None, _) => true,
            (Some(known), Some(secret)) => known.as_slice().ct_eq(&hash(secret)).into(),
            (Some(_), None) => false,
        }
    }
}

impl Registry {
    /// Registers a client. None if too many others registered in the last minutes and did not sign in.
    pub fn register_oauth_client(
        &self,
        metadata: &ClientMetadata,
        now_us: i64,
    ) -> Result<Option<RegisteredClient>, RegistryError> {
        if self.read(|db| is_full(db, now_us))? {
            return Ok(None);
        }
        let mut id = String::from("client_");
        push_random(&mut id, ID_CHARS, &self.random)?;
        let secret = match metadata.secret_use {
            SecretUse::None => None,
            _ => Some(self.browser_secret("secret_")?),
        };
        let secret_hash = secret.as_ref().map(|secret| hash(secret.expose()));
        let expires_at_us =
            now_us.saturating_add(server::UNUSED_REGISTRATION_SECONDS_MAX * US_PER_SECOND);
        let is_registered = self.write_quietly(|db| {
            db.execute("DELETE FROM oauth_clients WHERE expires_at_us <= ?1", [now_us])?;
            if is_full(db, now_us)? {
                return Ok(false);
            }
            if unused(db, now_us)? >= UNUSED_CLIENTS_MAX {
                db.execute(
                    "DELETE FROM oauth_clients WHERE id = (SELECT id FROM oauth_clients WHERE
                     is_fetched = 0 AND expires_at_us <= ?1 ORDER BY created_at_us LIMIT 1)",
                    [expires_at_us],
                )?;
            }
            put(db, &id, metadata, secret_hash.as_ref(), (false, now_us, expires_at_us))?;
            Ok(true)
        })?;
        Ok(is_registered.then_some(RegisteredClient { id, secret }))
    }

    pub fn oauth_client(
        &self,
        id: &str,
        now_us: i64,
    ) -> Result<Option<OAuthClient>, RegistryError> {
        self.find(|db| {
            let select = "SELECT metadata, secret_hash, is_fetched FROM oauth_clients
                          WHERE id = ?1 AND expires_at_us > ?2";
            let row: Option<(String, Option<Vec<u8>>, bool)> = db
                .query_row(select, (id, now_us), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            // Metadata that this version cannot read is that of an unknown client.
            Ok(row.and_then(|(metadata, secret_hash, is_fetched)| {
                let metadata = serde_json::from_str(&metadata).ok()?;
                Some(OAuthClient { id: id.to_owned(), metadata, is_fetched, secret_hash })
            }))
        })
    }

    /// Keeps a fetched document for a day.
    pub fn put_client_document(
        &self,
        id: &str,
        metadata: &ClientMetadata,
        now_us: i64,
    ) -> Result<OAuthClient, RegistryError> {
        let expires_at_us = now_us.saturating_add(server::DOCUMENT_SECONDS_MAX * US_PER_SECOND);
        self.write_quietly(|db| {
            db.execute("DELETE FROM oauth_clients WHERE expires_at_us <= ?1", [now_us])?;
            put(db, id, metadata, None, (true, now_us, expires_at_us))
        })?;
        Ok(OAuthClient::of_document(id, metadata.clone()))
    }
}

/// A sign-in followed: the registration is kept, and makes space for itself among the others.
pub(super) fn keep_used(db: &Transaction<'_>, id: &str, now_us: i64) -> Result<(), RegistryError> {
    let set = "UPDATE oauth_clients SET expires_at_us = ?2 WHERE id = ?1 AND is_fetched = 0";
    db.execute(set, (id, now_us.saturating_add(USED_US_MAX)))?;
    db.execute(
        "DELETE FROM oauth_clients WHERE id NOT IN
         (SELECT id FROM oauth_clients ORDER BY expires_at_us DESC LIMIT ?1)",
        [CLIENTS_MAX],
    )?;
    Ok(())
}

fn put(
    db: &Transaction<'_>,
    id: &str,
    metadata: &ClientMetadata,
    secret_hash: Option<&[u8; 32]>,
    (is_fetched, now_us, expires_at_us): (bool, i64, i64),
) -> Result<(), RegistryError> {
    let metadata =
        serde_json::to_string(metadata).map_err(|error| RegistryError::Io(error.to_string()))?;
    db.execute(
        "INSERT INTO oauth_clients
         (id, metadata, secret_hash, is_fetched, created_at_us, expires_at_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET
         metadata = excluded.metadata, expires_at_us = excluded.expires_at_us",
        (id, metadata, secret_hash, is_fetched, now_us, expires_at_us),
    )?;
    Ok(())
}

/// Unused registrations are those that expire within the hour.
fn unused(db: &Connection, now_us: i64) -> Result<i64, RegistryError> {
    let until_us = now_us.saturating_add(server::UNUSED_REGISTRATION_SECONDS_MAX * US_PER_SECOND);
    let count = "SELECT count(*) FROM oauth_clients
                 WHERE is_fetched = 0 AND expires_at_us > ?1 AND expires_at_us <= ?2";
    Ok(db.query_row(count, [now_us, until_us], |row| row.get(0))?)
}

/// Whether all unused registrations are so recent that none may make space.
fn is_full(db: &Connection, now_us: i64) -> Result<bool, RegistryError> {
    let until_us = now_us.saturating_add(server::UNUSED_REGISTRATION_SECONDS_MAX * US_PER_SECOND);
    let count = "SELECT count(*) FROM oauth_clients
                 WHERE is_fetched = 0 AND expires_at_us <= ?1 AND created_at_us > ?2";
    let safe_since_us = now_us.saturating_sub(UNUSED_SAFE_US);
    let recent: i64 = db.query_row(count, [until_us, safe_since_us], |row| row.get(0))?;
    Ok(recent >= UNUSED_CLIENTS_MAX)
}
