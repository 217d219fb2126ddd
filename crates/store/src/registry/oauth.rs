//! Sign-ins of OAuth clients: registrations, codes, refresh tokens. A sign-in belongs to the grant that the
//! owner made by consent, and its access tokens are tokens of that grant. Only hashes are stored.

use oauth::server::{self, Presented, present};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::error::{ObjectKind, RegistryError};
use super::grants::{self, GrantState, rows};
use super::names::{FileNames, check_label};
use super::people::{BrowserSecret, hash};
use super::token::{Token, push_random};
use super::{Grant, Registry, ServerAccess};
use crate::ledger::Note;

mod clients;

pub use clients::{OAuthClient, RegisteredClient, UNUSED_CLIENTS_MAX};

/// Access tokens of one sign-in that may be valid at a time; the oldest end beyond it.
const ACCESS_TOKENS_MAX: i64 = 8;
/// Replaced refresh tokens that are remembered for one sign-in.
const REPLACED_TOKENS_MAX: i64 = 200;
/// Used codes are remembered for so long, so that a second use is noticed.
const USED_CODE_US_MAX: i64 = 24 * 3600 * US_PER_SECOND;
/// Labels are tried up to this number.
const LABEL_NUMBER_MAX: u32 = 10_000;
const US_PER_SECOND: i64 = 1_000_000;

/// What the owner decided for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignIn {
    /// The label is this with a number: `claude-ai-1`.
    pub label_base: String,
    pub server_access: Vec<ServerAccess>,
    pub expires_at_us: Option<i64>,
    pub client_id: String,
    pub client_name: String,
    /// The path of the resource that the tokens are for.
    pub audience: String,
    pub redirect_uri: String,
    pub code_challenge: String,
}

/// A client's request to exchange a code.
#[derive(Clone, Copy)]
pub struct CodeExchange<'r> {
    pub code: &'r str,
    pub client_id: &'r str,
    /// OAuth 2.1 no longer sends it; where it is sent, it must be that of the authorization request.
    pub redirect_uri: Option<&'r str>,
    pub verifier: &'r str,
    /// The path of the named resource, if one is named.
    pub audience: Option<&'r str>,
}

/// New tokens of a sign-in.
pub struct IssuedTokens {
    pub access: Token,
    /// None where a refresh is repeated: the client keeps the token it was given before.
    pub refresh: Option<BrowserSecret>,
    pub access_seconds: i64,
    pub label: String,
}

/// Why there are no tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInFault {
    #[error("the code or token is not known")]
    Unknown,
    #[error("the code has expired")]
    Expired,
    #[error("the code was used before, so the sign-in has ended")]
    CodeReused,
    #[error("the refresh token was replaced and used again, so the sign-in has ended")]
    RefreshReused,
    #[error("the code or token belongs to another client")]
    OtherClient,
    #[error("`redirect_uri` is not that of the authorization request")]
    OtherRedirect,
    #[error("`code_verifier` does not match")]
    WrongVerifier,
    #[error("`resource` is not that of the authorization request")]
    OtherResource,
    #[error("the grant was revoked or has expired")]
    GrantEnded,
}

pub type SignInTokens = Result<IssuedTokens, SignInFault>;

struct CodeRow {
    grant_id: String,
    redirect_uri: String,
    challenge: String,
    expires_at_us: i64,
    used_at_us: Option<i64>,
}

