//! The stores of the running gate, for the operator server. No other connector gets them.

use std::sync::{Arc, Mutex, PoisonError};

use policy::LocalTime;
use store::clock::Clock;
use store::effective::Effective;
use store::ledger::{Ledger, LedgerError, Reader};
use store::registry::{Registry, RegistryError};
use store::settings::Settings;

/// The audit log, the registry and the settings that a gate runs with.
pub struct GateStores {
    pub ledger: Arc<Ledger>,
    pub registry: Arc<Registry>,
    pub clock: Clock,
    local_time: Box<dyn Fn() -> LocalTime + Send + Sync>,
    settings: Mutex<Arc<Settings>>,
}

impl GateStores {
    /// `local_time` returns the time in the owner's zone.
    pub fn new(
        ledger: Arc<Ledger>,
        registry: Arc<Registry>,
        clock: Clock,
        settings: Arc<Settings>,
        local_time: impl Fn() -> LocalTime + Send + Sync + 'static,
    ) -> GateStores {
        GateStores {
            ledger,
            registry,
            clock,
            local_time: Box::new(local_time),
            settings: Mutex::new(settings),
        }
    }

    /// Uses these settings from now on.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Grants, servers and policies as they are stored now.
    pub fn effective(&self) -> Result<Effective, RegistryError> {
        let settings = Arc::clone(&self.settings.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Effective::merge_closed(self.registry.snapshot()?, settings))
    }

    /// The audit log for reading.
    pub fn audit(&self) -> Result<Reader, LedgerError> {
        self.ledger.reader()
    }

    pub(crate) fn local_time(&self) -> LocalTime {
        (self.local_time)()
    }
}
