//! Shared foundations: services, bounds, metrics, traces, pacing, offloading and the response
//! buffer. Uses no other module of the gateway.

mod anonymous_rows;
pub(crate) mod bounds;
pub(crate) mod error_codes;
pub(crate) mod loop_detection;
pub(crate) mod metrics;
pub(crate) mod offload;
pub(crate) mod pacing;
pub(crate) mod permits;
pub(crate) mod response_buffer;
pub(crate) mod services;
pub(crate) mod stop_signal;
pub(crate) mod trace;

pub(crate) use services::Services;
