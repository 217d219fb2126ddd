//! Finds the program of a command as the gate's child process will be found, and keeps our secrets from
//! programs that are not ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use connectors::account::SignIn;
use connectors::tokens::STALE_VARIABLE;

use crate::context::KEY_VARIABLE;
use crate::run::METRICS_VARIABLE;
use crate::services::with_accounts;

/// The file that runs; nothing when there is none, or it cannot be run.
pub(crate) fn find_program(program: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    if program.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| is_program(path))
}

/// Keeps our own secrets from a program that is not ours: the vault key, the metrics token, and what the
/// owner's accounts are reached with. Its own variables stay, because nobody knows which it needs.
pub(crate) fn withhold_secrets(command: &mut Command) {
    for name in [KEY_VARIABLE, METRICS_VARIABLE, STALE_VARIABLE] {
        command.env_remove(name);
    }
    for (_, account) in with_accounts() {
        command.env_remove(account.client_secret);
        if let Some(name) = account.access_token {
            command.env_remove(name);
        }
        let values = match account.sign_in {
            SignIn::Values(fields) => fields,
            _ => &[],
        };
        for field in account.values.iter().chain(values).filter(|field| field.hidden) {
            command.env_remove(field.variable);
        }
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_would() {
        assert!(find_program("sh", None).is_some());
        assert!(find_program("/bin/sh", None).is_some());
        assert!(find_program("no-such-program-here", None).is_none());
        assert!(find_program("/etc/passwd", None).is_none());
    }
}
