//! Keeps everything that outlives a request: who may do what (registry, settings), what is secret
//! (vault), and what happened (ledger). All files lie in one home folder.

mod hex;
pub mod home;
pub mod random;
pub mod secret;
pub mod vault;
