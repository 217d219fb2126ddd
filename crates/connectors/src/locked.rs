//! What tools answer while the key of the home cannot be used: there is no login to be had, so nothing
//! is opened, asked or written.

use store::clock::Clock;

use crate::{Admitted, Answer, Service, Tool, whoop};

/// For agents, who can only pass it on.
pub(crate) const WORDS: &str = "the vault key of this machine cannot be used, so there is no login; its owner puts `vault.key` back from a backup, and `tollgate doctor` says what is wrong with it";

/// Stands where the desk would, in a home whose key is damaged or another's.
#[derive(Debug)]
pub struct Locked {
    pub clock: Clock,
}

impl Locked {
    /// Answers one admitted call.
    pub fn answer(&self, _admitted: &Admitted, service: &Service, tool: &Tool) -> Answer {
        match service.name {
            whoop::NAME => whoop::locked(tool, self.clock.now().wall_us),
            _ => Answer::Failed { code: "store_unavailable", words: WORDS.to_owned() },
        }
    }
}

impl std::fmt::Display for Locked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(WORDS)
    }
}
