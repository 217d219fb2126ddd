//! The access token of an account: refreshed ahead of time, by one refresher at a time across threads
//! and processes, and kept on disk before anything relies on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use store::accounts::{Account, AccountsError, Stamp, State};
use store::clock::Clock;
use store::secret::Secret;

use crate::{Desk, Service};

mod helper;
mod refresh;

pub use helper::{Ended, Helper, STALE_VARIABLE, Told, serve};
pub use refresh::Refresher;

const SECOND_US: i64 = 1_000_000;
/// A token is replaced so long before it ends, so that none ends under way.
const AHEAD_US: i64 = 5 * 60 * SECOND_US;
/// A service that refuses each new token at once would have us refresh for ever.
const FORCED_MAX: usize = 10;
const FORCED_WINDOW_US: u64 = 60_000_000;
/// Longer than any refresh takes: who waits for one does not give up on it.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(45);
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(15);

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    #[error("`{service}` is not connected\nhint: `tollgate connect {service}`")]
    NotConnected { service: String },
    /// The login is gone for good; the owner must sign in again.
    #[error("the login at `{service}` has ended: {words}\nhint: `tollgate connect {service}`")]
    Dead { service: String, words: String },
    /// It may work again by itself; the login is kept.
    #[error("cannot refresh the login at `{service}` now: {words}")]
    Outage { service: String, words: String },
    #[error(transparent)]
    Store(Arc<AccountsError>),
}

impl From<AccountsError> for TokenError {
    fn from(error: AccountsError) -> TokenError {
        TokenError::Store(Arc::new(error))
    }
}

/// What the tokens of all services have in common while they are refreshed.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<&'static str, Arc<Flight>>>);

/// One service: whoever holds `turn` looks at the file and refreshes.
#[derive(Default)]
struct Flight {
    turn: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The token that was read last and the file it came from; opening a secret for each request
    /// would cost more than the look at the file.
    read: Option<(Stamp, Secret, Option<i64>)>,
    /// Failed refreshes so far, and why the last one failed: who waited for it need not try again.
    failures: u64,
    failed: Option<TokenError>,
    /// When tokens were fetched in place of refused ones, none of which the service has taken since.
    forced_us: Vec<u64>,
}

impl Flights {
    fn of(&self, service: &Service) -> Arc<Flight> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(flights.entry(service.name).or_default())
    }
}

