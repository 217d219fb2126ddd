//! The rules of OAuth as pure functions: what a client and an authorization server compute and check.
//! No IO, no clock, no randomness; it stores nothing.

pub mod client;
pub mod pkce;
pub mod server;
pub mod signature;
