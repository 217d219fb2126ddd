//! Subscriptions of clients and notifications of servers: which server streams are open, and which
//! clients receive their messages.

pub(crate) mod from_client;
pub(crate) mod list_changes;
mod server_messages;
pub(crate) mod server_streams;
pub(crate) mod subscribe;
