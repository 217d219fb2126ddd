//! MCP as bytes: messages, revisions, headers, event streams, and the translation between the two
//! eras. No waiting, no clock, no IO. Ambiguous messages are refused.

mod capabilities;
mod client_info;
mod declared_client;
pub mod edit;
mod envelope;
mod error;
mod header_value;
pub mod headers;
mod id;
pub mod listed_names;
mod message;
mod method;
mod param_headers;
mod params;
mod revision;
pub mod server_message;
pub mod sse;
mod target;
pub mod translate;

#[cfg(test)]
mod tests;

pub use capabilities::{ClientCapabilities, InputKind, SKILLS, TASKS};
pub use client_info::ClientInfo;
pub use declared_client::{more_than_capabilities, more_than_info};
pub use envelope::{error_body, notification_body, request_body, result_body, result_prefix};
pub use error::{ProtocolError, code};
pub use id::Id;
pub use message::{Message, Notification, Outcome, Request, Response, is_error, read};
pub use method::{Method, MethodKind, Sender};
pub use param_headers::{EXTENSION as HEADER_EXTENSION, ParamHeaders};
pub use params::{Named, can_be_sent, has_look_alike, is_look_alike, meta_keys};
pub use revision::{Era, Revision};
pub use target::JudgedTarget;
