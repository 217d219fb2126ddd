//! Finds the program of a command as the gate will find it, and removes tollgate's secrets from the
//! environment of other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use connectors::account::SignIn;
use connectors::tokens::STALE_VARIABLE;

use crate::variables::{KEY_VARIABLE, METRICS_VARIABLE, STORE_PASSWORD_VARIABLE, STORE_VARIABLE};

use store::registry::{EnvValue, Server, Target};

/// The executable file; none if there is none.
pub(crate) fn find_program(program: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    find_in(program, cwd, std::env::var_os("PATH").as_deref())
}

/// The same with another `PATH`.
pub(crate) fn find_in(program: &str, cwd: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains(std::path::is_separator) {
        let path = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
        return platform::programs::at(&path);
    }
    platform::programs::find(Path::new(program), path?)
}

/// The target with the full path of its program, because the gate may have another `PATH` and another
/// working directory. A program that is not found stays as it is.
pub(crate) fn resolved(target: Target) -> Target {
    let Target::Command { mut argv, env, cwd, secret_args } = target else { return target };
    let own = std::env::var_os("PATH");
    let configured = env.iter().find_map(|(name, value)| match value {
        EnvValue::Plain(value) if name == "PATH" => Some(OsStr::new(value)),
        _ => None,
    });
    let path = configured.or(own.as_deref());
    if let Some(program) = argv.first_mut()
        && let Some(found) = find_in(program, cwd.as_deref(), path)
        && let Ok(found) = std::path::absolute(found)
        && let Ok(found) = found.into_os_string().into_string()
    {
        *program = found;
    }
    Target::Command { argv, env, cwd, secret_args }
}

/// The folders among the arguments of a server, which the owner gave it. Relative ones are below its folder.
pub(crate) fn own_folders(server: &str, servers: &[Server]) -> Vec<String> {
    let server = servers.iter().find(|known| known.name == server);
    let Some(Target::Command { argv, cwd, .. }) = server.map(|server| &server.target) else {
        return Vec::new();
    };
    let values = argv.iter().skip(1).map(|word| word.split_once('=').map_or(&**word, |(_, v)| v));
    let folders = values.filter_map(|word| {
        let is_path = word.starts_with('.') || word.contains('/');
        let folder = match cwd {
            _ if Path::new(word).is_absolute() => word.into(),
            Some(cwd) if is_path => std::path::absolute(cwd.join(word)).ok()?,
            _ => return None,
        };
        folder.is_dir().then(|| folder.to_str().map(str::to_owned)).flatten()
    });
    folders.collect()
}

/// Removes tollgate's secrets from the environment of another program: the vault key, the metrics token and
/// the credentials of accounts. Other variables stay, because the program may need them.
pub(crate) fn withhold_secrets(command: &mut Command) {
    let own = [KEY_VARIABLE, METRICS_VARIABLE, STORE_VARIABLE, STORE_PASSWORD_VARIABLE];
    for name in own.into_iter().chain([STALE_VARIABLE]) {
        command.env_remove(name);
    }
    for account in connectors::ALL.iter().filter_map(|connector| connector.account()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_like_in_a_shell() {
        assert!(find_program("sh", None).is_some());
        assert!(find_program("/bin/sh", None).is_some());
        assert!(find_program("no-such-program-here", None).is_none());
        assert!(find_program("/etc/passwd", None).is_none());
        assert!(find_in("sh", None, Some(OsStr::new("/no/such/folder"))).is_none());
        assert!(find_in("sh", None, None).is_none());
    }

    #[test]
    fn a_command_is_stored_with_the_full_path_of_its_program() {
        let command = |program: &str, env: Vec<(String, EnvValue)>| {
            let argv = vec![program.to_owned(), "-c".to_owned()];
            match resolved(Target::Command { argv, env, cwd: None, secret_args: vec![] }) {
                Target::Command { argv, .. } => argv.join(" "),
                _ => String::new(),
            }
        };
        let sh = command("sh", Vec::new());
        assert!(sh.starts_with('/') && sh.ends_with("/sh -c"), "{sh}");
        assert_eq!(command("no-such-program-here", Vec::new()), "no-such-program-here -c");
        let path = vec![("PATH".to_owned(), EnvValue::Plain("/no/such/folder".to_owned()))];
        assert_eq!(command("sh", path), "sh -c", "the child's own PATH counts");
    }
}
