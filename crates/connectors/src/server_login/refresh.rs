//! One refresh of a login, from lock to disk. It runs in a helper process that survives a kill of this one: a used
//! refresh token is void at issuers that rotate, and the new one has no second copy until it is on disk.

use std::time::Duration;

use store::logins::{LockedLogin, Login, LoginKey, LoginState, LoginsError};
use store::secret::Secret;

use super::token_request::{self, TokenClient};
use super::tokens::{is_fresh, not_signed_in};
use super::{LoginError, ServerLogins};
use crate::oauth::token_response::{TokenRefusal, Tokens};
use crate::tokens::{HelperOutcome, RefreshOutcome, RefreshReport, digest};

/// A full disk may recover.
const SAVE_TRIES_MAX: u32 = 40;
const SAVE_PAUSE: Duration = Duration::from_millis(250);
const SECOND_US: i64 = 1_000_000;
/// The only answer that ends a login. All others are outages.
const ENDS: [&str; 1] = ["invalid_grant"];

/// Who fetched the token that is stored after a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchedBy {
    ThisRequest,
    AnotherProcess,
}

/// Refreshes unless another process has done so, in a helper process if there is one.
pub(super) async fn run(
    logins: &ServerLogins,
    key: &LoginKey,
    stale: Option<&Secret>,
) -> Result<FetchedBy, LoginError> {
    let stale = stale.map(digest);
    let name = key.file_name();
    let Some(helper) = &logins.helper else { return here(logins, &name, stale).await };
    let outage = |message: &str| LoginError::Outage {
        server: key.server.clone(),
        message: message.to_owned(),
    };
    match helper.run(&format!("{HELPER_PREFIX}{name}"), Vec::new(), stale.as_deref()).await {
        HelperOutcome::NotRun => here(logins, &name, stale).await,
        HelperOutcome::Failed(message) => Err(outage(&message)),
        HelperOutcome::Report(report) => match report.ended {
            RefreshOutcome::Refreshed => Ok(FetchedBy::ThisRequest),
            RefreshOutcome::AlreadyFresh => Ok(FetchedBy::AnotherProcess),
            RefreshOutcome::NotConnected => Err(not_signed_in(&key.server)),
            RefreshOutcome::Dead => {
                Err(LoginError::Ended { server: key.server.clone(), message: report.message })
            }
            RefreshOutcome::Outage | RefreshOutcome::UnknownClient | RefreshOutcome::CouldNot => {
                Err(outage(&report.message))
            }
        },
    }
}

/// Marks the name of a login among the names of services that the helper gets.
pub const HELPER_PREFIX: &str = "server:";

/// The helper's side: one refresh of the login with this file name.
pub async fn serve(logins: &ServerLogins, name: &str, stale: Option<String>) -> RefreshReport {
    let (ended, message) = match here(logins, name, stale).await {
        Ok(FetchedBy::ThisRequest) => (RefreshOutcome::Refreshed, String::new()),
        Ok(FetchedBy::AnotherProcess) => (RefreshOutcome::AlreadyFresh, String::new()),
        Err(LoginError::NotSignedIn { .. }) => (RefreshOutcome::NotConnected, String::new()),
        Err(LoginError::Ended { message, .. }) => (RefreshOutcome::Dead, message),
        Err(LoginError::Outage { message, .. }) => (RefreshOutcome::Outage, message),
        Err(LoginError::Store(error)) => (RefreshOutcome::Outage, error.to_string()),
    };
    RefreshReport { ended, message }
}

