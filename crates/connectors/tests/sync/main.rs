//! Syncs, imports and events of WHOOP against the sandbox, over real HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod events;
mod faults;
mod fixture;
mod imports;
mod members;
mod mirror;
mod requests;
mod resume;
mod webhooks;
