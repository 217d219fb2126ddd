//! The access token of an account: refreshed ahead of time, by one refresher at a time across threads
//! and processes, and kept on disk before anything relies on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::accounts::{Account, AccountState, AccountsError, FileVersion};
use store::clock::Clock;
use store::secret::Secret;

use crate::context::ConnectorContext;
use crate::service::Service;

mod helper;
mod refresh;

pub(crate) use helper::HelperOutcome;
pub use helper::{Helper, RefreshOutcome, RefreshReport, STALE_VARIABLE, serve};
pub use refresh::Refresher;
pub(crate) use refresh::digest;

const SECOND_US: i64 = 1_000_000;
/// A token is replaced this long before it expires, so that none expires during a request.
const AHEAD_US: i64 = 5 * 60 * SECOND_US;
/// Bounds the refreshes at a service that refuses each new token.
const FORCED_MAX: usize = 10;
const FORCED_WINDOW_US: u64 = 60_000_000;
/// Longer than any refresh, so that a waiting call does not time out first.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(45);
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(15);

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    #[error("`{service}` is not connected\nhint: `tollgate connect {service}`")]
    NotConnected { service: String },
    /// The login has ended; the owner must sign in again.
    #[error("the login at `{service}` has ended: {message}\nhint: `tollgate connect {service}`")]
    Dead { service: String, message: String },
    /// A temporary failure; the login is kept.
    #[error("cannot refresh the login at `{service}` now: {message}")]
    Outage { service: String, message: String },
    /// The service does not know the application; the login is kept until the owner corrects it.
    #[error("cannot refresh the login at `{service}` now: {message}")]
    UnknownClient { service: String, message: String },
    #[error(transparent)]
    Store(Arc<AccountsError>),
}

impl From<AccountsError> for TokenError {
    fn from(error: AccountsError) -> TokenError {
        TokenError::Store(Arc::new(error))
    }
}

/// The refresh state of all services.
#[derive(Default)]
pub(crate) struct RefreshStates(Mutex<HashMap<&'static str, Arc<RefreshState>>>);

/// The refresh state of one service: the holder of `turn` reads the file and refreshes.
#[derive(Default)]
struct RefreshState {
    turn: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The last token and the stamp of its file; unsealing a secret for each request would cost
    /// more than the check of the file.
    read: Option<(FileVersion, Secret, Option<i64>)>,
    /// Failed refreshes so far, and the last error: calls that waited for it do not retry.
    failures: u64,
    failed: Option<TokenError>,
    /// When refused tokens were replaced since the service last accepted one.
    forced_us: Vec<u64>,
}

impl RefreshStates {
    fn of(&self, service: &Service) -> Arc<RefreshState> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(flights.entry(service.name).or_default())
    }
}

