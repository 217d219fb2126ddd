//! How a server is stored: the target's text only names its secrets.

use std::path::PathBuf;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use super::{NewServer, Server};
use crate::registry::credential::{Credential, EnvValue, SecretLocation};
use crate::registry::error::{Origin, RegistryError};
use crate::registry::target::Target;
use crate::vault::{Purpose, Sealed};

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum StoredTarget {
    Builtin {
        service: String,
    },
    /// The value of a variable without one is among the credentials.
    Command {
        argv: Vec<String>,
        env: Vec<(String, Option<String>)>,
        cwd: Option<PathBuf>,
        /// The positions of arguments that are among the credentials.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        secret_args: Vec<usize>,
    },
    Url {
        url: String,
        has_query: bool,
        headers: Vec<String>,
        allow_plain_http: bool,
    },
}

/// The texts of target and options.
pub(super) fn of(new: &NewServer) -> Result<(String, String), RegistryError> {
    let stored = match new.target.clone() {
        Target::Builtin { service } => StoredTarget::Builtin { service },
        Target::Command { argv, env, cwd, secret_args } => {
            let plain = |(name, value)| match value {
                EnvValue::Plain(text) => (name, Some(text)),
                EnvValue::Hidden(_) => (name, None),
            };
            let env = env.into_iter().map(plain).collect();
            let secret_args = secret_args.into_iter().map(|(at, _)| at).collect();
            StoredTarget::Command { argv, env, cwd, secret_args }
        }
        Target::Url { url, query, headers, allow_plain_http } => {
            let headers = headers.into_iter().map(|(name, _)| name).collect();
            StoredTarget::Url { url, has_query: query.is_some(), headers, allow_plain_http }
        }
    };
    let failed = |e: serde_json::Error| RegistryError::Io(e.to_string());
    let target = serde_json::to_string(&stored).map_err(failed)?;
    let options = serde_json::to_string(&new.options).map_err(failed)?;
    Ok((target, options))
}

/// Every server, by name.
pub(crate) fn all(db: &Connection) -> Result<Vec<Server>, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT name, options, created_at_us, updated_at_us, id, target
         FROM servers ORDER BY name",
    )?;
    let rows = select.query_map([], server_of)?.collect::<Result<Vec<_>, _>>()?;
    let with_target = |(mut server, id, stored): (Server, i64, StoredTarget)| {
        server.target = target_of(db, id, stored)?;
        Ok(server)
    };
    rows.into_iter().map(with_target).collect()
}

fn server_of(row: &Row<'_>) -> rusqlite::Result<(Server, i64, StoredTarget)> {
    let server = Server {
        name: row.get(0)?,
        target: Target::Builtin { service: String::new() },
        options: from_json(row, 1)?,
        created_at_us: row.get(2)?,
        updated_at_us: row.get(3)?,
        origin: Origin::Registry,
    };
    Ok((server, row.get(4)?, from_json(row, 5)?))
}

fn from_json<T: for<'t> Deserialize<'t>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, e.into()))
}

fn target_of(db: &Connection, id: i64, stored: StoredTarget) -> Result<Target, RegistryError> {
    match stored {
        StoredTarget::Builtin { service } => Ok(Target::Builtin { service }),
        StoredTarget::Command { argv, env, cwd, secret_args } => {
            let value = |(name, plain): (String, Option<String>)| {
                let value = match plain {
                    Some(plain) => EnvValue::Plain(plain),
                    None => EnvValue::Hidden(sealed(db, id, SecretLocation::Env, &name)?),
                };
                Ok((name, value))
            };
            let env = env.into_iter().map(value).collect::<Result<_, RegistryError>>()?;
            let argument =
                |at: usize| Ok((at, sealed(db, id, SecretLocation::Argument, &at.to_string())?));
            let secret_args =
                secret_args.into_iter().map(argument).collect::<Result<_, RegistryError>>()?;
            Ok(Target::Command { argv, env, cwd, secret_args })
        }
        StoredTarget::Url { url, has_query, headers, allow_plain_http } => {
            let header = |name: String| {
                let value = sealed(db, id, SecretLocation::Header, &name)?;
                Ok((name, value))
            };
            let headers = headers.into_iter().map(header).collect::<Result<_, RegistryError>>()?;
            let query = has_query.then(|| sealed(db, id, SecretLocation::Query, "")).transpose()?;
            Ok(Target::Url { url, query, headers, allow_plain_http })
        }
    }
}

fn sealed(
    db: &Connection,
    id: i64,
    place: SecretLocation,
    name: &str,
) -> Result<Credential, RegistryError> {
    let mut select = db.prepare_cached(
        "SELECT sealed FROM credentials WHERE server_id = ?1 AND place = ?2 AND name = ?3",
    )?;
    let key = key(place, name);
    let bytes = select.query_row((id, place.as_str(), &key), |r| r.get(0)).optional()?;
    // A missing credential row counts as one that cannot be opened: only that server stops.
    let bytes = bytes.unwrap_or_default();
    let row = location_of(id, place, &key);
    Ok(Credential::Sealed(Sealed::from_bytes(Purpose::ServerCredential, &row, bytes)))
}

/// The row name of a credential; header names are case-insensitive.
pub(super) fn key(place: SecretLocation, name: &str) -> String {
    match place {
        SecretLocation::Header => name.to_ascii_lowercase(),
        SecretLocation::Env | SecretLocation::Query | SecretLocation::Argument => name.to_owned(),
    }
}

/// What a credential is sealed to.
pub(super) fn location_of(id: i64, place: SecretLocation, key: &str) -> String {
    format!("{id}/{}/{key}", place.as_str())
}
