//! The identity of a caller, to keep cursors apart. Grants no access.

use std::sync::Arc;

/// A reader of changes. Each reader has its own position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The grant, which outlives a session and this process.
    grant: Arc<str>,
    /// The session number in this process. Calls without a session may come from several readers.
    conversation: Option<u64>,
}

impl Caller {
    /// Any caller with this grant and without a session.
    pub fn of_grant(grant: &str) -> Caller {
        Caller { grant: grant.into(), conversation: None }
    }

    /// The client of one session.
    pub fn in_session(grant: &str, number: u64) -> Caller {
        Caller { grant: grant.into(), conversation: Some(number) }
    }

    /// The owner at the command line.
    pub fn owner() -> Caller {
        Caller::of_grant("")
    }

    pub(crate) fn grant(&self) -> &str {
        &self.grant
    }

    /// Is it certainly a single caller?
    pub(crate) fn is_alone(&self) -> bool {
        self.conversation.is_some()
    }
}
