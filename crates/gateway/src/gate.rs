//! The gate: creates all modules, starts and stops them, and owns the calls parked for their
//! clients. Only this module knows all others.

mod owner_calls;
pub(crate) mod preview;
pub(crate) mod reload;
pub(crate) mod run;
mod status;
mod trace_export;

use std::ffi::OsString;
use std::sync::Arc;

use store::clock::Clock;
use store::effective::{Effective, MergeError};
use store::ledger::{Ledger, LedgerError};
use store::random::Random;
use store::registry::{Registry, RegistryError};
use store::secret::Secret;
use store::settings::Settings;
use tokio::sync::mpsc;

use crate::edge::upper_layers::EDGE_LAYERS;
use crate::exchange::parked::Parked;
use crate::exchange::state::SharedState;
use crate::exchange::tasks::Tasks;
use crate::notify::list_changes;
use crate::runtime::Services;
use crate::runtime::metrics::SyncOutcome;
use crate::runtime::services::{self, NewServices};
use crate::session::Sessions;
use crate::snapshot::{Snapshots, UpstreamFactory};
use crate::upstream::GuardProgram;
use crate::upstream::shared_stream::SharedStreams;
use connectors::server_login::ServerLogins;
use connectors::{GateStores, LazyContext};

/// Everything a gate is made from. Clock, randomness and environment are passed in.
pub struct GateOptions {
    pub registry: Arc<Registry>,
    pub ledger: Arc<Ledger>,
    pub settings: Arc<Settings>,
    pub clock: Clock,
    pub random: Random,
    /// The guard program between the gate and its child processes.
    pub guard_program: GuardProgram,
    /// The environment; children inherit basic variables from it.
    pub env: Vec<(OsString, OsString)>,
    /// The token for `/metrics`; without one the page is closed.
    pub metrics_token: Option<Secret>,
    /// Runs the built-in servers.
    pub connectors: Arc<LazyContext>,
    /// The logins at servers that want OAuth.
    pub logins: Arc<ServerLogins>,
    /// Receives the children's stderr, by line and masked. It is also kept without a receiver.
    pub stderr_to: Option<mpsc::Sender<String>>,
}

#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error("unknown time zone `{0}`\nhint: `time_zone` is a name such as `Europe/Berlin`")]
    TimeZone(String),
}

/// A running gate.
pub struct Gate {
    pub(crate) state: Arc<SharedState>,
    /// The calls parked for their clients. They hold the state, and the state does not hold them.
    pub(crate) parked: Arc<Parked>,
}

impl Gate {
    /// A gate over opened stores.
    pub fn new(options: GateOptions) -> Result<Arc<Gate>, GateError> {
        let settings = &options.settings;
        let zone = services::zone(settings.time_zone.as_deref(), &options.env)
            .map_err(GateError::TimeZone)?;
        let services = Arc::new(Services::new(NewServices {
            registry: Arc::clone(&options.registry),
            ledger: Arc::clone(&options.ledger),
            clock: options.clock.clone(),
            random: options.random,
            settings,
            zone,
            metrics_token: options.metrics_token,
        })?);
        let local_time = {
            let services = Arc::clone(&services);
            move || services.local_time()
        };
        let gate = GateStores::new(
            options.ledger,
            Arc::clone(&options.registry),
            options.clock,
            Arc::clone(settings),
            local_time,
        );
        let now_us = services.now_us();
        let factory = UpstreamFactory {
            registry: Arc::clone(&options.registry),
            guard_program: options.guard_program,
            env: options.env,
            limits: settings.limits.clone(),
            connectors: options.connectors,
            gate: Arc::new(gate),
            stderr_to: options.stderr_to,
            logins: options.logins,
        };
        let effective = Effective::merge(options.registry.snapshot()?, Arc::clone(settings))?;
        let parked = Arc::new(Parked::default());
        let state = SharedState {
            services,
            tasks: Tasks::restored(options.registry.task_owners(now_us)?),
            snapshots: Snapshots::new(effective, factory, now_us),
            sessions: Sessions::default(),
            streams: SharedStreams::default(),
            upper_layers: &EDGE_LAYERS,
            parked: Arc::downgrade(&parked),
        };
        Ok(Arc::new(Gate { state: Arc::new(state), parked }))
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.state.services
    }

    /// Installs a snapshot and notifies the sessions whose lists it changes.
    pub(crate) fn install_snapshot(&self, effective: Effective) {
        let before = self.state.snapshots.install(effective, self.services().now_us());
        self.registry_loaded();
        list_changes::notify_sessions(&self.state, &before);
    }

    /// Tells the ledger which registry calls are judged by. Only a gate that reloads does.
    fn registry_loaded(&self) {
        let generation = self.state.snapshots.current().effective.generation;
        self.services().ledger.registry_loaded(Registry::store_generation(generation));
    }

    /// The current settings.
    pub fn settings(&self) -> Arc<Settings> {
        self.state.snapshots.settings()
    }

    /// Counts a background sync in the metrics.
    pub fn note_sync(&self, service: &'static connectors::Service, outcome: SyncOutcome) {
        let services = self.services();
        services.metrics.synced(service.name, outcome, services.clock.now().wall_us);
    }
}
