//! The services of the sandbox. `services!` at the end is the only list of them; a new service is
//! its folder and one line there.

use std::net::{Ipv4Addr, SocketAddr};

use crate::clock::ClockMode;
use crate::faults::Fault;
use crate::stand_in::{Build, StandIn, Start};

/// Which service to run, and how.
#[derive(Clone, Debug)]
pub struct Config {
    pub seed: u64,
    /// Days of history, including today.
    pub days: u32,
    /// The start time, in microseconds since 1970.
    pub now_us: i64,
    /// The person lives at this offset from UTC, in minutes, and stays there. Without it the seed decides.
    pub offset_min: Option<i64>,
    pub time: ClockMode,
    /// A loopback address; port 0 picks a free port.
    pub bind: SocketAddr,
    pub faults: Vec<Fault>,
    pub service: Service,
}

impl Config {
    /// Any service, on a free port.
    pub fn of(service: Service, seed: u64, days: u32, now_us: i64) -> Config {
        Config {
            seed,
            days,
            now_us,
            offset_min: None,
            time: ClockMode::Running,
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            faults: Vec::new(),
            service,
        }
    }
}

macro_rules! services {
    ($($(#[$doc:meta])* $variant:ident $name:ident: $settings:ident;)*) => {
        $(pub mod $name;)*

        /// A service and its settings.
        #[derive(Clone, Debug)]
        pub enum Service {
            $($variant($name::$settings),)*
        }

        impl Service {
            /// The names that [`Service::named`] knows.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// A service with its default settings.
            pub fn named(name: &str) -> Option<Service> {
                Some(match name {
                    $(stringify!($name) => Service::$variant($name::$settings::default()),)*
                    _ => return None,
                })
            }

            /// Removes rate limits and quotas.
            pub fn unlimit(&mut self) {
                match self {
                    $(Service::$variant(settings) => settings.unlimit(),)*
                }
            }

            pub(crate) fn build(self, start: Start<'_>) -> Box<dyn StandIn> {
                match self {
                    $(Service::$variant(settings) => settings.build(start),)*
                }
            }
        }

        impl Config {
            $(
                $(#[$doc])*
                pub fn $name(seed: u64, days: u32, now_us: i64) -> Config {
                    let settings = $name::$settings::default();
                    Config::of(Service::$variant(settings), seed, days, now_us)
                }
            )*
        }
    };
}

services! {
    /// WHOOP with its documented rate limits, on a free port.
    Whoop whoop: WhoopSettings;
    /// Spotify as a new application sees it in 2026, on a free port.
    Spotify spotify: SpotifySettings;
    /// Steam with a player who has 120 friends, on a free port.
    Steam steam: SteamSettings;
    /// Reddit with an approved application, on a free port.
    Reddit reddit: RedditSettings;
    /// YouTube with Google sign-in, on a free port.
    Youtube youtube: YoutubeSettings;
    /// Bilibili with the cookies of a signed-in browser, on a free port.
    Bilibili bilibili: BilibiliSettings;
}
