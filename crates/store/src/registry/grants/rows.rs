//! How grants are read from their three tables.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use super::{Grant, GrantClient, Prefix, ServerAccess, TokenRecord};
use crate::registry::error::{ObjectKind, Origin, RegistryError};
use crate::registry::token::TokenHash;

/// Every grant, by label and then by age.
pub(crate) fn all(db: &Connection) -> Result<Vec<Grant>, RegistryError> {
    let mut server_access = server_access(db)?;
    let mut tokens = tokens(db)?;
    let mut select = db.prepare_cached(
        "SELECT g.id, g.label, g.created_at_us, g.expires_at_us, g.expired_at_us, g.revoked_at_us,
                g.prefix, g.operator, s.client_id, s.client_name, s.audience, g.person
         FROM grants g LEFT JOIN oauth_sign_ins s ON s.grant_id = g.id
         ORDER BY g.label, g.created_at_us, g.id",
    )?;
    let mut grants = select.query_map([], grant_of)?.collect::<Result<Vec<_>, _>>()?;
    for grant in &mut grants {
        grant.server_access = server_access.remove(&grant.id).unwrap_or_default();
        grant.tokens = tokens.remove(&grant.id).unwrap_or_default();
    }
    Ok(grants)
}

pub(crate) fn one(db: &Connection, id: &str) -> Result<Grant, RegistryError> {
    let found = all(db)?.into_iter().find(|grant| grant.id == id);
    found.ok_or_else(|| RegistryError::Missing {
        kind: ObjectKind::Grant,
        name: id.to_owned(),
        near: String::new(),
    })
}

pub(super) fn live_labels(db: &Connection) -> Result<Vec<String>, RegistryError> {
    labels(db, "SELECT label FROM grants WHERE revoked_at_us IS NULL AND ?1 = ?1", 0)
}

/// Labels of grants that have expired and are not marked yet.
pub(super) fn due(db: &Connection, now_us: i64) -> Result<Vec<String>, RegistryError> {
    let select = "SELECT label FROM grants WHERE expires_at_us <= ?1
                  AND expired_at_us IS NULL AND revoked_at_us IS NULL ORDER BY label";
    labels(db, select, now_us)
}

fn labels(db: &Connection, select: &str, now_us: i64) -> Result<Vec<String>, RegistryError> {
    let mut select = db.prepare_cached(select)?;
    Ok(select.query_map([now_us], |r| r.get(0))?.collect::<Result<_, _>>()?)
}

fn grant_of(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let client = match row.get(8)? {
        Some(id) => Some(GrantClient { id, name: row.get(9)?, audience: row.get(10)? }),
        None => None,
    };
    Ok(Grant {
        id: row.get(0)?,
        label: row.get(1)?,
        server_access: Vec::new(),
        created_at_us: row.get(2)?,
        expires_at_us: row.get(3)?,
        expired_at_us: row.get(4)?,
        revoked_at_us: row.get(5)?,
        operator: row.get(7)?,
        tokens: Vec::new(),
        prefix: Prefix::parse(&row.get::<_, String>(6)?).unwrap_or_default(),
        client,
        person: row.get(11)?,
        origin: Origin::Registry,
    })
}

fn server_access(db: &Connection) -> Result<BTreeMap<String, Vec<ServerAccess>>, RegistryError> {
    let mut select =
        db.prepare_cached("SELECT grant_id, server, policy FROM holdings ORDER BY server")?;
    let rows = select.query_map([], |row| {
        Ok((row.get(0)?, ServerAccess { server: row.get(1)?, policy: row.get(2)? }))
    })?;
    grouped(rows)
}

fn tokens(db: &Connection) -> Result<BTreeMap<String, Vec<TokenRecord>>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT grant_id, hash, created_at_us, valid_until_us, audience FROM tokens
         ORDER BY created_at_us",
    )?;
    let rows = select.query_map([], |row| {
        let hash: Vec<u8> = row.get(1)?;
        let hash = TokenHash::from_bytes(&hash).ok_or(rusqlite::Error::InvalidQuery)?;
        let record = TokenRecord {
            hash,
            created_at_us: row.get(2)?,
            valid_until_us: row.get(3)?,
            audience: row.get(4)?,
        };
        Ok((row.get(0)?, record))
    })?;
    grouped(rows)
}

fn grouped<T>(
    rows: impl Iterator<Item = rusqlite::Result<(String, T)>>,
) -> Result<BTreeMap<String, Vec<T>>, RegistryError> {
    let mut groups: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for row in rows {
        let (key, value) = row?;
        groups.entry(key).or_default().push(value);
    }
    Ok(groups)
}