impl Flight {
    fn with<T>(&self, act: impl FnOnce(&mut Memory) -> T) -> T {
        act(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A token that is good for some minutes more, refreshed if need be.
pub async fn access(desk: &Desk, service: &'static Service) -> Result<Secret, TokenError> {
    let flight = desk.flights.of(service);
    if let Some(token) = remembered(desk, service, &flight) {
        return Ok(token);
    }
    let failures = flight.with(|memory| memory.failures);
    let _turn = flight.turn.lock().await;
    let (stamp, account) = load(desk, service)?;
    let now_us = desk.clock.now().wall_us;
    if is_fresh(&account, now_us) {
        return keep(&flight, service, stamp, account);
    }
    if let Some(error) = shared_failure(&flight, failures) {
        return still_good(&account, now_us, error);
    }
    match refreshed(desk, service, &flight, None).await {
        Ok(token) => Ok(token),
        Err(error) => still_good(&account, now_us, error),
    }
}

/// A token to use in place of one that was answered with 401: the one another call has fetched
/// meanwhile, or a new one. However many calls saw the refusal, there is one refresh.
pub async fn after_401(
    desk: &Desk,
    service: &'static Service,
    used: &Secret,
) -> Result<Secret, TokenError> {
    let flight = desk.flights.of(service);
    let failures = flight.with(|memory| memory.failures);
    let _turn = flight.turn.lock().await;
    let (stamp, account) = load(desk, service)?;
    if account.access.as_ref().is_some_and(|token| token != used)
        && is_fresh(&account, desk.clock.now().wall_us)
    {
        return keep(&flight, service, stamp, account);
    }
    if let Some(error) = shared_failure(&flight, failures) {
        return Err(error);
    }
    check_forced(&flight, &desk.clock, service)?;
    let token = refreshed(desk, service, &flight, Some(used)).await?;
    flight.with(|memory| memory.forced_us.push(desk.clock.now().steady_us));
    Ok(token)
}

/// The service has taken the token that replaced a refused one: the login is sound, however often
/// its tokens are taken back.
pub fn taken(desk: &Desk, service: &Service) {
    desk.flights.of(service).with(|memory| memory.forced_us.clear());
}

/// Refreshes now, whatever the clock says: for the owner and for tools that are asked to.
pub async fn refresh_now(desk: &Desk, service: &'static Service) -> Result<(), TokenError> {
    let flight = desk.flights.of(service);
    let _turn = flight.turn.lock().await;
    let (_, account) = load(desk, service)?;
    refreshed(desk, service, &flight, account.access.as_ref()).await.map(drop)
}

/// The token in memory, if its file is still the same and it is fresh.
fn remembered(desk: &Desk, service: &Service, flight: &Flight) -> Option<Secret> {
    let stamp = desk.accounts.stamp(service.name)?;
    let now_us = desk.clock.now().wall_us;
    flight.with(|memory| match &memory.read {
        Some((known, token, expires_us)) if *known == stamp => {
            expires_us.is_none_or(|at| at > now_us.saturating_add(AHEAD_US)).then(|| token.clone())
        }
        _ => None,
    })
}

/// The account, and the stamp its file had before it was read: a file that is replaced in between
/// does not pass for the one that was read.
fn load(desk: &Desk, service: &Service) -> Result<(Option<Stamp>, Account), TokenError> {
    let stamp = desk.accounts.stamp(service.name);
    let account = desk.accounts.load(service.name)?.ok_or_else(|| not_connected(service.name))?;
    match account.state {
        State::Live => Ok((stamp, account)),
        State::Dead { words, .. } => {
            Err(TokenError::Dead { service: service.name.to_owned(), words })
        }
    }
}

fn is_fresh(account: &Account, now_us: i64) -> bool {
    let ends = account.expires_us;
    account.access.is_some() && ends.is_none_or(|at| at > now_us.saturating_add(AHEAD_US))
}

/// A refresh comes early; while it fails for a passing reason, the old token serves to its end.
fn still_good(account: &Account, now_us: i64, error: TokenError) -> Result<Secret, TokenError> {
    let token =
        account.access.as_ref().filter(|_| account.expires_us.is_some_and(|at| at > now_us));
    match (token, error) {
        (Some(token), TokenError::Outage { .. } | TokenError::Store(_)) => Ok(token.clone()),
        (_, error) => Err(error),
    }
}

fn keep(
    flight: &Flight,
    service: &Service,
    stamp: Option<Stamp>,
    account: Account,
) -> Result<Secret, TokenError> {
    let token = account.access.ok_or_else(|| not_connected(service.name))?;
    let read = stamp.map(|stamp| (stamp, token.clone(), account.expires_us));
    flight.with(|memory| memory.read = read);
    Ok(token)
}

/// The failure of a refresh that ended while we waited for our turn.
fn shared_failure(flight: &Flight, failures_before: u64) -> Option<TokenError> {
    flight.with(|memory| memory.failed.clone().filter(|_| memory.failures > failures_before))
}

fn check_forced(flight: &Flight, clock: &Clock, service: &Service) -> Result<(), TokenError> {
    let now_us = clock.now().steady_us;
    flight.with(|memory| {
        memory.forced_us.retain(|at| now_us.saturating_sub(*at) < FORCED_WINDOW_US);
        if memory.forced_us.len() < FORCED_MAX {
            return Ok(());
        }
        Err(TokenError::Outage {
            service: service.name.to_owned(),
            words: "the service refuses the tokens it has just issued".to_owned(),
        })
    })
}

async fn refreshed(
    desk: &Desk,
    service: &'static Service,
    flight: &Flight,
    stale: Option<&Secret>,
) -> Result<Secret, TokenError> {
    let refresher = Refresher::new(desk, service)?;
    let stale = stale.map(refresh::digest);
    let outcome = match &desk.helper {
        Some(helper) => helper.refresh(refresher, stale).await,
        None => refresh::apart(refresher, stale).await,
    };
    match outcome.and_then(|()| load(desk, service)) {
        Ok((stamp, account)) => {
            flight.with(|memory| memory.failed = None);
            keep(flight, service, stamp, account)
        }
        Err(error) => {
            tracing::warn!(service = service.name, %error, "the login was not refreshed");
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
