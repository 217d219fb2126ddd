//! Answers of tools while the vault key of the home cannot be used. Opens, sends and writes nothing.

use store::clock::Clock;

use crate::{Admitted, Answer, Connector, Tool};

/// For agents, who can only pass it on.
pub(crate) const MESSAGE: &str = "the vault key of this machine cannot be used, so there is no login; its owner puts `vault.key` back from a backup, and `tollgate doctor` says what is wrong with it";

/// Takes the place of the context in a home whose vault key is damaged or of another home.
#[derive(Debug)]
pub struct VaultLocked {
    pub clock: Clock,
}

impl VaultLocked {
    /// Answers one admitted call.
    pub fn answer(&self, _admitted: &Admitted, connector: &Connector, tool: &Tool) -> Answer {
        match connector.vault_locked {
            Some(answer) => answer(tool, self.clock.now().wall_us),
            None => Answer::Failed { code: "store_unavailable", message: MESSAGE.to_owned() },
        }
    }
}

impl std::fmt::Display for VaultLocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MESSAGE)
    }
}
