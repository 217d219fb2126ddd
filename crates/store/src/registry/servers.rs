//! Servers: a name, a target, and credentials sealed to the server's row.

use rusqlite::{Connection, OptionalExtension, Transaction};
use serde::{Deserialize, Serialize};

use super::error::{ObjectKind, Origin, RegistryError};
use super::names::{FileNames, check_name, taken};
use super::stateless::stateless_package;
use super::target::Target;
use super::{Registry, pins};
use crate::vault::Purpose;
use policy::did_you_mean;

pub(super) mod rows;

/// A server's list of tools is requested again when it is older than this.
pub const PINS_FRESH_SECONDS_DEFAULT: u64 = 5;
pub const SERVERS_MAX: usize = 1_000;

/// A server as the gate uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub target: Target,
    pub options: ServerOptions,
    pub created_at_us: i64,
    pub updated_at_us: i64,
    pub origin: Origin,
}

/// A server to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewServer {
    pub name: String,
    pub target: Target,
    pub options: ServerOptions,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerOptions {
    /// The timeout of one call; `None`: the gate's own.
    pub call_ms_max: Option<u64>,
    /// The timeout for the server to start and respond to its first message.
    pub start_ms_max: Option<u64>,
    pub pins_fresh_seconds: u64,
    /// The tool sets or single tools of a built-in server that are shown; its defaults if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Whether all clients share one process of a command; `None`: if its package is known to be
    /// stateless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<bool>,
    /// Whether its own endpoint lists names that every client accepts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub map_names: bool,
    /// Whether each grant has its own login at a server that wants OAuth.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_grant: bool,
    /// Whether the params of its calls are kept, sealed, for auditors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capture: bool,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            call_ms_max: None,
            start_ms_max: None,
            pins_fresh_seconds: PINS_FRESH_SECONDS_DEFAULT,
            tools: Vec::new(),
            share: None,
            map_names: false,
            per_grant: false,
            capture: false,
        }
    }
}

impl Server {
    /// Whether all clients share one process: set by the owner, otherwise if its package is known
    /// to be stateless.
    pub fn is_shared(&self) -> bool {
        let Target::Command { argv, .. } = &self.target else { return false };
        self.options.share.unwrap_or_else(|| stateless_package(argv).is_some())
    }
}

impl Registry {
    pub fn add_server(
        &self,
        new: &NewServer,
        file: &FileNames,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        check_name(ObjectKind::Server, &new.name)?;
        new.target.check()?;
        if file.servers.contains(&new.name) {
            return Err(taken(ObjectKind::Server, &new.name, Origin::File));
        }
        self.act(("server_added", &new.name, now_us), |db| {
            if id_of(db, &new.name)?.is_some() {
                return Err(taken(ObjectKind::Server, &new.name, Origin::Registry));
            }
            check_room(db)?;
            let (target, options) = rows::of(new)?;
            db.execute(
                "INSERT INTO servers (name, target, options, created_at_us, updated_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?4)",
                (&new.name, target, options, now_us),
            )?;
            self.put_credentials(db, db.last_insert_rowid(), &new.target)?;
            Ok(((), new.target.kind().to_owned()))
        })
    }

    /// Changes target and options of a server. Its pins stay, so that different tools of a new
    /// target are noticed. Credentials of the old target can be passed on.
    pub fn replace_server(&self, new: &NewServer, now_us: i64) -> Result<(), RegistryError> {
        new.target.check()?;
        self.act(("server_changed", &new.name, now_us), |db| {
            let id = known_id(db, &new.name)?;
            db.execute("DELETE FROM credentials WHERE server_id = ?1", [id])?;
            db.execute("DELETE FROM server_lists WHERE server = ?1", [&new.name])?;
            let (target, options) = rows::of(new)?;
            db.execute(
                "UPDATE servers SET target = ?2, options = ?3, updated_at_us = ?4 WHERE id = ?1",
                (id, target, options, now_us),
            )?;
            self.put_credentials(db, id, &new.target)?;
            Ok(((), new.target.kind().to_owned()))
        })
    }

    /// Removes a server with its credentials, its pins, and its place in every grant: a later
    /// server of the same name must not inherit access. Returns those grants.
    pub fn remove_server(&self, name: &str, now_us: i64) -> Result<Vec<String>, RegistryError> {
        self.act(("server_removed", name, now_us), |db| {
            let id = known_id(db, name)?;
            let mut held = db.prepare(
                "SELECT g.label FROM holdings h JOIN grants g ON g.id = h.grant_id
                 WHERE h.server = ?1 AND g.revoked_at_us IS NULL ORDER BY g.label",
            )?;
            let grants: Vec<String> =
                held.query_map([name], |r| r.get(0))?.collect::<Result<_, _>>()?;
            db.execute("DELETE FROM holdings WHERE server = ?1", [name])?;
            pins::forget(db, name)?;
            db.execute("DELETE FROM servers WHERE id = ?1", [id])?;
            let words = match &*grants {
                [] => String::new(),
                grants => format!("also from {}", grants.join(", ")),
            };
            Ok((grants, words))
        })
    }

    pub fn servers(&self) -> Result<Vec<Server>, RegistryError> {
        self.read(|db| rows::all(db))
    }

    pub fn server(&self, name: &str) -> Result<Server, RegistryError> {
        self.read(|db| {
            let found = rows::all(db)?.into_iter().find(|server| server.name == name);
            found.map_or_else(|| Err(missing(db, name)?), Ok)
        })
    }

    fn put_credentials(
        &self,
        db: &Transaction<'_>,
        id: i64,
        target: &Target,
    ) -> Result<(), RegistryError> {
        for (place, name, credential) in target.credentials() {
            let plain = credential.open(&self.vault)?;
            let key = rows::key(place, &name);
            let row = rows::location_of(id, place, &key);
            let plain = plain.expose().as_bytes();
            let sealed = self.vault.seal(Purpose::ServerCredential, &row, plain, &self.random)?;
            db.execute(
                "INSERT INTO credentials (server_id, place, name, sealed) VALUES (?1, ?2, ?3, ?4)",
                (id, place.as_str(), key, sealed.as_bytes()),
            )?;
        }
        Ok(())
    }
}

fn id_of(db: &Connection, name: &str) -> Result<Option<i64>, RegistryError> {
    let select = "SELECT id FROM servers WHERE name = ?1";
    Ok(db.query_row(select, [name], |r| r.get(0)).optional()?)
}

fn known_id(db: &Connection, name: &str) -> Result<i64, RegistryError> {
    id_of(db, name)?.map_or_else(|| Err(missing(db, name)?), Ok)
}

fn missing(db: &Connection, name: &str) -> Result<RegistryError, RegistryError> {
    let known = names(db)?;
    let near = did_you_mean(name, known.iter().map(String::as_str));
    Ok(RegistryError::Missing { kind: ObjectKind::Server, name: name.to_owned(), near })
}

pub(super) fn names(db: &Connection) -> Result<Vec<String>, RegistryError> {
    let mut select = db.prepare_cached("SELECT name FROM servers ORDER BY name")?;
    Ok(select.query_map([], |r| r.get(0))?.collect::<Result<_, _>>()?)
}

fn check_room(db: &Connection) -> Result<(), RegistryError> {
    if names(db)?.len() < SERVERS_MAX {
        return Ok(());
    }
    Err(RegistryError::TooMany { kind: ObjectKind::Server, what: "entries", most: SERVERS_MAX })
}
