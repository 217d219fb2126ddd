//! The access token of a login: read from the store, refreshed ahead of time by one refresher at a time across
//! threads and processes, and on disk before anything uses it.

use std::sync::{Arc, Mutex, PoisonError};

use store::accounts::FileVersion;
use store::logins::{Login, LoginKey, LoginState, LoginsError};
use store::secret::Secret;

use super::ServerLogins;
use super::refresh::{self, FetchedBy};

/// A token is replaced this long before it expires, so that none expires during a request, or after three quarters
/// of its life if that is shorter.
const AHEAD_US_MAX: i64 = 60 * 1_000_000;

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoginError {
    #[error("not signed in to server `{server}`")]
    NotSignedIn { server: String },
    /// The login has ended; the owner must sign in again.
    #[error("the login at server `{server}` has ended: {message}")]
    Ended { server: String, message: String },
    /// A temporary failure; the login is kept.
    #[error("cannot refresh the login at server `{server}` now: {message}")]
    Outage { server: String, message: String },
    #[error(transparent)]
    Store(Arc<LoginsError>),
}

impl From<LoginsError> for LoginError {
    fn from(error: LoginsError) -> LoginError {
        LoginError::Store(Arc::new(error))
    }
}

/// A token for requests to a server.
#[derive(Clone, Debug)]
pub struct Bearer {
    pub token: Secret,
    /// All secrets of the login, which a server must not show.
    pub secrets: Arc<Vec<Secret>>,
    /// The address that was signed in to. The token is for no other.
    pub server_url: Arc<str>,
    /// The issuer gave it for this request. A server that refuses it refuses the login.
    pub is_new: bool,
}

/// The refresh state of one login: the holder of `turn` reads the file and refreshes.
#[derive(Default)]
pub(super) struct LoginRefreshState {
    turn: tokio::sync::Mutex<()>,
    memory: Mutex<LoginMemory>,
}

#[derive(Default)]
struct LoginMemory {
    /// The last token, the version of its file, and until when it is fresh.
    read: Option<(FileVersion, Bearer, Option<i64>)>,
    /// Failed refreshes so far, and the last error: calls that waited for it do not retry.
    failures: u64,
    failed: Option<LoginError>,
}

