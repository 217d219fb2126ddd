//! Several gates on one Postgres: the real binary, a real server, a recorder behind it that counts
//! what passes, and replicas that are killed, paused and cut off.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    reason = "a test stops where it fails, and shared helpers are used in part"
)]

#[path = "many_machines/chaos.rs"]
mod chaos;
#[path = "gate/http_client.rs"]
mod http_client;
#[path = "../../store/tests/support/postgres.rs"]
mod postgres;
#[path = "many_machines/proxy.rs"]
mod proxy;
#[path = "gate/recorder.rs"]
mod recorder;
#[path = "many_machines/serving.rs"]
mod serving;
#[path = "gate/test_gate.rs"]
mod test_gate;
