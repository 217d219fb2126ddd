//! Keeps everything that outlives a request: who may do what (registry, settings), what is secret
//! (vault, accounts), and what happened (ledger). All files lie in one home folder.

pub mod accounts;
pub mod clock;
pub mod effective;
pub mod export;
pub mod files;
pub mod foreign;
pub mod gate_time;
mod half_made;
mod hex;
pub mod home;
pub mod index;
pub mod ledger;
mod nearest;
pub mod purge;
pub mod random;
pub mod records;
pub mod registry;
pub mod secret;
pub mod settings;
pub mod vault;
