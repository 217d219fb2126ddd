//! Browser sessions: how they begin and end. Only the hash of a cookie is stored, and every sign-in makes a new
//! cookie.

use rusqlite::{Connection, OptionalExtension as _};

use super::people::{self, BrowserSecret, Person};
use super::{Registry, RegistryError};

/// A session ends after so long without a request.
pub const SESSION_IDLE_SECONDS_MAX: i64 = 7 * 24 * 3600;
/// A session ends after so long in any case.
pub const SESSION_SECONDS_MAX: i64 = 30 * 24 * 3600;
/// The same for a session that an issuer vouched for: the issuer is asked again every day.
pub const ISSUER_SESSION_SECONDS_MAX: i64 = 24 * 3600;
/// The oldest sessions of a person end beyond this number.
const SESSIONS_PER_PERSON_MAX: i64 = 20;
/// The last use of a session is stored at most this often.
const USE_STORED_EVERY_US: i64 = 60 * US_PER_SECOND;
const BROWSER_CHARS_MAX: usize = 80;
const US_PER_SECOND: i64 = 1_000_000;

/// How a person signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    Link,
    Passkey,
    Issuer,
}

impl SignInMethod {
    const ALL: [SignInMethod; 3] =
        [SignInMethod::Link, SignInMethod::Passkey, SignInMethod::Issuer];

    pub fn as_str(self) -> &'static str {
        match self {
            SignInMethod::Link => "link",
            SignInMethod::Passkey => "passkey",
            SignInMethod::Issuer => "issuer",
        }
    }

    /// A method that this version does not know counts as the one with the shortest sessions.
    fn parse(text: &str) -> SignInMethod {
        let known = SignInMethod::ALL.into_iter().find(|method| method.as_str() == text);
        known.unwrap_or(SignInMethod::Issuer)
    }

    fn seconds_max(self) -> i64 {
        match self {
            SignInMethod::Link | SignInMethod::Passkey => SESSION_SECONDS_MAX,
            SignInMethod::Issuer => ISSUER_SESSION_SECONDS_MAX,
        }
    }
}

/// The person behind a cookie, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    pub person: Person,
    pub created_at_us: i64,
    pub method: SignInMethod,
}

/// A session as its person sees it in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    /// Names the session in addresses. It is not secret and no cookie.
    pub id: String,
    pub browser: String,
    pub method: SignInMethod,
    pub created_at_us: i64,
    pub used_at_us: i64,
}

impl Registry {
    /// The session of a cookie, if it has not ended.
    pub fn browser_session(
        &self,
        cookie: &str,
        now_us: i64,
    ) -> Result<Option<BrowserSession>, RegistryError> {
        let hash = people::hash(cookie);
        let found = self.find(|db| find(db, hash))?;
        let Some((session, used_at_us)) = found else { return Ok(None) };
        if has_ended(session.method, session.created_at_us, used_at_us, now_us) {
            self.end_browser_session(cookie)?;
            return Ok(None);
        }
        if now_us.saturating_sub(used_at_us) > USE_STORED_EVERY_US {
            self.write_quietly(|db| {
                let set = "UPDATE browser_sessions SET used_at_us = ?2 WHERE hash = ?1";
                Ok(db.execute(set, (hash, now_us))?)
            })?;
        }
        Ok(Some(session))
    }