impl RefreshState {
    fn with<T>(&self, act: impl FnOnce(&mut Memory) -> T) -> T {
        act(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A token that is valid for some more minutes, refreshed if needed.
pub async fn access(
    ctx: &ConnectorContext,
    service: &'static Service,
) -> Result<Secret, TokenError> {
    let flight = ctx.state::<RefreshStates>().of(service);
    if let Some(token) = remembered(ctx, service, &flight) {
        return Ok(token);
    }
    let failures = flight.with(|memory| memory.failures);
    let _turn = flight.turn.lock().await;
    let (stamp, account) = load(ctx, service)?;
    let now_us = ctx.clock.now().wall_us;
    if is_fresh(&account, now_us) {
        return keep(&flight, service, stamp, account);
    }
    if let Some(error) = shared_failure(&flight, failures) {
        return still_good(&account, now_us, error);
    }
    match refreshed(ctx, service, &flight, None).await {
        Ok(token) => Ok(token),
        Err(error) => still_good(&account, now_us, error),
    }
}

/// A replacement for a token that got a 401: one that another call has fetched since, or a new
/// one. Any number of refused calls cause one refresh.
pub async fn after_401(
    ctx: &ConnectorContext,
    service: &'static Service,
    used: &Secret,
) -> Result<Secret, TokenError> {
    let flight = ctx.state::<RefreshStates>().of(service);
    let failures = flight.with(|memory| memory.failures);
    let _turn = flight.turn.lock().await;
    let (stamp, account) = load(ctx, service)?;
    if account.access.as_ref().is_some_and(|token| token != used)
        && is_fresh(&account, ctx.clock.now().wall_us)
    {
        return keep(&flight, service, stamp, account);
    }
    if let Some(error) = shared_failure(&flight, failures) {
        return Err(error);
    }
    check_forced(&flight, &ctx.clock, service)?;
    let token = refreshed(ctx, service, &flight, Some(used)).await?;
    flight.with(|memory| memory.forced_us.push(ctx.clock.now().steady_us));
    Ok(token)
}

/// The service has accepted a replaced token: the login works, however often its tokens are
/// revoked.
pub fn taken(ctx: &ConnectorContext, service: &Service) {
    ctx.state::<RefreshStates>().of(service).with(|memory| memory.forced_us.clear());
}

/// Refreshes now, even if the token is fresh: for the owner and the refresh tools.
pub async fn refresh_now(
    ctx: &ConnectorContext,
    service: &'static Service,
) -> Result<(), TokenError> {
    let flight = ctx.state::<RefreshStates>().of(service);
    let _turn = flight.turn.lock().await;
    let (_, account) = load(ctx, service)?;
    refreshed(ctx, service, &flight, account.access.as_ref()).await.map(drop)
}

/// The cached token, if its file is unchanged and it is fresh.
fn remembered(ctx: &ConnectorContext, service: &Service, flight: &RefreshState) -> Option<Secret> {
    let stamp = ctx.accounts.version(service.name)?;
    let now_us = ctx.clock.now().wall_us;
    flight.with(|memory| match &memory.read {
        Some((known, token, expires_us)) if *known == stamp => {
            expires_us.is_none_or(|at| at > now_us.saturating_add(AHEAD_US)).then(|| token.clone())
        }
        _ => None,
    })
}

/// The account, and the stamp of its file before the read: a file that is replaced in between must
/// not count as read.
fn load(
    ctx: &ConnectorContext,
    service: &Service,
) -> Result<(Option<FileVersion>, Account), TokenError> {
    let stamp = ctx.accounts.version(service.name);
    let account = ctx.accounts.load(service.name)?.ok_or_else(|| not_connected(service.name))?;
    match account.state {
        AccountState::Live => Ok((stamp, account)),
        AccountState::Dead { message, .. } => {
            Err(TokenError::Dead { service: service.name.to_owned(), message })
        }
    }
}

fn is_fresh(account: &Account, now_us: i64) -> bool {
    let ends = account.expires_us;
    account.access.is_some() && ends.is_none_or(|at| at > now_us.saturating_add(AHEAD_US))
}

/// A refresh starts early; while it fails temporarily, the old token is used until it expires.
fn still_good(account: &Account, now_us: i64, error: TokenError) -> Result<Secret, TokenError> {
    let token =
        account.access.as_ref().filter(|_| account.expires_us.is_some_and(|at| at > now_us));
    match (token, error) {
        (
            Some(token),
            TokenError::Outage { .. } | TokenError::UnknownClient { .. } | TokenError::Store(_),
        ) => Ok(token.clone()),
        (_, error) => Err(error),
    }
}

fn keep(
    flight: &RefreshState,
    service: &Service,
    stamp: Option<FileVersion>,
    account: Account,
) -> Result<Secret, TokenError> {
    let token = account.access.ok_or_else(|| not_connected(service.name))?;
    let read = stamp.map(|stamp| (stamp, token.clone(), account.expires_us));
    flight.with(|memory| memory.read = read);
    Ok(token)
}

/// The error of a refresh that failed while this call waited for `turn`.
fn shared_failure(flight: &RefreshState, failures_before: u64) -> Option<TokenError> {
    flight.with(|memory| memory.failed.clone().filter(|_| memory.failures > failures_before))
}

fn check_forced(flight: &RefreshState, clock: &Clock, service: &Service) -> Result<(), TokenError> {
    let now_us = clock.now().steady_us;
    flight.with(|memory| {
        memory.forced_us.retain(|at| now_us.saturating_sub(*at) < FORCED_WINDOW_US);
        if memory.forced_us.len() < FORCED_MAX {
            return Ok(());
        }
        Err(TokenError::Outage {
            service: service.name.to_owned(),
            message: "the service refuses the tokens it has just issued".to_owned(),
        })
    })
}

async fn refreshed(
    ctx: &ConnectorContext,
    service: &'static Service,
    flight: &RefreshState,
    stale: Option<&Secret>,
) -> Result<Secret, TokenError> {
    let refresher = Refresher::new(ctx, service)?;
    let stale = stale.map(refresh::digest);
    let helper = ctx.state::<Option<Helper>>();
    let outcome = match helper.as_ref() {
        Some(helper) => helper.refresh(refresher, stale).await,
        None => refresh::spawn(refresher, stale).await,
    };
    match outcome.and_then(|()| load(ctx, service)) {
        Ok((stamp, account)) => {
            flight.with(|memory| memory.failed = None);
            keep(flight, service, stamp, account)
        }
        Err(error) => {
            tracing::warn!(service = service.name, %error, "could not refresh the login");
            flight.with(|memory| {
                memory.failures += 1;
                memory.failed = Some(error.clone());
            });
            Err(error)
        }
    }
}

fn not_connected(service: &str) -> TokenError {
    TokenError::NotConnected { service: service.to_owned() }
}
