//! Sends notices to the owner outside the dashboard: webhooks, Slack, ntfy and e-mail. It reads the outbox and
//! reports to it; it decides nothing and never waits on the path of a call.

mod email;
mod message;
mod outbox;
mod send;

pub use message::Message;
pub use outbox::{Arguments, Outbox};
pub use send::{LookUp, SendError, Sender};
