//! The commands, one module each. A command uses the shared modules of the crate and no other command;
//! `cargo xtask tidy` checks this.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod catalog;
pub(crate) mod clients;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod grant;
pub(crate) mod notify;
pub(crate) mod open;
pub(crate) mod personal;
pub(crate) mod policy;
pub(crate) mod reference;
#[cfg(feature = "demo")]
pub(crate) mod sandbox;
pub(crate) mod scan;
pub(crate) mod self_check;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod sync;
pub(crate) mod up;
pub(crate) mod vault;