impl Registry {
    /// Makes a grant for a client, with a code that the client exchanges for tokens.
    pub fn create_sign_in(
        &self,
        new: &NewSignIn,
        file: &FileNames,
        now_us: i64,
    ) -> Result<(Grant, BrowserSecret), RegistryError> {
        grants::check_expiry(&new.label_base, new.expires_at_us, now_us)?;
        let code = self.browser_secret("code_")?;
        let mut id = String::from("g_");
        push_random(&mut id, grants::ID_CHARS, &self.random)?;
        self.write(|db| {
            self.revoke_unfinished(db, now_us)?;
            let label = free_label(db, &new.label_base, file)?;
            check_label(&label)?;
            db.execute(
                "INSERT INTO grants (id, label, created_at_us, expires_at_us, person)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                (&id, &label, now_us, new.expires_at_us, &self.person),
            )?;
            grants::put_server_access(db, &id, &new.server_access, file)?;
            db.execute(
                "INSERT INTO oauth_sign_ins
                 (grant_id, client_id, client_name, audience, created_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                (&id, &new.client_id, &new.client_name, &new.audience, now_us),
            )?;
            let expires_at_us = now_us.saturating_add(server::CODE_SECONDS_MAX * US_PER_SECOND);
            db.execute(
                "INSERT INTO oauth_codes (hash, grant_id, redirect_uri, challenge, expires_at_us)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                (hash(code.expose()), &id, &new.redirect_uri, &new.code_challenge, expires_at_us),
            )?;
            clients::keep_used(db, &new.client_id, now_us)?;
            let servers = grants::words_of(&new.server_access);
            let words = format!("{servers}; for OAuth client {}", new.client_id);
            let note = Note { act: "grant_created", by: &self.actor, about: &label, words: &words };
            self.store_act(db, &note, now_us)?;
            rows::one(db, &id)
        })
        .map(|grant| (grant, code))
    }

    /// Exchanges a code. A code works once: its second use revokes the grant.
    pub fn exchange_code(
        &self,
        exchange: &CodeExchange<'_>,
        now_us: i64,
    ) -> Result<SignInTokens, RegistryError> {
        let hash = hash(exchange.code);
        if self.read(|db| code_row(db, &hash))?.is_none() {
            return Ok(Err(SignInFault::Unknown));
        }
        self.write(|db| {
            let Some(row) = code_row(db, &hash)? else { return Ok(Err(SignInFault::Unknown)) };
            let grant = rows::one(db, &row.grant_id)?;
            if row.used_at_us.is_some() {
                self.end_sign_in(db, &grant, "a code was used twice", now_us)?;
                return Ok(Err(SignInFault::CodeReused));
            }
            let set = "UPDATE oauth_codes SET used_at_us = ?2 WHERE hash = ?1";
            db.execute(set, (&hash, now_us))?;
            match check_code(&row, &grant, exchange, now_us) {
                Ok(()) => self.issue(db, &grant, true, now_us).map(Ok),
                Err(fault) => {
                    // The code is used up, so no client can finish this sign-in.
                    self.end_sign_in(db, &grant, &fault.to_string(), now_us)?;
                    Ok(Err(fault))
                }
            }
        })
    }

    /// New tokens for a refresh token. One that was replaced more than a minute ago revokes the grant.
    pub fn refresh_sign_in(
        &self,
        token: &str,
        client_id: &str,
        audience: Option<&str>,
        now_us: i64,
    ) -> Result<SignInTokens, RegistryError> {
        let hash = hash(token);
        if self.read(|db| refresh_row(db, &hash))?.is_none() {
            return Ok(Err(SignInFault::Unknown));
        }
        self.write(|db| {
            let Some((grant_id, replaced_at_us)) = refresh_row(db, &hash)? else {
                return Ok(Err(SignInFault::Unknown));
            };
            let grant = rows::one(db, &grant_id)?;
            if let Err(fault) = check_client(&grant, client_id, audience, now_us) {
                return Ok(Err(fault));
            }
            match present(replaced_at_us, now_us) {
                Presented::Rotate => {
                    let set = "UPDATE oauth_refresh_tokens SET replaced_at_us = ?2 WHERE hash = ?1";
                    db.execute(set, (&hash, now_us))?;
                    self.issue(db, &grant, true, now_us).map(Ok)
                }
                Presented::Retry => self.issue(db, &grant, false, now_us).map(Ok),
                Presented::Reused => {
                    self.end_sign_in(db, &grant, "a replaced refresh token was used", now_us)?;
                    Ok(Err(SignInFault::RefreshReused))
                }
            }
        })
    }

    /// Ends the sign-in of a refresh or access token, and with it the grant. Returns the label, unless the
    /// token is unknown or belongs to another client.
    pub fn revoke_sign_in(
        &self,
        token: &str,
        client_id: &str,
        now_us: i64,
    ) -> Result<Option<String>, RegistryError> {
        let hash = hash(token);
        if self.read(|db| grant_of_token(db, &hash))?.is_none() {
            return Ok(None);
        }
        self.write(|db| {
            let Some(id) = grant_of_token(db, &hash)? else { return Ok(None) };
            let grant = rows::one(db, &id)?;
            let is_theirs = grant.client.as_ref().is_some_and(|client| client.id == client_id);
            if !is_theirs || grant.revoked_at_us.is_some() {
                return Ok(None);
            }
            self.end_sign_in(db, &grant, "the client signed out", now_us)?;
            Ok(Some(grant.label))
        })
    }

    /// A secret that binds a consent page to the browser it was shown in.
    pub fn consent_secret(&self) -> Result<BrowserSecret, RegistryError> {
        self.browser_secret("consent_")
    }

    fn issue(
        &self,
        db: &Transaction<'_>,
        grant: &Grant,
        rotates: bool,
        now_us: i64,
    ) -> Result<IssuedTokens, RegistryError> {
        let access = Token::generate(&self.random)?;
        let audience = grant.client.as_ref().map(|client| client.audience.as_str());
        let until_us = now_us.saturating_add(server::ACCESS_SECONDS_MAX * US_PER_SECOND);
        let until_us = grant.expires_at_us.map_or(until_us, |end_us| end_us.min(until_us));
        db.execute(
            "INSERT INTO tokens (hash, grant_id, created_at_us, valid_until_us, audience)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (access.hash().as_bytes(), &grant.id, now_us, until_us, audience),
        )?;
        db.execute(
            "DELETE FROM tokens WHERE grant_id = ?1 AND audience IS NOT NULL AND hash NOT IN
             (SELECT hash FROM tokens WHERE grant_id = ?1 AND audience IS NOT NULL
              ORDER BY created_at_us DESC, hash = ?3 DESC LIMIT ?2)",
            (&grant.id, ACCESS_TOKENS_MAX, access.hash().as_bytes()),
        )?;
        let refresh = if rotates { Some(self.put_refresh_token(db, grant, now_us)?) } else { None };
        let access_seconds = (until_us - now_us) / US_PER_SECOND;
        Ok(IssuedTokens { access, refresh, access_seconds, label: grant.label.clone() })
    }

    fn put_refresh_token(
        &self,
        db: &Transaction<'_>,
        grant: &Grant,
        now_us: i64,
    ) -> Result<BrowserSecret, RegistryError> {
        let refresh = self.browser_secret("refresh_")?;
        db.execute(
            "INSERT INTO oauth_refresh_tokens (hash, grant_id, created_at_us) VALUES (?1, ?2, ?3)",
            (hash(refresh.expose()), &grant.id, now_us),
        )?;
        db.execute(
            "DELETE FROM oauth_refresh_tokens WHERE grant_id = ?1 AND replaced_at_us IS NOT NULL
             AND hash NOT IN (SELECT hash FROM oauth_refresh_tokens WHERE grant_id = ?1
             AND replaced_at_us IS NOT NULL ORDER BY replaced_at_us DESC LIMIT ?2)",
            (&grant.id, REPLACED_TOKENS_MAX),
        )?;
        Ok(refresh)
    }

    /// Revokes the grant of a sign-in, with its row for the audit log.
    fn end_sign_in(
        &self,
        db: &Transaction<'_>,
        grant: &Grant,
        words: &str,
        now_us: i64,
    ) -> Result<(), RegistryError> {
        let set = "UPDATE grants SET revoked_at_us = ?2 WHERE id = ?1 AND revoked_at_us IS NULL";
        if db.execute(set, (&grant.id, now_us))? == 0 {
            return Ok(());
        }
        let note = Note { act: "grant_revoked", by: "OAuth", about: &grant.label, words };
        self.store_act(db, &note, now_us)
    }

    /// Grants whose code was never exchanged are of no use, and old codes are forgotten.
    fn revoke_unfinished(&self, db: &Transaction<'_>, now_us: i64) -> Result<(), RegistryError> {
        let mut select = db.prepare_cached(
            "SELECT s.grant_id FROM oauth_sign_ins s JOIN grants g ON g.id = s.grant_id
             JOIN oauth_codes c ON c.grant_id = s.grant_id
             WHERE g.revoked_at_us IS NULL AND c.used_at_us IS NULL AND c.expires_at_us <= ?1",
        )?;
        let ids = select.query_map([now_us], |row| row.get(0))?;
        for id in ids.collect::<Result<Vec<String>, _>>()? {
            let grant = rows::one(db, &id)?;
            self.end_sign_in(db, &grant, "the client did not finish its sign-in", now_us)?;
        }
        let forget = "DELETE FROM oauth_codes WHERE expires_at_us <= ?1";
        db.execute(forget, [now_us.saturating_sub(USED_CODE_US_MAX)])?;
        Ok(())
    }
}

fn check_code(
    row: &CodeRow,
    grant: &Grant,
    exchange: &CodeExchange<'_>,
    now_us: i64,
) -> Result<(), SignInFault> {
    if row.expires_at_us <= now_us {
        return Err(SignInFault::Expired);
    }
    check_client(grant, exchange.client_id, exchange.audience, now_us)?;
    if exchange.redirect_uri.is_some_and(|uri| uri != row.redirect_uri) {
        return Err(SignInFault::OtherRedirect);
    }
    if !oauth::pkce::is_verifier_of(exchange.verifier, &row.challenge) {
        return Err(SignInFault::WrongVerifier);
    }
    Ok(())
}

fn check_client(
    grant: &Grant,
    client_id: &str,
    audience: Option<&str>,
    now_us: i64,
) -> Result<(), SignInFault> {
    let client = grant.client.as_ref().ok_or(SignInFault::GrantEnded)?;
    if client.id != client_id {
        return Err(SignInFault::OtherClient);
    }
    if audience.is_some_and(|audience| audience != client.audience) {
        return Err(SignInFault::OtherResource);
    }
    match grant.state(now_us) {
        GrantState::Active => Ok(()),
        GrantState::Expired | GrantState::Revoked => Err(SignInFault::GrantEnded),
    }
}

fn code_row(db: &Connection, hash: &[u8; 32]) -> Result<Option<CodeRow>, RegistryError> {
    let select = "SELECT grant_id, redirect_uri, challenge, expires_at_us, used_at_us
                  FROM oauth_codes WHERE hash = ?1";
    let row = db.query_row(select, [hash], |row| {
        Ok(CodeRow {
            grant_id: row.get(0)?,
            redirect_uri: row.get(1)?,
            challenge: row.get(2)?,
            expires_at_us: row.get(3)?,
            used_at_us: row.get(4)?,
        })
    });
    Ok(row.optional()?)
}

fn refresh_row(
    db: &Connection,
    hash: &[u8; 32],
) -> Result<Option<(String, Option<i64>)>, RegistryError> {
    let select = "SELECT grant_id, replaced_at_us FROM oauth_refresh_tokens WHERE hash = ?1";
    Ok(db.query_row(select, [hash], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn grant_of_token(db: &Connection, hash: &[u8; 32]) -> Result<Option<String>, RegistryError> {
    let select = "SELECT grant_id FROM oauth_refresh_tokens WHERE hash = ?1
                  UNION ALL SELECT grant_id FROM tokens WHERE hash = ?1 AND audience IS NOT NULL";
    Ok(db.query_row(select, [hash], |row| row.get(0)).optional()?)
}

fn free_label(db: &Connection, base: &str, file: &FileNames) -> Result<String, RegistryError> {
    for number in 1..LABEL_NUMBER_MAX {
        let label = format!("{base}-{number}");
        if !file.grants.contains(&label) && grants::live_id(db, &label)?.is_none() {
            return Ok(label);
        }
    }
    let most = LABEL_NUMBER_MAX as usize;
    Err(RegistryError::TooMany { kind: ObjectKind::Grant, what: "sign-ins", most })
}
