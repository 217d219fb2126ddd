//! A running WHOOP stand-in and a client for it.

use sandbox::services::whoop;
use sandbox::{ClockMode, Config, Running, Sandbox, Service};

#[path = "../socket/wire.rs"]
mod wire;

pub(crate) use wire::{Got, get, send, try_send};

/// 16 November 2026, 09:30 UTC.
pub(crate) const NOW_US: i64 = 1_794_821_400_000_000;

/// A member with 90 days and a frozen clock.
pub(crate) fn start(change: impl FnOnce(&mut whoop::WhoopSettings)) -> Running {
    let mut settings = whoop::WhoopSettings::default();
    change(&mut settings);
    let service = Service::Whoop(settings);
    let config = Config { service, time: ClockMode::Frozen, ..Config::whoop(42, 90, NOW_US) };
    Sandbox::start(config).unwrap()
}

/// A fresh access token with every scope.
pub(crate) fn token(running: &Running) -> String {
    running.control().tokens()["access_token"].as_str().unwrap().to_owned()
}
