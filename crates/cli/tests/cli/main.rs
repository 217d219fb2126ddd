//! The binary as its users meet it: whole outputs, exit codes, files, and a gate over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where the stage does not stand"
)]

mod accounts;
mod archives;
mod catalog;
mod clients;
mod data;
mod doctor;
mod events;
mod floods;
mod gate;
mod grants;
mod help;
mod history;
mod hostile;
mod http;
mod killed;
mod locked;
mod masked;
mod media;
mod network;
mod odd_files;
mod packaging;
mod personal;
mod policies;
mod scan;
mod seal;
mod secrets;
mod servers;
mod service;
mod simulate;
mod stage;
mod streams;
mod sync;
mod terminal;
mod vault;
mod whoop;
mod words;
