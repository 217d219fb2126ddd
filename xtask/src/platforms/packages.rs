//! Debian packages without root: newest versions and what they need, asked of Debian's own servers with lists in a
//! folder of ours, downloaded and unpacked.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::tools::programs;

/// Unpacked packages are named in this file.
const MARK: &str = "unpacked.txt";

/// Downloads and unpacks packages with all that they depend on and this machine does not have. `at` is a working
/// folder, which remembers what is in `root`.
pub(super) fn unpack(wanted: &[&str], at: &Path, root: &Path) -> Result<()> {
    let mark = at.join(MARK);
    let done = fs::read_to_string(&mark).unwrap_or_default();
    if wanted.iter().all(|name| done.lines().any(|line| line == *name)) {
        return Ok(());
    }
    println!("unpacking Debian packages into {}", root.display());
    let apt = Apt::new(at)?;
    let mut names = apt.missing(wanted)?;
    names.extend(wanted.iter().map(|name| (*name).to_owned()));
    let downloads = at.join("downloads");
    let _ = fs::remove_dir_all(&downloads);
    fs::create_dir_all(&downloads)?;
    let mut download = apt.get();
    download.current_dir(&downloads).arg("download").args(&names);
    run(&mut download, "download the packages", "a connection to Debian's servers")?;
    for entry in fs::read_dir(&downloads)? {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(entry?.path()).arg(root);
        run(&mut unpack, "unpack a package", "dpkg")?;
    }
    fs::remove_dir_all(&downloads)?;
    let all: BTreeSet<&str> = done.lines().chain(wanted.iter().copied()).collect();
    fs::write(mark, all.into_iter().collect::<Vec<_>>().join("\n"))?;
    Ok(())
}

/// `apt-get` with lists of packages of its own: those of the machine may be old, and only root may renew them.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(at: &Path) -> Result<Apt> {
        let (lists, cache, sources) =
            (at.join("apt/lists"), at.join("apt/cache"), at.join("apt/sources"));
        for folder in [lists.join("partial"), cache.join("archives/partial"), sources.clone()] {
            fs::create_dir_all(folder)?;
        }
        // Of the machine's sources only Debian itself.
        let found = programs::debian_sources()?;
        for (name, text) in &found {
            fs::write(sources.join(name), text)?;
        }
        let options = [
            format!("Dir::State::Lists={}", lists.display()),
            format!("Dir::Cache={}", cache.display()),
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            format!("Dir::Etc::SourceParts={}", sources.display()),
        ];
        let apt = Apt { options: options.into_iter().flat_map(|o| ["-o".to_owned(), o]).collect() };
        run(
            apt.get().arg("update"),
            "read Debian's lists of packages",
            "a connection to its servers",
        )?;
        Ok(apt)
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.args(&self.options);
        command
    }

    /// What an installation of the packages would bring to this machine.
    fn missing(&self, wanted: &[&str]) -> Result<BTreeSet<String>> {
        let mut ask = self.get();
        ask.args(["--simulate", "--no-install-recommends", "install"]).args(wanted);
        let plan = run(&mut ask, "list the packages", "Debian 12 with its security archive")?;
        Ok(plan.lines().filter_map(new_package).map(str::to_owned).collect())
    }
}

/// `Inst NAME (VERSION …)` is new; with `[OLD]` after the name it only is a newer version.
fn new_package(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
    rest.starts_with('(').then_some(name)
}

fn run(command: &mut Command, act: &str, needs: &str) -> Result<String> {
    let out =
        command.output().with_context(|| format!("cannot {act}\nhint: this needs {needs}"))?;
    if !out.status.success() {
        let words = String::from_utf8_lossy(&out.stderr);
        let last = words.lines().last().unwrap_or_default();
        bail!("cannot {act}: {last}\nhint: this needs {needs}");
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_that_the_machine_does_not_have_are_new() {
        let plan = "NOTE: a simulation\nInst rustc-web (1.96 Debian:12 [amd64])\nInst libc6 [2.36] (2.37 Debian)\nConf rustc-web (1.96)\n";
        let names: Vec<&str> = plan.lines().filter_map(new_package).collect();
        assert_eq!(names, ["rustc-web"]);
    }
}
