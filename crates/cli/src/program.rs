//! Finds the program of a command as the gate's child process will be found.

use std::path::{Path, PathBuf};

/// The file that runs; nothing when there is none, or it cannot be run.
pub(crate) fn find_program(program: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    if program.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| is_program(path))
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
