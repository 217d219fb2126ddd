//! A compiled policy as the gate uses it.

use policy::json::Value;
use policy::{Policy, ServerRequest, Subject};

/// A compiled policy with what names it in audit rows.
pub(crate) struct Rules {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(super) sha256: String,
    pub(crate) policy: Policy,
}

impl Rules {
    /// Whether methods may be used that reach a server and name no tool, resource or prompt.
    pub(crate) fn allows_methods(&self) -> bool {
        self.policy.allows_unnamed()
    }

    /// Whether the resource that a notification names may be seen.
    pub(crate) fn shows_resource_of(&self, notification: Value<'_>) -> bool {
        let uri = notification.get("params").and_then(|params| params.get("uri")?.as_str());
        uri.is_some_and(|uri| self.policy.shows(Subject::Resource(&uri)))
    }

    /// Whether a server may ask this of the client. What the language does not name follows the client.
    pub(crate) fn server_may_ask(&self, method: &str) -> bool {
        let request = match method {
            "elicitation/create" => ServerRequest::Elicitation,
            "sampling/createMessage" => ServerRequest::Sampling,
            "roots/list" => ServerRequest::Roots,
            // Whoever lists what servers may ask lists all of it.
            _ => return ServerRequest::ALL.into_iter().all(|one| self.policy.server_may_ask(one)),
        };
        self.policy.server_may_ask(request)
    }
}
