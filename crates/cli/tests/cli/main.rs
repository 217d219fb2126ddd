//! Tests of the binary: complete outputs, exit codes, files, and a gate over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod accounts;
#[cfg(feature = "demo")]
mod aggregates;
mod archives;
mod bundles;
mod catalog;
mod cli_test;
mod client_documents;
mod clients;
mod data;
mod deadlines;
#[cfg(feature = "demo")]
mod demo;
mod disk_full;
mod doctor;
#[cfg(feature = "demo")]
mod events;
mod first_use;
mod floods;
mod gate;
mod grants;
#[cfg(feature = "demo")]
mod guidance;
mod help;
mod history;
mod hostile;
mod http;
#[cfg(unix)]
mod install_prompt;
mod killed_commands;
mod login_races;
mod logins_in_use;
mod masking;
mod media;
#[cfg(feature = "demo")]
mod metric_notices;
mod network;
#[cfg(not(feature = "demo"))]
mod no_demo;
mod notify;
mod notify_tls;
mod oauth_hostile;
mod oauth_server;
mod operator;
mod packaging;
mod personal;
mod policies;
mod public_address;
#[cfg(feature = "demo")]
mod query_limits;
mod scan;
mod seal;
mod secrets;
mod self_check;
mod servers;
mod service;
mod sign_in;
mod sign_in_elicitation;
mod sign_in_prompt;
mod simulate;
#[cfg(unix)]
mod special_files;
#[cfg(unix)]
mod started_programs;
#[cfg(unix)]
mod streams;
mod sync;
#[cfg(unix)]
mod terminal;
#[cfg(feature = "demo")]
mod units;
#[cfg(unix)]
mod vault;
#[cfg(feature = "demo")]
mod vault_locked;
#[cfg(feature = "demo")]
mod whoop;
mod words;
