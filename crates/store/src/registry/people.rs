//! People who may use the dashboard: roles, one-time sign-in links and browser sessions. Only hashes of
//! links and cookies are stored. Passwords do not exist.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::error::{ObjectKind, Origin, RegistryError};
use super::names::{check_label, taken};
use super::token::push_random;
use super::{Registry, TOKEN_PREFIX};
use crate::secret::Secret;

/// The person that exists in every home: whoever runs the gate.
pub const OWNER: &str = "owner";
/// How long a sign-in link can be used.
pub const LINK_SECONDS_MAX: i64 = 15 * 60;
/// A session ends after so long without a request.
pub const SESSION_IDLE_SECONDS_MAX: i64 = 7 * 24 * 3600;
/// A session ends after so long in any case.
pub const SESSION_SECONDS_MAX: i64 = 30 * 24 * 3600;
/// The oldest sessions of a person end beyond this number.
const SESSIONS_PER_PERSON_MAX: i64 = 20;
/// The oldest unused links of a person end beyond this number.
const LINKS_PER_PERSON_MAX: i64 = 5;
/// The last use of a session is stored at most this often.
const USE_STORED_EVERY_US: i64 = 60 * US_PER_SECOND;
/// 256 bits.
const SECRET_CHARS: usize = 43;
const US_PER_SECOND: i64 = 1_000_000;

/// What a person may do in the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything, people included.
    Admin,
    /// Writes policies and attaches them to grants; sees no credential and no token.
    PolicyManager,
    /// Reads everything, sealed arguments included.
    Auditor,
    /// Reads everything but sealed arguments.
    Viewer,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Admin, Role::PolicyManager, Role::Auditor, Role::Viewer];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::PolicyManager => "policy_manager",
            Role::Auditor => "auditor",
            Role::Viewer => "viewer",
        }
    }

    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    pub role: Role,
    pub created_at_us: i64,
}

/// A secret of a browser: the token of a sign-in link, or the cookie of a session.
pub struct BrowserSecret(Secret);

impl BrowserSecret {
    /// The secret itself, to be sent once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// The person behind a cookie, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    pub person: Person,
    pub created_at_us: i64,
}

impl Registry {
    pub fn people(&self) -> Result<Vec<Person>, RegistryError> {
        self.read(|db| {
            let mut select =
                db.prepare_cached("SELECT name, role, created_at_us FROM people ORDER BY name")?;
            let rows = select.query_map([], person_of)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    pub fn add_person(&self, name: &str, role: Role, now_us: i64) -> Result<(), RegistryError> {
        check_label(name)?;
        self.act(("person_added", name, now_us), |db| {
            if find(db, name)?.is_some() {
                return Err(taken(ObjectKind::Person, name, Origin::Registry));
            }
            insert(db, name, role, now_us)?;
            Ok(((), role.as_str().to_owned()))
        })
    }

    pub fn set_role(&self, name: &str, role: Role, now_us: i64) -> Result<(), RegistryError> {
        self.act(("person_role", name, now_us), |db| {
            let person = known(db, name)?;
            if person.role == Role::Admin && role != Role::Admin {
                check_other_admin(db, name)?;
            }
            db.execute("UPDATE people SET role = ?2 WHERE name = ?1", (name, role.as_str()))?;
            Ok(((), format!("{} to {}", person.role.as_str(), role.as_str())))
        })
    }

    /// Removes a person; the sessions and links of that person end with it.
    pub fn remove_person(&self, name: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("person_removed", name, now_us), |db| {
            if known(db, name)?.role == Role::Admin {
                check_other_admin(db, name)?;
            }
            end_all(db, name)?;
            db.execute("DELETE FROM people WHERE name = ?1", [name])?;
            Ok(((), String::new()))
        })
    }

    /// A one-time sign-in link for a person. The owner is created at the first one.
    pub fn create_sign_in_link(
        &self,
        name: &str,
        now_us: i64,
    ) -> Result<BrowserSecret, RegistryError> {
        let secret = self.browser_secret("link_")?;
        self.write_quietly(|db| {
            if name == OWNER && find(db, OWNER)?.is_none() {
                insert(db, OWNER, Role::Admin, now_us)?;
            }
            known(db, name)?;
            db.execute("DELETE FROM sign_in_links WHERE expires_at_us <= ?1", [now_us])?;
            let expires_at_us = now_us.saturating_add(LINK_SECONDS_MAX * US_PER_SECOND);
            db.execute(
                "INSERT INTO sign_in_links (hash, person, expires_at_us) VALUES (?1, ?2, ?3)",
                (hash(secret.expose()), name, expires_at_us),
            )?;
            db.execute(
                "DELETE FROM sign_in_links WHERE person = ?1 AND hash NOT IN (SELECT hash FROM
                 sign_in_links WHERE person = ?1 ORDER BY expires_at_us DESC LIMIT ?2)",
                (name, LINKS_PER_PERSON_MAX),
            )?;
            Ok(())
        })?;
        Ok(secret)
    }

    /// Exchanges the token of a link for a session. A link works once.
    pub fn sign_in(
        &self,
        link: &str,
        now_us: i64,
    ) -> Result<Option<(Person, BrowserSecret)>, RegistryError> {
        let cookie = self.browser_secret("session_")?;
        let person = self.write_quietly(|db| {
            let select =
                "DELETE FROM sign_in_links WHERE hash = ?1 RETURNING person, expires_at_us";
            let link: Option<(String, i64)> = db
                .query_row(select, [hash(link)], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((name, _)) = link.filter(|(_, expires_at_us)| *expires_at_us > now_us) else {
                return Ok(None);
            };
            let person = known(db, &name)?;
            db.execute(
                "INSERT INTO browser_sessions (hash, person, created_at_us, used_at_us)
                 VALUES (?1, ?2, ?3, ?3)",
                (hash(cookie.expose()), &name, now_us),
            )?;
            db.execute(
                "DELETE FROM browser_sessions WHERE person = ?1 AND hash NOT IN (SELECT hash FROM
                 browser_sessions WHERE person = ?1 ORDER BY created_at_us DESC LIMIT ?2)",
                (&name, SESSIONS_PER_PERSON_MAX),
            )?;
            Ok(Some(person))
        })?;
        Ok(person.map(|person| (person, cookie)))
    }

    /// The session of a cookie, if it has not ended.
    pub fn browser_session(
        &self,
        cookie: &str,
        now_us: i64,
    ) -> Result<Option<BrowserSession>, RegistryError> {
        let hash = hash(cookie);
        let found: Option<(BrowserSession, i64)> = self.read(|db| {
            let select = "SELECT p.name, p.role, p.created_at_us, s.created_at_us, s.used_at_us
                          FROM browser_sessions s JOIN people p ON p.name = s.person
                          WHERE s.hash = ?1";
            let row = db.query_row(select, [hash], |row| {
                let person = person_of(row)?;
                Ok((BrowserSession { person, created_at_us: row.get(3)? }, row.get(4)?))
            });
            Ok(row.optional()?)
        })?;
        let Some((session, used_at_us)) = found else { return Ok(None) };
        let idle_us = now_us.saturating_sub(used_at_us);
        let age_us = now_us.saturating_sub(session.created_at_us);
        if idle_us > SESSION_IDLE_SECONDS_MAX * US_PER_SECOND
            || age_us > SESSION_SECONDS_MAX * US_PER_SECOND
        {
            self.end_browser_session(cookie)?;
            return Ok(None);
        }
        if idle_us > USE_STORED_EVERY_US {
            self.write_quietly(|db| {
                let set = "UPDATE browser_sessions SET used_at_us = ?2 WHERE hash = ?1";
                Ok(db.execute(set, (hash, now_us))?)
            })?;
        }
        Ok(Some(session))
    }

    pub fn end_browser_session(&self, cookie: &str) -> Result<(), RegistryError> {
        let hash = hash(cookie);
        self.write_quietly(|db| {
            db.execute("DELETE FROM browser_sessions WHERE hash = ?1", [hash])?;
            Ok(())
        })
    }

    /// Signs a person out of every browser, and voids unused links.
    pub fn end_browser_sessions(&self, name: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("signed_out_everywhere", name, now_us), |db| {
            end_all(db, name)?;
            Ok(((), String::new()))
        })
    }

