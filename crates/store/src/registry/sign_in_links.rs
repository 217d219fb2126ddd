//! One-time sign-in links. Only the hash of a link's token is stored.

use rusqlite::OptionalExtension as _;

use super::people::{self, BrowserSecret, OWNER, Person, Role};
use super::sessions::{self, SignInMethod};
use super::{Registry, RegistryError};

/// How long a sign-in link can be used.
pub const LINK_SECONDS_MAX: i64 = 15 * 60;
/// The oldest unused links of a person end beyond this number.
const LINKS_PER_PERSON_MAX: i64 = 5;
const US_PER_SECOND: i64 = 1_000_000;

impl Registry {
    /// A one-time sign-in link for a person. The owner is created at the first one.
    pub fn create_sign_in_link(
        &self,
        name: &str,
        now_us: i64,
    ) -> Result<BrowserSecret, RegistryError> {
        let secret = self.browser_secret("link_")?;
        self.write_quietly(|db| {
            if name == OWNER && people::find(db, OWNER)?.is_none() {
                people::insert(db, OWNER, Role::Admin, now_us)?;
            }
            people::known(db, name)?;
            db.execute("DELETE FROM sign_in_links WHERE expires_at_us <= ?1", [now_us])?;
            let expires_at_us = now_us.saturating_add(LINK_SECONDS_MAX * US_PER_SECOND);
            db.execute(
                "INSERT INTO sign_in_links (hash, person, expires_at_us) VALUES (?1, ?2, ?3)",
                (people::hash(secret.expose()), name, expires_at_us),
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
        browser: &str,
        now_us: i64,
    ) -> Result<Option<(Person, BrowserSecret)>, RegistryError> {
        let cookie = self.browser_secret("session_")?;
        let person = self.write_quietly(|db| {
            let select =
                "DELETE FROM sign_in_links WHERE hash = ?1 RETURNING person, expires_at_us";
            let link: Option<(String, i64)> = db
                .query_row(select, [people::hash(link)], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((name, _)) = link.filter(|(_, expires_at_us)| *expires_at_us > now_us) else {
                return Ok(None);
            };
            let person = people::known(db, &name)?;
            sessions::begin(db, &name, &cookie, (SignInMethod::Link, browser), now_us)?;
            Ok(Some(person))
        })?;
        Ok(person.map(|person| (person, cookie)))
    }
}
