//! Everything a connector may use. The cli opens one; a connector has no other access.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use insights::Units;
use store::accounts::{Accounts, AccountsError};
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::records::Records;
use store::vault::Vault;

use crate::http::Http;
use crate::rate_limit::RateLimiters;
use crate::service::Service;
use crate::settings::Settings;

/// The use of an account is recorded at most once in this time, to save disk writes.
const USE_INTERVAL_US: u64 = 60_000_000;
/// Where the records keep the owner's name at a service.
const OWNER_NAME_KEY: &str = "owner name";

/// The store, the HTTP client, the clock and the settings that connectors work with.
pub struct ConnectorContext {
    pub accounts: Accounts,
    pub records: Records,
    pub http: Http,
    pub clock: Clock,
    pub random: Random,
    pub settings: Settings,
    /// The folder of files that agents export.
    pub exports: PathBuf,
    /// A further folder that the settings allow for exports.
    pub exports_allowed: Option<String>,
    /// What tools, pages and notices measure in.
    pub units: Units,
    /// The owner's home folder, `~` in a path.
    pub tilde: Option<PathBuf>,
    pub(crate) rate_limiters: RateLimiters,
    state: SharedState,
    account_uses: AccountUses,
    prepared: OnceLock<()>,
}

/// When the use of each account was last recorded.
#[derive(Default)]
struct AccountUses(Mutex<HashMap<&'static str, u64>>);

/// Values that other modules keep for the life of the context, one per type: caches, refreshes in
/// flight, sign-ins under way. The context does not know their types.
#[derive(Default)]
struct SharedState(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error(transparent)]
    Accounts(#[from] AccountsError),
}

impl ConnectorContext {
    /// A context over an opened home. Sends nothing.
    pub fn open(
        home: &Home,
        vault: Arc<Vault>,
        clock: Clock,
        random: Random,
        settings: Settings,
    ) -> Result<ConnectorContext, ContextError> {
        Ok(ConnectorContext {
            accounts: Accounts::open(home, vault, random.clone())?,
            // Opened by its first use, so that its errors are reported there.
            records: Records::at(home),
            http: Http::new(),
            clock,
            random,
            settings,
            exports: home.path().join("exports"),
            exports_allowed: None,
            units: Units::default(),
            tilde: None,
            rate_limiters: RateLimiters::default(),
            state: SharedState::default(),
            account_uses: AccountUses::default(),
            prepared: OnceLock::new(),
        })
    }

    /// The value of this type, created by its first use.
    pub fn state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value).downcast().unwrap_or_default()
    }

    /// Replaces the value of this type.
    pub fn set_state<T: Send + Sync + 'static>(&self, value: T) {
        let mut values = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Runs `prepare` on the records once. A failure is logged here and reported by the next read.
    pub(crate) fn prepare_once<E: std::fmt::Display>(
        &self,
        prepare: impl FnOnce(&Records) -> Result<(), E>,
    ) {
        self.prepared.get_or_init(|| {
            if self.records.path().exists()
                && let Err(error) = prepare(&self.records)
            {
                tracing::warn!(%error, "could not update the records of an older version");
            }
        });
    }

    /// Records the use of an account. A failure is only logged.
    pub(crate) fn note_use(&self, service: &Service) {
        let now = self.clock.now();
        {
            let mut noted = self.account_uses.0.lock().unwrap_or_else(PoisonError::into_inner);
            let last_us = noted.get(service.name).copied();
            if last_us.is_some_and(|last| now.steady_us.saturating_sub(last) < USE_INTERVAL_US) {
                return;
            }
            noted.insert(service.name, now.steady_us);
        }
        if let Err(error) = self.accounts.note_use(service.name, now.wall_us) {
            tracing::debug!(service = service.name, %error, "could not record the use of an account");
        }
    }

    /// The `User-Agent` for a service, with the owner's name where the service wants it.
    pub(crate) fn user_agent(&self, service: &Service) -> String {
        let Some(account) = service.account else { return String::new() };
        let name = account.signs.and_then(|form| Some((form, self.owner_name(service)?)));
        match name {
            Some((form, name)) => format!("{} ({form}{name})", account.user_agent),
            None => account.user_agent.to_owned(),
        }
    }

    /// The owner's name at a service, once a response has shown it.
    pub(crate) fn owner_name(&self, service: &Service) -> Option<String> {
        self.records.state_get(service.name, OWNER_NAME_KEY).ok().flatten()
    }

    /// Keeps the owner's name at a service, unless a header could not carry it.
    pub(crate) fn set_owner_name(&self, service: &Service, name: &str) {
        let is_name =
            (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name || self.owner_name(service).as_deref() == Some(name) {
            return;
        }
        if let Err(error) = self.records.state_put(service.name, OWNER_NAME_KEY, name) {
            tracing::warn!(service = service.name, %error, "could not store the owner's name");
        }
    }
}
