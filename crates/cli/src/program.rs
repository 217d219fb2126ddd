//! Finds the program of a command as the gate's child process will be found.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use store::registry::{EnvValue, Target};

/// The file that runs; nothing when there is none, or it cannot be run.
pub(crate) fn find_program(program: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    find_in(program, cwd, std::env::var_os("PATH").as_deref())
}

/// The same with the `PATH` of somebody else.
pub(crate) fn find_in(program: &str, cwd: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
        return is_program(&path).then_some(path);
    }
    std::env::split_paths(path?).map(|folder| folder.join(program)).find(|path| is_program(path))
}

/// The target with the full path of its program, because a gate that is started elsewhere has another
/// `PATH` and another folder. A program that is not found stays as it was written.
pub(crate) fn resolved(target: Target) -> Target {
    let Target::Command { mut argv, env, cwd } = target else { return target };
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
    Target::Command { argv, env, cwd }
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
        assert!(find_in("sh", None, Some(OsStr::new("/no/such/folder"))).is_none());
        assert!(find_in("sh", None, None).is_none());
    }

    #[test]
    fn a_command_is_kept_with_the_full_path_of_its_program() {
        let command = |program: &str, env: Vec<(String, EnvValue)>| {
            let argv = vec![program.to_owned(), "-c".to_owned()];
            match resolved(Target::Command { argv, env, cwd: None }) {
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
