//! People who may use the dashboard and their roles. Passwords do not exist; only hashes of the secrets of
//! browsers are stored.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::error::{ObjectKind, Origin, RegistryError};
use super::names::{check_label, taken};
use super::token::push_random;
use super::{Registry, TOKEN_PREFIX};
use crate::secret::Secret;

/// The person that exists in every home: the person who runs the gate.
pub const OWNER: &str = "owner";
/// 256 bits.
const SECRET_CHARS: usize = 43;
const EMAIL_BYTES_MAX: usize = 254;

/// What [`person_of`] reads, of `people p`.
pub(super) const COLUMNS: &str =
    "p.name, p.role, p.created_at_us, p.email, p.is_mapped, p.subject IS NOT NULL";
pub(super) const COLUMNS_COUNT: usize = 6;

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
    /// The verified e-mail under which this person signs in at the team's issuer.
    pub email: Option<String>,
    /// The mapping of `tollgate.toml` admitted this person and decides the role.
    pub is_mapped: bool,
    /// This person has signed in at the team's issuer.
    pub has_subject: bool,
}

/// A secret of a browser: the token of a sign-in link, or the cookie of a session.
pub struct BrowserSecret(Secret);

impl BrowserSecret {
    /// The secret itself, to be sent once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl Registry {
    pub fn people(&self) -> Result<Vec<Person>, RegistryError> {
        self.read(|db| {
            let select = format!("SELECT {COLUMNS} FROM people p ORDER BY name");
            let mut select = db.prepare_cached(&select)?;
            let rows = select.query_map([], person_of)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Adds a person. With an e-mail, that person can sign in at the team's issuer.
    pub fn add_person(
        &self,
        name: &str,
        role: Role,
        email: Option<&str>,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        check_label(name)?;
        let email = email.map(usual_email).transpose()?;
        self.act(("person_added", name, now_us), |db| {
            if find(db, name)?.is_some() {
                return Err(taken(ObjectKind::Person, name, Origin::Registry));
            }
            insert(db, name, role, now_us)?;
            set_email(db, name, email.as_deref())?;
            Ok(((), role.as_str().to_owned()))
        })
    }

    /// Changes the e-mail of a person, or removes it. The sign-in at the issuer that was bound to the old one
    /// ends with it, and so do its sessions.
    pub fn set_email(
        &self,
        name: &str,
        email: Option<&str>,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let email = email.map(usual_email).transpose()?;
        self.act(("person_email", name, now_us), |db| {
            refuse_mapped(&known(db, name)?)?;
            set_email(db, name, email.as_deref())?;
            db.execute("UPDATE people SET issuer = NULL, subject = NULL WHERE name = ?1", [name])?;
            let end = "DELETE FROM browser_sessions WHERE person = ?1 AND method = 'issuer'";
            db.execute(end, [name])?;
            Ok(((), email.unwrap_or_default()))
        })
    }

    pub fn set_role(&self, name: &str, role: Role, now_us: i64) -> Result<(), RegistryError> {
        self.act(("person_role", name, now_us), |db| {
            let person = known(db, name)?;
            refuse_mapped(&person)?;
            if person.role == Role::Admin && role != Role::Admin {
                check_other_admin(db, name)?;
            }
            db.execute("UPDATE people SET role = ?2 WHERE name = ?1", (name, role.as_str()))?;
            Ok(((), format!("{} to {}", person.role.as_str(), role.as_str())))
        })
    }

    /// Removes a person; the sessions, links and passkeys of that person end with it.
    pub fn remove_person(&self, name: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("person_removed", name, now_us), |db| {
            if known(db, name)?.role == Role::Admin {
                check_other_admin(db, name)?;
            }
            db.execute("DELETE FROM people WHERE name = ?1", [name])?;
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

pub(super) fn person_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Person> {
    let role: String = row.get(1)?;
    // A role that this version does not know may do the least.
    let role = Role::parse(&role).unwrap_or(Role::Viewer);
    Ok(Person {
        name: row.get(0)?,
        role,
        created_at_us: row.get(2)?,
        email: row.get(3)?,
        is_mapped: row.get(4)?,
        has_subject: row.get(5)?,
    })
}

pub(super) fn find(db: &Connection, name: &str) -> Result<Option<Person>, RegistryError> {
    let select = format!("SELECT {COLUMNS} FROM people p WHERE name = ?1");
    Ok(db.query_row(&select, [name], person_of).optional()?)
}

pub(super) fn known(db: &Connection, name: &str) -> Result<Person, RegistryError> {
    find(db, name)?.ok_or_else(|| RegistryError::Missing {
        kind: ObjectKind::Person,
        name: name.to_owned(),
        near: String::new(),
    })
}

pub(super) fn insert(
    db: &Connection,
    name: &str,
    role: Role,
    now_us: i64,
) -> Result<(), RegistryError> {
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

/// The role and e-mail of a mapped person come from the issuer and `tollgate.toml`.
fn refuse_mapped(person: &Person) -> Result<(), RegistryError> {
    if person.is_mapped { Err(RegistryError::Mapped(person.name.clone())) } else { Ok(()) }
}

/// In lower case, because issuers differ in how they write the same address.
fn usual_email(text: &str) -> Result<String, RegistryError> {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic());
    let parts = text.split_once('@');
    let fits = parts.is_some_and(|(user, domain)| {
        is_part(user) && is_part(domain) && !domain.contains('@') && domain.contains('.')
    });
    if fits && text.len() <= EMAIL_BYTES_MAX {
        return Ok(text.to_ascii_lowercase());
    }
    Err(RegistryError::Email(text.escape_debug().take(EMAIL_BYTES_MAX).collect()))
}

fn set_email(db: &Connection, name: &str, email: Option<&str>) -> Result<(), RegistryError> {
    let taken = "SELECT 1 FROM people WHERE email = ?1 AND name <> ?2";
    if db.query_row(taken, (email, name), |_| Ok(())).optional()?.is_some() {
        return Err(RegistryError::EmailTaken(email.unwrap_or_default().to_owned()));
    }
    db.execute("UPDATE people SET email = ?2 WHERE name = ?1", (name, email))?;
    Ok(())
}
