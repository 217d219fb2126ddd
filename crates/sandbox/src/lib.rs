//! Stands in for the services of the owner's accounts on loopback: from a seed, over real HTTP, with
//! faults on request. Demo mode, tests and benchmarks talk to it; see `docs/guide/sandbox.md`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub mod bilibili;
mod chance;
mod clock;
mod control;
mod counters;
mod fake;
mod faults;
mod http;
mod limits;
mod moment;
pub mod oauth;
pub mod reddit;
mod room;
mod routes;
mod server;
mod shelves;
pub mod spotify;
pub mod steam;
mod webhook;
pub mod whoop;
pub mod youtube;

pub use clock::Time;
pub use control::{Control, PREFIX, Trouble};
pub use counters::Counters;
pub use faults::{Fault, Warp, What};
pub use limits::Limit;
pub use oauth::Which;

use clock::Clock;
use counters::Tally;
use fake::Fake;
use faults::Faults;
use room::Room;
use server::{Serving, State};

/// What to stand in for, and how.
#[derive(Clone, Debug)]
pub struct Config {
    pub seed: u64,
    /// So many days of history, today among them.
    pub days: u32,
    /// The moment it begins at, in microseconds since 1970.
    pub now_us: i64,
    pub time: Time,
    /// An address of this machine; port 0 takes a free one.
    pub bind: SocketAddr,
    pub faults: Vec<Fault>,
    pub service: Service,
}

/// A service and what can be set about it.
#[derive(Clone, Debug)]
pub enum Service {
    Whoop(whoop::Settings),
    Spotify(spotify::Settings),
    Steam(steam::Settings),
    Reddit(reddit::Settings),
    Youtube(youtube::Settings),
    Bilibili(bilibili::Settings),
}

impl Service {
    /// The names that [`Service::named`] knows.
    pub const NAMES: &[&str] = &["whoop", "spotify", "steam", "reddit", "youtube", "bilibili"];

    /// A service with the settings it has by itself.
    pub fn named(name: &str) -> Option<Service> {
        Some(match name {
            "whoop" => Service::Whoop(whoop::Settings::default()),
            "spotify" => Service::Spotify(spotify::Settings::default()),
            "steam" => Service::Steam(steam::Settings::default()),
            "reddit" => Service::Reddit(reddit::Settings::default()),
            "youtube" => Service::Youtube(youtube::Settings::default()),
            "bilibili" => Service::Bilibili(bilibili::Settings::default()),
            _ => return None,
        })
    }

    /// Takes the limits off: it answers as fast as it is asked.
    pub fn unlimit(&mut self) {
        match self {
            Service::Whoop(settings) => settings.limits.clear(),
            Service::Spotify(settings) => settings.limits.clear(),
            Service::Steam(settings) => settings.limits.clear(),
            Service::Reddit(settings) => settings.limits.clear(),
            Service::Bilibili(settings) => settings.limits.clear(),
            Service::Youtube(settings) => {
                settings.limits.clear();
                (settings.search_quota, settings.read_quota) = (u64::MAX, u64::MAX);
            }
        }
    }
}

impl Config {
    /// WHOOP with its own rate limits, on a free port.
    pub fn whoop(seed: u64, days: u32, now_us: i64) -> Config {
        Config::of(Service::Whoop(whoop::Settings::default()), seed, days, now_us)
    }

    /// Spotify as an application of 2026 meets it, on a free port.
    pub fn spotify(seed: u64, days: u32, now_us: i64) -> Config {
        Config::of(Service::Spotify(spotify::Settings::default()), seed, days, now_us)
    }

    /// Steam with a player who has 120 friends, on a free port.
    pub fn steam(seed: u64, days: u32, now_us: i64) -> Config {
        Config::of(Service::Steam(steam::Settings::default()), seed, days, now_us)
    }

    /// Reddit with an approved application, on a free port.
    pub fn reddit(seed: u64, days: u32, now_us: i64) -> Config {
        Config::of(Service::Reddit(reddit::Settings::default()), seed, days, now_us)
    }

    /// YouTube with Google's sign-in, on a free port.
    pub fn youtube(seed: u64, days: u32, now_us: i64) -> Config {
        Config::of(Service::Youtube(youtube::Settings::default()), seed, days, now_us)
    }

    /// Bilibili with the cookies of a signed-in browser, on a free port.
    pub fn bilibili(seed: u64, days: u32, now_us: i64) -> Config {
        Config::of(Service::Bilibili(bilibili::Settings::default()), seed, days, now_us)
    }

    /// Any service, on a free port.
    pub fn of(service: Service, seed: u64, days: u32, now_us: i64) -> Config {
        Config {
            seed,
            days,
            now_us,
            time: Time::Runs,
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            faults: Vec::new(),
            service,
        }
    }
}

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "`{0}` is not on this machine; a sandbox listens on loopback only, such as 127.0.0.1:0"
    )]
    NotLoopback(SocketAddr),
    #[error("cannot listen on `{address}`; is the port in use? port 0 takes a free one")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot start the thread of the sandbox")]
    Thread(#[source] io::Error),
}

/// Starts stand-ins.
#[derive(Debug)]
pub struct Sandbox;

impl Sandbox {
    /// Makes the data, listens, and answers from a thread of its own until the handle is dropped.
    pub fn start(config: Config) -> Result<Running, StartError> {
        let address = config.bind;
        if !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let (listener, address) =
            server::listen(address).map_err(|source| StartError::Listen { address, source })?;
        let Config { seed, days, now_us, .. } = config;
        let url = format!("http://{address}");
        let fake = match config.service {
            Service::Whoop(settings) => {
                Fake::Whoop(Box::new(whoop::Whoop::new(seed, days, now_us, settings)))
            }
            Service::Spotify(settings) => {
                Fake::Spotify(Box::new(Room::new(seed, days, now_us, &url, settings)))
            }
            Service::Steam(settings) => {
                Fake::Steam(Box::new(Room::new(seed, days, now_us, &url, settings)))
            }
            Service::Reddit(settings) => {
                Fake::Reddit(Box::new(Room::new(seed, days, now_us, &url, settings)))
            }
            Service::Youtube(settings) => {
                Fake::Youtube(Box::new(Room::new(seed, days, now_us, &url, settings)))
            }
            Service::Bilibili(settings) => {
                Fake::Bilibili(Box::new(Room::new(seed, days, now_us, &url, settings)))
            }
        };
        let state = Arc::new(State {
            url,
            clock: Clock::new(now_us, config.time),
            tally: Tally::default(),
            faults: Faults::new(seed, config.faults),
            fake,
        });
        let serving = server::serve(listener, Arc::clone(&state)).map_err(StartError::Thread)?;
        Ok(Running { control: Control::new(Arc::clone(&state)), state, _serving: serving })
    }
}

/// A sandbox that answers; dropping it ends it.
#[derive(Debug)]
pub struct Running {
    control: Control,
    state: Arc<State>,
    _serving: Serving,
}

impl Running {
    /// The origin, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.state.url
    }

    pub fn control(&self) -> &Control {
        &self.control
    }
}