/// Refreshes in this process.
async fn here(
    logins: &ServerLogins,
    name: &str,
    stale: Option<String>,
) -> Result<FetchedBy, LoginError> {
    let locked = logins.lock(name).await?;
    // Read after the lock: the previous holder may have refreshed.
    let server = name.split('@').next().unwrap_or_default();
    let mut login = locked.load()?.ok_or_else(|| not_signed_in(server))?;
    let now_us = logins.now_us();
    let ended = |message: &str| LoginError::Ended {
        server: server.to_owned(),
        message: message.to_owned(),
    };
    if let LoginState::NeedsSignIn { message, .. } = &login.facts.state {
        return Err(ended(message));
    }
    let is_stale = match (&stale, &login.tokens.access) {
        (Some(stale), Some(token)) => *stale == digest(token),
        _ => false,
    };
    if !is_stale && is_fresh(&login, now_us) {
        return Ok(FetchedBy::AnotherProcess);
    }
    let Some(refresh) = login.tokens.refresh.clone() else {
        return Err(without_refresh_token(&locked, login, is_stale, now_us));
    };
    // Written before the request: a process that finds this mark knows that a refresh was interrupted. It also
    // shows that the disk has space for the new token.
    login.facts.refreshing_us = Some(now_us);
    locked.save(&login)?;
    match request(logins, &login, &refresh).await {
        Ok(tokens) => {
            apply(tokens, &mut login, logins.now_us());
            save(&locked, &login).await?;
            Ok(FetchedBy::ThisRequest)
        }
        Err(refusal) => refused(logins, &locked, login, &refresh, &refusal),
    }
}

/// The issuer gave no refresh token: the login ends with its access token.
fn without_refresh_token(
    locked: &LockedLogin,
    mut login: Login,
    is_refused: bool,
    now_us: i64,
) -> LoginError {
    let server = login.facts.server.clone();
    let has_expired = login.facts.expires_us.is_some_and(|at| at <= now_us);
    let message = "it has expired, and the issuer gave no refresh token";
    if is_refused || has_expired {
        let message = if has_expired { message } else { "the server refuses its token" };
        login.facts.state =
            LoginState::NeedsSignIn { since_us: now_us, message: message.to_owned() };
        if let Err(error) = locked.save(&login) {
            return error.into();
        }
        return LoginError::Ended { server, message: message.to_owned() };
    }
    LoginError::Ended { server, message: message.to_owned() }
}

async fn request(
    logins: &ServerLogins,
    login: &Login,
    refresh: &Secret,
) -> Result<Tokens, TokenRefusal> {
    let mut form =
        vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose().as_str())];
    if let Some(resource) = &login.facts.resource {
        form.push(("resource", resource));
    }
    let client = TokenClient::of(login);
    token_request::tokens(logins, &login.facts.token_endpoint, &client, &form).await
}

/// Stores new tokens in a login. Without a new refresh token the old one is kept.
pub(super) fn apply(tokens: Tokens, login: &mut Login, now_us: i64) {
    login.tokens.access = Some(tokens.access);
    if tokens.refresh.is_some() {
        login.tokens.refresh = tokens.refresh;
    }
    if let Some(scopes) = tokens.scopes {
        login.facts.scopes_granted = scopes;
    }
    let life = tokens.expires_given_s;
    login.facts.expires_us = life.map(|s| now_us.saturating_add(s.saturating_mul(SECOND_US)));
    login.facts.refreshed_us = Some(now_us);
    login.facts.refreshing_us = None;
    login.facts.state = LoginState::SignedIn;
}

async fn save(locked: &LockedLogin, login: &Login) -> Result<(), LoginError> {
    let mut tries = 0;
    loop {
        match locked.save(login) {
            Ok(()) => return Ok(()),
            Err(LoginsError::Io { .. }) if tries < SAVE_TRIES_MAX => tries += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(SAVE_PAUSE).await;
    }
}

fn refused(
    logins: &ServerLogins,
    locked: &LockedLogin,
    mut login: Login,
    sent: &Secret,
    refusal: &TokenRefusal,
) -> Result<FetchedBy, LoginError> {
    let server = login.facts.server.clone();
    let message = refusal.to_string();
    if !refusal.is_dead(&ENDS) {
        if refusal.was_answered() {
            login.facts.refreshing_us = None;
            locked.save(&login)?;
        }
        return Err(LoginError::Outage { server, message });
    }
    // A program that ignores our lock may have written a newer token.
    let now = locked.load()?;
    if now.is_some_and(|now| now.tokens.refresh.is_some_and(|refresh| refresh != *sent)) {
        return Ok(FetchedBy::AnotherProcess);
    }
    login.facts.refreshing_us = None;
    login.facts.state =
        LoginState::NeedsSignIn { since_us: logins.now_us(), message: message.clone() };
    locked.save(&login)?;
    Err(LoginError::Ended { server, message })
}