    /// The sessions of a person that have not ended, the last used first.
    pub fn browser_sessions(
        &self,
        name: &str,
        now_us: i64,
    ) -> Result<Vec<ListedSession>, RegistryError> {
        self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT hash, browser, method, created_at_us, used_at_us FROM browser_sessions
                 WHERE person = ?1 ORDER BY used_at_us DESC, created_at_us DESC",
            )?;
            let rows = select.query_map([name], |row| {
                let (hash, method): ([u8; 32], String) = (row.get(0)?, row.get(2)?);
                Ok(ListedSession {
                    id: id_of(hash),
                    browser: row.get(1)?,
                    method: SignInMethod::parse(&method),
                    created_at_us: row.get(3)?,
                    used_at_us: row.get(4)?,
                })
            })?;
            let mut all: Vec<ListedSession> = rows.collect::<Result<_, _>>()?;
            all.retain(|one| !has_ended(one.method, one.created_at_us, one.used_at_us, now_us));
            Ok(all)
        })
    }

    pub fn end_browser_session(&self, cookie: &str) -> Result<(), RegistryError> {
        let hash = people::hash(cookie);
        self.write_quietly(|db| {
            db.execute("DELETE FROM browser_sessions WHERE hash = ?1", [hash])?;
            Ok(())
        })
    }

    /// Ends one session of a person by its id.
    pub fn end_listed_session(
        &self,
        name: &str,
        id: &str,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        self.act(("session_ended", name, now_us), |db| {
            let end = "DELETE FROM browser_sessions WHERE person = ?1
                       AND lower(hex(substr(hash, 1, 8))) = ?2";
            db.execute(end, (name, id))?;
            Ok(((), id.to_owned()))
        })
    }

    /// Signs a person out of every browser, and voids unused links.
    pub fn end_browser_sessions(&self, name: &str, now_us: i64) -> Result<(), RegistryError> {
        self.act(("signed_out_everywhere", name, now_us), |db| {
            people::known(db, name)?;
            end_all(db, name)?;
            Ok(((), String::new()))
        })
    }
}

/// The id under which the session of a cookie is listed.
pub fn session_id(cookie: &str) -> String {
    id_of(people::hash(cookie))
}

fn id_of(hash: [u8; 32]) -> String {
    let start = hash.first_chunk().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(start))
}

fn has_ended(method: SignInMethod, created_at_us: i64, used_at_us: i64, now_us: i64) -> bool {
    now_us.saturating_sub(used_at_us) > SESSION_IDLE_SECONDS_MAX * US_PER_SECOND
        || now_us.saturating_sub(created_at_us) > method.seconds_max() * US_PER_SECOND
}

fn find(db: &Connection, hash: [u8; 32]) -> Result<Option<(BrowserSession, i64)>, RegistryError> {
    let select = format!(
        "SELECT {}, s.created_at_us, s.used_at_us, s.method FROM browser_sessions s
         JOIN people p ON p.name = s.person WHERE s.hash = ?1",
        people::COLUMNS
    );
    let row = db.query_row(&select, [hash], |row| {
        let (person, method): (Person, String) = (people::person_of(row)?, row.get("method")?);
        let at = people::COLUMNS_COUNT;
        let method = SignInMethod::parse(&method);
        Ok((BrowserSession { person, created_at_us: row.get(at)?, method }, row.get(at + 1)?))
    });
    Ok(row.optional()?)
}

/// Begins a session in the transaction that proved who it is for.
pub(super) fn begin(
    db: &Connection,
    person: &str,
    cookie: &BrowserSecret,
    (method, browser): (SignInMethod, &str),
    now_us: i64,
) -> Result<(), RegistryError> {
    let browser: String =
        browser.chars().filter(|c| !c.is_control()).take(BROWSER_CHARS_MAX).collect();
    db.execute(
        "INSERT INTO browser_sessions (hash, person, created_at_us, used_at_us, browser, method)
         VALUES (?1, ?2, ?3, ?3, ?4, ?5)",
        (people::hash(cookie.expose()), person, now_us, browser, method.as_str()),
    )?;
    db.execute(
        "DELETE FROM browser_sessions WHERE person = ?1 AND hash NOT IN (SELECT hash FROM
         browser_sessions WHERE person = ?1 ORDER BY created_at_us DESC LIMIT ?2)",
        (person, SESSIONS_PER_PERSON_MAX),
    )?;
    Ok(())
}

pub(super) fn end_all(db: &Connection, name: &str) -> Result<(), RegistryError> {
    db.execute("DELETE FROM browser_sessions WHERE person = ?1", [name])?;
    db.execute("DELETE FROM sign_in_links WHERE person = ?1", [name])?;
    Ok(())
}
