//! MCP as bytes: what a message is, which revision it speaks, and how one is written.
//! Nothing here waits, reads or writes; what has two readings is refused.

pub mod answer;
mod envelope;
mod field;
pub mod headers;
mod id;
mod members;
mod message;
mod method;
mod param_headers;
mod params;
mod refused;
mod revision;
pub mod sse;
mod takes;
mod target;

#[cfg(test)]
mod tests;

pub use envelope::{before_result, error_body, notification_body, request_body, result_body};
pub use id::Id;
pub use message::{Message, Notification, Outcome, Request, Response, is_error, read};
pub use method::{Method, Sender, Way};
pub use param_headers::{EXTENSION as HEADER_EXTENSION, ParamHeaders};
pub(crate) use params::has_look_alike;
pub use params::{Named, meta_keys};
pub use refused::{Refused, code};
pub use revision::{Era, Revision};
pub use takes::{Question, TASKS, Takes};
pub use target::Target;