    /// `tg_`, a word and 256 random bits: log lines redact everything that begins like this.
    pub(super) fn browser_secret(&self, word: &str) -> Result<BrowserSecret, RegistryError> {
        let mut text = Zeroizing::new(format!("{TOKEN_PREFIX}{word}"));
        push_random(&mut text, SECRET_CHARS, &self.random)?;
        Ok(BrowserSecret(Secret::new(text.as_str())))
    }
}

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn person_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Person> {
    let role: String = row.get(1)?;
    // A role that this version does not know may do the least.
    let role = Role::parse(&role).unwrap_or(Role::Viewer);
    Ok(Person { name: row.get(0)?, role, created_at_us: row.get(2)? })
}

fn find(db: &Connection, name: &str) -> Result<Option<Person>, RegistryError> {
    let select = "SELECT name, role, created_at_us FROM people WHERE name = ?1";
    Ok(db.query_row(select, [name], person_of).optional()?)
}

fn known(db: &Connection, name: &str) -> Result<Person, RegistryError> {
    find(db, name)?.ok_or_else(|| RegistryError::Missing {
        kind: ObjectKind::Person,
        name: name.to_owned(),
        near: String::new(),
    })
}

fn insert(db: &Connection, name: &str, role: Role, now_us: i64) -> Result<(), RegistryError> {
    let put = "INSERT INTO people (name, role, created_at_us) VALUES (?1, ?2, ?3)";
    db.execute(put, (name, role.as_str(), now_us))?;
    Ok(())
}

/// The last admin stays: without one, no new admin could be added.
fn check_other_admin(db: &Connection, name: &str) -> Result<(), RegistryError> {
    let count = "SELECT count(*) FROM people WHERE role = 'admin' AND name <> ?1";
    let others: i64 = db.query_row(count, [name], |row| row.get(0))?;
    if others > 0 { Ok(()) } else { Err(RegistryError::LastAdmin(name.to_owned())) }
}

fn end_all(db: &Connection, name: &str) -> Result<(), RegistryError> {
    db.execute("DELETE FROM browser_sessions WHERE person = ?1", [name])?;
    db.execute("DELETE FROM sign_in_links WHERE person = ?1", [name])?;
    Ok(())
}
