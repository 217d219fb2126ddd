//! A member of WHOOP to ask about, and the client that asks.

use sandbox::{Config, Running, Sandbox, Service, Time, whoop};

#[path = "../socket/wire.rs"]
mod wire;

pub(crate) use wire::{Got, get, send, try_send};

/// 16 November 2026, 09:30 UTC.
pub(crate) const NOW_US: i64 = 1_794_821_400_000_000;

/// A member with 90 days, at a moment that stands still.
pub(crate) fn start(change: impl FnOnce(&mut whoop::Settings)) -> Running {
    let mut settings = whoop::Settings::default();
    change(&mut settings);
    let service = Service::Whoop(settings);
    let config = Config { service, time: Time::Stands, ..Config::whoop(42, 90, NOW_US) };
    Sandbox::start(config).unwrap()
}

/// A fresh access token with every scope.
pub(crate) fn token(running: &Running) -> String {
    running.control().tokens()["access_token"].as_str().unwrap().to_owned()
}
