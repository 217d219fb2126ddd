//! Passkeys of people: public keys with their signature counters. Nothing here is secret.

use rusqlite::OptionalExtension as _;

use super::error::ObjectKind;
use super::people::{self, BrowserSecret, Person};
use super::sessions::{self, SignInMethod};
use super::{Registry, RegistryError};

/// More than a person has devices.
pub const PASSKEYS_PER_PERSON_MAX: usize = 20;
const NAME_CHARS_MAX: usize = 64;
const USER_HANDLE_BYTES: usize = 32;

/// A passkey that was just made and checked.
#[derive(Clone, Debug)]
pub struct NewPasskey<'a> {
    pub id: &'a [u8],
    pub name: &'a str,
    pub rp_id: &'a str,
    /// As COSE.
    pub public_key: &'a [u8],
    pub sign_count: u32,
}

/// What a sign-in is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPasskey {
    pub person: String,
    pub rp_id: String,
    pub public_key: Vec<u8>,
    pub user_handle: Vec<u8>,
}

/// A passkey as its person sees it in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPasskey {
    pub number: i64,
    pub id: Vec<u8>,
    pub name: String,
    pub rp_id: String,
    pub created_at_us: i64,
    pub used_at_us: Option<i64>,
}

impl Registry {
    /// The random bytes that passkeys know a person by, made at the first need.
    pub fn user_handle(&self, person: &str) -> Result<Vec<u8>, RegistryError> {
        let mut new = [0; USER_HANDLE_BYTES];
        self.random.fill(&mut new).map_err(|error| RegistryError::Io(error.to_string()))?;
        self.write_quietly(|db| {
            people::known(db, person)?;
            let set = "UPDATE people SET user_handle = ?2 WHERE name = ?1 AND user_handle IS NULL";
            db.execute(set, (person, new))?;
            let select = "SELECT user_handle FROM people WHERE name = ?1";
            Ok(db.query_row(select, [person], |row| row.get(0))?)
        })
    }

    pub fn passkeys(&self, person: &str) -> Result<Vec<ListedPasskey>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT number, id, name, rp_id, created_at_us, used_at_us FROM passkeys
                 WHERE person = ?1 ORDER BY number",
            )?;
            let rows = select.query_map([person], |row| {
                Ok(ListedPasskey {
                    number: row.get(0)?,
                    id: row.get(1)?,
                    name: row.get(2)?,
                    rp_id: row.get(3)?,
                    created_at_us: row.get(4)?,
                    used_at_us: row.get(5)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    pub fn add_passkey(
        &self,
        person: &str,
        new: &NewPasskey<'_>,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let name: String = new.name.chars().filter(|c| !c.is_control()).collect();
        if name.trim().is_empty() || name.chars().count() > NAME_CHARS_MAX {
            return Err(RegistryError::Passkey("its name must have 1 to 64 characters"));
        }
        self.act(("passkey_added", person, now_us), |db| {
            people::known(db, person)?;
            let count = "SELECT count(*) FROM passkeys WHERE person = ?1";
            let count: i64 = db.query_row(count, [person], |row| row.get(0))?;
            if usize::try_from(count).unwrap_or(usize::MAX) >= PASSKEYS_PER_PERSON_MAX {
                let what = "passkeys";
                let (kind, most) = (ObjectKind::Person, PASSKEYS_PER_PERSON_MAX);
                return Err(RegistryError::TooMany { kind, what, most });
            }
            let is_taken = "SELECT 1 FROM passkeys WHERE id = ?1";
            if db.query_row(is_taken, [new.id], |_| Ok(())).optional()?.is_some() {
                return Err(RegistryError::Passkey("it is registered already"));
            }
            db.execute(
                "INSERT INTO passkeys (id, person, name, rp_id, public_key, sign_count, created_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                (new.id, person, &name, new.rp_id, new.public_key, new.sign_count, now_us),
            )?;
            Ok(((), format!("`{name}` for {}", new.rp_id)))
        })
    }

    /// Removes a passkey of a person. Sessions that it began go on.
    pub fn remove_passkey(
        &self,
        person: &str,
        number: i64,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.act(("passkey_removed", person, now_us), |db| {
            let remove = "DELETE FROM passkeys WHERE person = ?1 AND number = ?2 RETURNING name";
            let name: Option<String> =
                db.query_row(remove, (person, number), |row| row.get(0)).optional()?;
            let name = name.ok_or(RegistryError::Passkey("there is none with this number"))?;
            Ok(((), format!("`{name}`")))
        })
    }

    /// A passkey by the id that an authenticator gave it.
    pub fn passkey(&self, id: &[u8]) -> Result<Option<StoredPasskey>, RegistryError> {
        self.find(|db| {
            let select = "SELECT k.person, k.rp_id, k.public_key, p.user_handle FROM passkeys k
                          JOIN people p ON p.name = k.person WHERE k.id = ?1";
            let row = db.query_row(select, [id], |row| {
                Ok(StoredPasskey {
                    person: row.get(0)?,
                    rp_id: row.get(1)?,
                    public_key: row.get(2)?,
                    user_handle: row.get::<_, Option<Vec<u8>>>(3)?.unwrap_or_default(),
                })
            });
            Ok(row.optional()?)
        })
    }

    /// Begins a session for a passkey whose signature was checked. Nothing if its counter did not grow: a copy
    /// of the key is in use. Counter and session change in one transaction, so one signature begins one session.
    pub fn sign_in_with_passkey(
        &self,
        id: &[u8],
        sign_count: u32,
        browser: &str,
        now_us: i64,
    ) -> Result<Option<(Person, BrowserSecret)>, RegistryError> {
        let cookie = self.browser_secret("session_")?;
        let person = self.write_quietly(|db| {
            // Authenticators without a counter always send zero.
            let used = "UPDATE passkeys SET sign_count = ?2, used_at_us = ?3 WHERE id = ?1
                        AND (sign_count < ?2 OR (sign_count = 0 AND ?2 = 0)) RETURNING person";
            let name: Option<String> =
                db.query_row(used, (id, sign_count, now_us), |row| row.get(0)).optional()?;
            let Some(name) = name else { return Ok(None) };
            sessions::begin(db, &name, &cookie, (SignInMethod::Passkey, browser), now_us)?;
            Ok(Some(people::known(db, &name)?))
        })?;
        Ok(person.map(|person| (person, cookie)))
    }
}
