//! Carries requests to servers and back: decide, admit, run, settle. Everything that a policy judges passes
//! through here.

pub(crate) mod aggregate;
pub(crate) mod app_pages;
pub(crate) mod approvals;
mod bridge;
pub(crate) mod call;
mod client_approval;
pub(crate) mod connect;
pub(crate) mod context;
mod digests;
pub(crate) mod error_responses;
mod finish;
pub(crate) mod handshake;
mod in_flight;
mod input_required;
pub(crate) mod log_level;
pub(crate) mod names;
pub(crate) mod outbound;
pub(crate) mod own_tokens;
pub(crate) mod parked;
mod policy_effects;
pub(crate) mod prepare;
mod progress;
pub(crate) mod refuse;
pub(crate) mod response_reader;
pub(crate) mod results;
mod rounds;
mod settle;
mod sign_in;
pub(crate) mod skills;
pub(crate) mod state;
pub(crate) mod subject;
pub(crate) mod tasks;
pub(crate) mod tool_check;
pub(crate) mod upper_layers;
