//! Programs of the machine that the tests start. On a machine that has only the toolchain they are
//! installed from Debian's packages; where that cannot be, the error says what to install.

use std::env;
use std::process::Command;

use anyhow::{Result, bail};

use super::{output, said};

/// A program, and the Debian packages that bring it.
const PROGRAMS: &[(&str, &[&str])] =
    &[("git", &["git"]), ("python3", &["python3", "python3-venv"]), ("npm", &["nodejs", "npm"])];

/// Installs those that are missing; quick when none is.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> =
        missing.iter().flat_map(|(_, packages)| packages.iter().copied()).collect();
    install(&packages)?;
    if let Some((program, _)) = missing.iter().find(|(program, _)| !is_there(program)) {
        bail!("there is no `{program}`, although its package is installed");
    }
    Ok(())
}

/// Installs Debian packages, as root.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    println!("installing Debian packages: {names}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        output(command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    // An old list of packages may do, so only the install itself decides.
    let _ = apt(&["update", "-qq"]);
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    match apt(&arguments) {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => bail!("cannot install {names}: {}\nhint: {}", said(&out), hint(&names)),
        Err(_) => bail!("the tests need {names}\nhint: {}", hint(&names)),
    }
}

fn hint(names: &str) -> String {
    format!("as root `apt-get install {names}`, or what your system calls them")
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
