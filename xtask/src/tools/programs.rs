//! Programs of the machine that the tests start. On a machine that has only the toolchain they are
//! installed from Debian's packages; where that cannot be, the error says what to install.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{output, said};

/// A program, and the Debian packages that bring it.
const PROGRAMS: &[(&str, &[&str])] =
    &[("git", &["git"]), ("python3", &["python3", "python3-venv"]), ("npm", &["nodejs", "npm"])];

/// The browser of the dashboard's tests. Only they need it.
const BROWSER: (&str, &[&str]) = ("chromium", &["chromium", "fonts-dejavu-core"]);

/// The server that the tests of a shared store start. Debian keeps its programs out of the path.
const POSTGRES: (&str, &[&str]) = ("/usr/lib/postgresql", &["postgresql"]);

/// Installs those that are missing; quick when none is.
pub(crate) fn ensure() -> Result<()> {
    ensure_these(PROGRAMS)?;
    let (folder, packages) = POSTGRES;
    if has_postgres(folder) {
        return Ok(());
    }
    install(packages)?;
    if has_postgres(folder) { Ok(()) } else { bail!("there is no Postgres server in `{folder}`") }
}

fn has_postgres(folder: &str) -> bool {
    let versions = std::fs::read_dir(folder).into_iter().flatten().flatten();
    versions.into_iter().any(|version| version.path().join("bin/initdb").is_file())
}

/// Where the browser is. Installs it if it is missing.
pub(crate) fn chromium() -> Result<PathBuf> {
    ensure_these(&[BROWSER])?;
    find(BROWSER.0).context("there is no `chromium`")
}

fn ensure_these(programs: &[(&str, &[&str])]) -> Result<()> {
    let missing: Vec<_> = programs.iter().filter(|(program, _)| find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> =
        missing.iter().flat_map(|(_, packages)| packages.iter().copied()).collect();
    install(&packages)?;
    if let Some((program, _)) = missing.iter().find(|(program, _)| find(program).is_none()) {
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

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}
