//! The client side of the gate: connections, TLS, HTTP, stdio, Host and Origin checks, grants. One
//! request becomes one message, which is dispatched to the exchange or to notifications.

mod bounded_body;
pub(crate) mod dispatch;
pub(crate) mod http;
pub(crate) mod owner_pages;
pub(crate) mod serve;
pub(crate) mod sign_in_callback;
pub(crate) mod stdio;
pub(crate) mod upper_layers;
pub(crate) mod webhooks;

use std::sync::Arc;

use crate::exchange::state::SharedState;
use oauth::server::Issuer;
use owner_pages::Pages;
use serve::AllowedHosts;
use webhooks::Webhooks;

/// The state that HTTP requests are handled with.
pub(crate) struct Edge {
    pub(crate) state: Arc<SharedState>,
    hosts: AllowedHosts,
    webhooks: Webhooks,
    /// Pages for people; without them only the protocol is served.
    pages: Option<Arc<dyn Pages>>,
    /// Where clients sign in.
    issuer: Option<Issuer>,
}

impl Edge {
    pub(crate) fn new(
        state: Arc<SharedState>,
        hosts: AllowedHosts,
        pages: Option<Arc<dyn Pages>>,
        issuer: Option<Issuer>,
    ) -> Edge {
        Edge { state, hosts, webhooks: Webhooks::default(), pages, issuer }
    }
}
