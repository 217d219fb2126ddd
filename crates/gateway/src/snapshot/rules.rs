//! A compiled policy, and what audit rows call it.

use policy::json::Value;
use policy::{Policy, ServerRequest};

use crate::upstream::skills::SkillBook;

/// A compiled policy with its name and version.
pub(crate) struct Rules {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(super) sha256: String,
    pub(crate) policy: Policy,
}

impl Rules {
    /// Whether methods are allowed that reach a server and name no tool, resource or prompt.
    pub(crate) fn allows_methods(&self) -> bool {
        self.policy.allows_unnamed()
    }

    /// Whether the policy shows the resource or skill that a notification names.
    pub(crate) fn shows_resource_of(&self, notification: Value<'_>, skills: &SkillBook) -> bool {
        let uri = notification.get("params").and_then(|params| params.get("uri")?.as_str());
        uri.is_some_and(|uri| self.policy.shows(skills.subject_of(&uri)))
    }

    /// Whether a server may send this request to the client. Methods that the policy language does not know are
    /// allowed if all known ones are.
    pub(crate) fn server_may_ask(&self, method: &str) -> bool {
        let request = match method {
            "elicitation/create" => ServerRequest::Elicitation,
            "sampling/createMessage" => ServerRequest::Sampling,
            "roots/list" => ServerRequest::Roots,
            _ => return ServerRequest::ALL.into_iter().all(|one| self.policy.server_may_ask(one)),
        };
        self.policy.server_may_ask(request)
    }

    /// Whether a server may elicit input from the client.
    pub(crate) fn may_elicit(&self) -> bool {
        self.policy.server_may_ask(ServerRequest::Elicitation)
    }
}
