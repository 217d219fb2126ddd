//! Tests of the ledger's public interface: what it promises about limits, records, crashes, tampering and
//! trouble with the disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "ledger/approvals.rs"]
mod approvals;
#[path = "ledger/calls.rs"]
mod calls;
#[path = "ledger/crash.rs"]
mod crash;
#[path = "ledger/history.rs"]
mod history;
#[path = "ledger/limits.rs"]
mod limits;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "ledger/power.rs"]
mod power;
#[cfg(unix)]
#[path = "ledger/replicas.rs"]
mod replicas;
#[path = "ledger/standby.rs"]
mod standby;
#[path = "ledger/support.rs"]
mod support;
#[path = "ledger/tamper.rs"]
mod tamper;
#[path = "ledger/together.rs"]
mod together;
#[path = "ledger/trouble.rs"]
mod trouble;
