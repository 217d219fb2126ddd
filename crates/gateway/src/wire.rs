//! MCP as bytes: what a message is, which revision it speaks, and how to change one without touching
//! the rest of it. Nothing here waits, reads or writes; what has two readings is refused.

mod envelope;
mod id;
mod message;
mod method;
mod params;
mod refused;
mod revision;

#[cfg(test)]
mod tests;

pub use envelope::{error_body, notification_body, request_body, result_body};
pub use id::Id;
pub use message::{Message, Notification, Outcome, Request, Response, read};
pub use method::{Method, Sender, Way};
pub use params::{Named, meta_keys};
pub use refused::{Refused, code};
pub use revision::{Era, Revision};
