//! Who asks, as far as one reader can be told from another. It decides nothing about what may be read.

use std::sync::Arc;

/// One who reads what changed. What one was shown says nothing about what another was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The grant, which outlives a conversation and this process.
    grant: Arc<str>,
    /// The conversation, as numbered in this process. Calls outside of any may be of several readers.
    conversation: Option<u64>,
}

impl Reader {
    /// Whoever calls with a grant, without a conversation to be known by.
    pub fn of_grant(grant: &str) -> Reader {
        Reader { grant: grant.into(), conversation: None }
    }

    /// The one at the other end of a conversation.
    pub fn in_conversation(grant: &str, number: u64) -> Reader {
        Reader { grant: grant.into(), conversation: Some(number) }
    }

    /// The owner at the command line.
    pub fn owner() -> Reader {
        Reader::of_grant("")
    }

    pub(crate) fn grant(&self) -> &str {
        &self.grant
    }

    /// Is it one reader for certain?
    pub(crate) fn is_alone(&self) -> bool {
        self.conversation.is_some()
    }
}
