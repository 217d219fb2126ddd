//! Programs of the machine that the tests start. On a machine that has only the toolchain they are
//! installed from Debian's packages; where that cannot be, the error says what to install.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{output, said};

/// A program, and the Debian packages that bring it.
const PROGRAMS: &[(&str, &[&str])] =
    &[("git", &["git"]), ("python3", &["python3", "python3-venv"]), ("npm", &["nodejs", "npm"])];

/// The browser of the dashboard's tests. Only they need it.
const BROWSER: (&str, &[&str]) = ("chromium", &["chromium", "fonts-dejavu-core"]);

/// The reverse proxies of the guide: the program, its Debian package, and where that has it. The packages would start
/// services, so they are only unpacked.
const PROXIES: &[(&str, &str, &str)] =
    &[("nginx", "nginx", "usr/sbin/nginx"), ("caddy", "caddy", "usr/bin/caddy")];

/// The server that the tests of a shared store start. Debian keeps its programs out of the path.
const POSTGRES: (&str, &[&str]) = ("/usr/lib/postgresql", &["postgresql"]);
/// What the packages are built with and tried in.
const PACKAGING: &[(&str, &[&str])] = &[
    ("dpkg-shlibdeps", &["dpkg-dev"]),
    ("strip", &["binutils"]),
    ("curl", &["curl", "ca-certificates"]),
    ("debootstrap", &["debootstrap"]),
];
/// Where `debootstrap` is found; not every user has this folder on the path.
const ADMIN_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// The files that say where this machine's packages come from.
const APT_SOURCES_FILE: &str = "/etc/apt/sources.list";
const APT_SOURCES_FOLDER: &str = "/etc/apt/sources.list.d";

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
    postgres_in(folder).is_some()
}

/// Where the programs of the newest Postgres server are.
pub(crate) fn postgres_programs() -> Option<PathBuf> {
    postgres_in(POSTGRES.0)
}

fn postgres_in(folder: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(folder).into_iter().flatten().flatten();
    let version = |entry: &fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((version(&entry)?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .collect();
    found.sort();
    found.pop().map(|(_, bin)| bin)
}

pub(crate) fn ensure_packaging() -> Result<()> {
    ensure_these(PACKAGING)
}

pub(crate) fn is_root() -> Result<bool> {
    let asked = output(Command::new("id").arg("-u")).context("cannot start `id`")?;
    Ok(String::from_utf8_lossy(&asked.stdout).trim() == "0")
}

/// A fresh Debian in this folder: this machine's release, from where its packages come from. Needs root.
pub(crate) fn make_debian(folder: &Path) -> Result<()> {
    let suite = debian_suite()?;
    let sources = apt_sources();
    let address = sources.iter().find_map(|(_, text)| address_of(&suite, text));
    let address = address.with_context(|| format!("no source of packages for `{suite}`"))?;
    let debootstrap = find("debootstrap").context("there is no `debootstrap`")?;
    let mut command = Command::new(debootstrap);
    command.args(["--variant=minbase", &suite]).arg(folder).arg(address);
    let out = output(&mut command)?;
    if out.status.success() { Ok(()) } else { bail!("cannot make a fresh Debian: {}", said(&out)) }
}

/// The code name of this machine's release.
fn debian_suite() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("this is not a Debian")?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(suite.context("this Debian has no code name")?.to_owned())
}

/// The files of this machine that say where Debian's own packages come from, and their names.
pub(crate) fn debian_sources() -> Result<Vec<(String, String)>> {
    let suite = debian_suite()?;
    let security = format!("{suite}-security");
    let has = |text: &str| [&suite, &security].iter().any(|s| address_of(s, text).is_some());
    let found: Vec<_> = apt_sources().into_iter().filter(|(_, text)| has(text)).collect();
    anyhow::ensure!(!found.is_empty(), "no source of packages for `{suite}`");
    Ok(found)
}

/// The files that say where this machine's packages come from, and their names.
fn apt_sources() -> Vec<(String, String)> {
    let more = fs::read_dir(APT_SOURCES_FOLDER).into_iter().flatten();
    let more = more.filter_map(|entry| Some(entry.ok()?.path()));
    let is_read = |path: &PathBuf| path.extension().is_some_and(|e| e == "list" || e == "sources");
    let files = std::iter::once(PathBuf::from(APT_SOURCES_FILE)).chain(more.filter(is_read));
    let read = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        Some((name, fs::read_to_string(&path).ok()?))
    };
    files.filter_map(read).collect()
}

/// Where packages of this suite come from, in either format of apt.
fn address_of(suite: &str, text: &str) -> Option<String> {
    let in_block = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        field("Suites:")?.split_whitespace().find(|found| *found == suite)?;
        Some(field("URIs:")?.split_whitespace().next()?.to_owned())
    };
    let in_line = |line: &str| {
        let words = line.strip_prefix("deb ")?.split_whitespace();
        let mut words = words.skip_while(|word| !word.contains("://"));
        let address = words.next()?;
        (words.next()? == suite).then(|| address.to_owned())
    };
    text.split("\n\n").find_map(in_block).or_else(|| text.lines().find_map(in_line))
}

/// Where the browser is. Installs it if it is missing.
pub(crate) fn chromium() -> Result<PathBuf> {
    ensure_these(&[BROWSER])?;
    find(BROWSER.0).context("there is no `chromium`")
}

/// The proxies of the guide by name: those of this machine, or of Debian's packages, unpacked into this folder.
pub(crate) fn proxies(folder: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let found = PROXIES.iter().map(|(program, package, file)| {
        let path = match find(program) {
            Some(path) => path,
            None => unpacked(package, file, folder)?,
        };
        Ok((*program, path))
    });
    found.collect()
}

fn unpacked(package: &str, file: &str, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(file);
    if path.is_file() {
        return Ok(path);
    }
    println!("unpacking the Debian package {package}");
    fs::create_dir_all(folder)?;
    let fetch = format!("apt-get download -qq {package} && dpkg-deb -x {package}_*.deb .");
    let out = output(Command::new("sh").args(["-c", &fetch]).current_dir(folder))?;
    if out.status.success() && path.is_file() {
        return Ok(path);
    }
    bail!("the tests need {package}: {}\nhint: {}", said(&out), hint(package))
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
    let folders = env::split_paths(&path).chain(ADMIN_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_of_apt_sources_are_read() {
        let expected = Some("http://deb.example/debian".to_owned());
        let table = [
            "Types: deb\nURIs: http://x.example\nSuites: y\n\nTypes: deb\nURIs: http://deb.example/debian\nSuites: bookworm bookworm-updates\n",
            "# comment\ndeb http://x.example y-bookworm\ndeb http://deb.example/debian bookworm main\n",
            "deb [signed-by=/a b=c] http://deb.example/debian bookworm main\n",
        ];
        for text in table {
            assert_eq!(address_of("bookworm", text), expected, "{text}");
        }
        assert_eq!(address_of("bookworm", "# nothing\n"), None);
    }
}