impl LoginRefreshState {
    fn with<T>(&self, act: impl FnOnce(&mut LoginMemory) -> T) -> T {
        act(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ServerLogins {
    /// Whether there is a login file; costs one `stat`.
    pub fn is_known(&self, key: &LoginKey) -> bool {
        self.store.version(key).is_some()
    }

    /// A token that is valid for some more time, refreshed if needed.
    pub async fn access(&self, key: &LoginKey) -> Result<Bearer, LoginError> {
        let state = self.state_of(key);
        if let Some(bearer) = self.remembered(key, &state) {
            return Ok(bearer);
        }
        let failures = state.with(|memory| memory.failures);
        let _turn = state.turn.lock().await;
        let (version, login) = self.load(key)?;
        if is_fresh(&login, self.now_us()) {
            return keep(&state, version, &login);
        }
        let outcome = match shared_failure(&state, failures) {
            Some(error) => Err(error),
            None => self.refreshed(key, &state, None).await,
        };
        outcome.or_else(|error| still_good(&state, version, &login, self.now_us(), error))
    }

    /// A replacement for a token that got a 401: one that another call has fetched since, or a new one. Any number
    /// of refused calls cause one refresh.
    pub async fn after_401(&self, key: &LoginKey, used: &Secret) -> Result<Bearer, LoginError> {
        let state = self.state_of(key);
        let failures = state.with(|memory| memory.failures);
        let _turn = state.turn.lock().await;
        let (version, login) = self.load(key)?;
        if login.tokens.access.as_ref().is_some_and(|token| token != used)
            && is_fresh(&login, self.now_us())
        {
            return keep(&state, version, &login);
        }
        if let Some(error) = shared_failure(&state, failures) {
            return Err(error);
        }
        self.refreshed(key, &state, Some(used)).await
    }

    /// The cached token, if its file is unchanged and it is fresh.
    fn remembered(&self, key: &LoginKey, state: &LoginRefreshState) -> Option<Bearer> {
        let version = self.store.version(key)?;
        let now_us = self.now_us();
        state.with(|memory| match &memory.read {
            Some((known, bearer, until_us)) if *known == version => {
                until_us.is_none_or(|until_us| now_us < until_us).then(|| bearer.clone())
            }
            _ => None,
        })
    }

    /// The login, and the version of its file before the read: a file that is replaced in between must not count
    /// as read.
    fn load(&self, key: &LoginKey) -> Result<(Option<FileVersion>, Login), LoginError> {
        let version = self.store.version(key);
        let login = self.store.load(key)?.ok_or_else(|| not_signed_in(&key.server))?;
        match &login.facts.state {
            LoginState::SignedIn => Ok((version, login)),
            LoginState::NeedsSignIn { .. } if login.facts.refreshed_us.is_none() => {
                Err(not_signed_in(&key.server))
            }
            LoginState::NeedsSignIn { message, .. } => {
                Err(LoginError::Ended { server: key.server.clone(), message: message.clone() })
            }
        }
    }

    async fn refreshed(
        &self,
        key: &LoginKey,
        state: &LoginRefreshState,
        stale: Option<&Secret>,
    ) -> Result<Bearer, LoginError> {
        let outcome = refresh::run(self, key, stale).await;
        match outcome.and_then(|by| Ok((by, self.load(key)?))) {
            Ok((by, (version, login))) => {
                state.with(|memory| memory.failed = None);
                // A token that another process fetched may have been revoked since; its refusal does not end the
                // login.
                let is_new = by == FetchedBy::ThisRequest;
                keep(state, version, &login).map(|bearer| Bearer { is_new, ..bearer })
            }
            Err(error) => {
                tracing::warn!(server = key.server, %error, "could not refresh the login at a server");
                state.with(|memory| {
                    memory.failures += 1;
                    memory.failed = Some(error.clone());
                });
                Err(error)
            }
        }
    }
}

pub(super) fn is_fresh(login: &Login, now_us: i64) -> bool {
    let ahead_us = ahead_us(login);
    let ends = login.facts.expires_us;
    login.tokens.access.is_some() && ends.is_none_or(|at| at > now_us.saturating_add(ahead_us))
}

/// How long before its end a token is replaced. One that cannot be replaced is used until it expires.
fn ahead_us(login: &Login) -> i64 {
    let facts = &login.facts;
    let (Some(ends_us), Some(from_us), Some(_)) =
        (facts.expires_us, facts.refreshed_us, &login.tokens.refresh)
    else {
        return 0;
    };
    AHEAD_US_MAX.min(ends_us.saturating_sub(from_us) / 4)
}

/// A refresh starts early; while it fails temporarily, or cannot be done, the old token is used until it expires.
fn still_good(
    state: &LoginRefreshState,
    version: Option<FileVersion>,
    login: &Login,
    now_us: i64,
    error: LoginError,
) -> Result<Bearer, LoginError> {
    let is_valid = login.facts.expires_us.is_some_and(|at| at > now_us);
    let may_be_used = login.tokens.refresh.is_none()
        || matches!(error, LoginError::Outage { .. } | LoginError::Store(_));
    if is_valid && may_be_used { keep(state, version, login) } else { Err(error) }
}

fn keep(
    state: &LoginRefreshState,
    version: Option<FileVersion>,
    login: &Login,
) -> Result<Bearer, LoginError> {
    let token = login.tokens.access.clone().ok_or_else(|| not_signed_in(&login.facts.server))?;
    let secrets = Arc::new(login.tokens.secrets().cloned().collect());
    let server_url = login.facts.url.as_str().into();
    let bearer = Bearer { token, secrets, server_url, is_new: false };
    let until_us = login.facts.expires_us.map(|at| at.saturating_sub(ahead_us(login)));
    let read = version.map(|version| (version, bearer.clone(), until_us));
    state.with(|memory| memory.read = read);
    Ok(bearer)
}

/// The error of a refresh that failed while this call waited for its turn.
fn shared_failure(state: &LoginRefreshState, failures_before: u64) -> Option<LoginError> {
    state.with(|memory| memory.failed.clone().filter(|_| memory.failures > failures_before))
}

pub(super) fn not_signed_in(server: &str) -> LoginError {
    LoginError::NotSignedIn { server: server.to_owned() }
}
