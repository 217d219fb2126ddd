//! Simulates the services of the owner's accounts on loopback: data from a seed, real HTTP, faults on
//! request. Demo mode, tests and benchmarks talk to it; see `docs/guide/sandbox.md`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

pub mod changing_server;
mod clock;
mod control;
mod counters;
mod error;
mod faults;
mod http;
mod limits;
pub mod oauth;
pub mod planted;
pub mod protected_server;
mod record_store;
mod rng;
mod routes;
mod server;
pub mod services;
mod simulation;
mod stand_in;
mod state;
mod timestamp;
mod webhook;

pub use clock::ClockMode;
pub use control::{Control, PREFIX};
pub use counters::Counters;
pub use error::ControlError;
pub use faults::{Fault, FaultKind, Warp};
pub use limits::Limit;
pub use oauth::TokenKind;
pub use services::{Config, Service};

use clock::Clock;
use counters::SharedCounters;
use faults::Faults;
use server::Serving;
use stand_in::Start;
use state::State;

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("`{0}` is not a loopback address; use one such as 127.0.0.1:0")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on `{address}`; is the port in use? port 0 picks a free one")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot start the sandbox thread")]
    Thread(#[source] io::Error),
}

/// Starts simulated services.
#[derive(Debug)]
pub struct Sandbox;

impl Sandbox {
    /// Generates the data, listens, and serves from its own thread until the handle is dropped.
    pub fn start(config: Config) -> Result<Running, StartError> {
        let address = config.bind;
        if !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let (listener, address) =
            server::listen(address).map_err(|source| StartError::Listen { address, source })?;
        let url = format!("http://{address}");
        let Config { seed, days, now_us, offset_min, .. } = config;
        let start = Start { seed, days, now_us, offset_min, url: &url };
        let service = config.service.build(start);
        let state = Arc::new(State {
            url,
            clock: Clock::new(now_us, config.time),
            counters: SharedCounters::default(),
            faults: Faults::new(seed, config.faults),
            service,
        });
        let serving = server::serve(listener, Arc::clone(&state)).map_err(StartError::Thread)?;
        Ok(Running { control: Control::new(Arc::clone(&state)), state, _serving: serving })
    }
}

/// A running sandbox; dropping it stops it.
#[derive(Debug)]
pub struct Running {
    control: Control,
    state: Arc<State>,
    _serving: Serving,
}

impl Running {
    /// The origin, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.state.url
    }

    pub fn control(&self) -> &Control {
        &self.control
    }
}
