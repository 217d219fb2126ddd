//! Compilers for other systems, from the package registries alone: Debian's `rustc-web` with the sources of the
//! standard library, `mingw` for C on Windows, `zig cc` from PyPI for C on macOS.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::tools as test_tools;

/// The compiler, its libraries come as dependencies.
const RUST: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];
const MINGW: [&str; 3] = ["gcc-mingw-w64-x86-64-win32", "mingw-w64-x86-64-dev", "libz-mingw-w64"];
const ZIG_REQUIREMENTS: &str = "requirements-zig.txt";
/// `cc` passes target names and options that zig does not take; the name of the script has zig's target.
const ZIG_CC: &str = include_str!("zigcc.sh");
const ZIG_AR: &str = include_str!("zigar.sh");

/// What compiles C for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Zig { target: &'static str },
    Mingw,
}

pub(super) enum Compiler {
    /// The toolchain that runs this program has the target.
    Own,
    /// Unpacked packages, and the variables that make cargo use them.
    Unpacked { root: PathBuf, variables: Vec<(String, PathBuf)> },
}

impl Compiler {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Compiler::Own => "the toolchain of this machine",
            Compiler::Unpacked { .. } => "Debian's compiler; the standard library is compiled, too",
        }
    }

    pub(super) fn cargo(&self) -> Command {
        let Compiler::Unpacked { root, variables } = self else { return crate::cargo() };
        let bin = root.join("usr/bin");
        let mut command = Command::new(bin.join("cargo"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin.clone()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path));
        command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
        // The standard library is built with unstable options. For checks only, never for a release.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", bin.join("rustc"));
        // Those of the toolchain that runs this program.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(super) fn cargo_args(&self) -> &'static [&'static str] {
        match self {
            Compiler::Own => &[],
            Compiler::Unpacked { .. } => &["-Zbuild-std=std,panic_unwind,test"],
        }
    }
}

/// Installs what is missing.
pub(super) fn ensure(target: &str, needs: Needs) -> Result<Compiler> {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = installed.map(|out| out.stdout).unwrap_or_default();
    if String::from_utf8_lossy(&installed).lines().any(|line| line == target) {
        return Ok(Compiler::Own);
    }
    let (folder, _lock) = test_tools::folder()?;
    let at = folder.join("platforms");
    let root = at.join("root");
    let packages = match needs {
        Needs::Zig { .. } => RUST.to_vec(),
        Needs::Mingw => [RUST, MINGW].concat(),
    };
    unpack(&packages, &at, &root)?;
    let variable = target.replace('-', "_");
    let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
    let mut variables = Vec::new();
    match needs {
        Needs::Mingw => {
            let gcc = root.join("usr/bin/x86_64-w64-mingw32-gcc-win32");
            variables.push((linker, gcc.clone()));
            variables.push((format!("CC_{variable}"), gcc));
            let ar = root.join("usr/bin/x86_64-w64-mingw32-ar");
            variables.push((format!("AR_{variable}"), ar));
        }
        Needs::Zig { target } => {
            let python = test_tools::python_of(ZIG_REQUIREMENTS, "venv-zig", &folder)?;
            let (bin, sdk) = (at.join("bin"), at.join("sdk"));
            fs::create_dir_all(&bin)?;
            // `cc` asks for the SDK of Xcode; an empty folder is enough to compile.
            fs::create_dir_all(&sdk)?;
            let cc = script(&bin, &format!("zigcc-{target}"), ZIG_CC, &python)?;
            variables.push((linker, cc.clone()));
            variables.push((format!("CC_{variable}"), cc));
            variables.push((format!("AR_{variable}"), script(&bin, "zigar", ZIG_AR, &python)?));
            variables.push(("SDKROOT".to_owned(), sdk));
        }
    }
    Ok(Compiler::Unpacked { root, variables })
}

fn script(folder: &Path, name: &str, text: &str, python: &Path) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text.replace("@PYTHON@", &python.display().to_string()))?;
    platform::private::set_bits(&fs::File::open(&path)?, 0o755)?;
    Ok(path)
}

/// Downloads and unpacks packages with all that they depend on and this machine does not have.
fn unpack(wanted: &[&str], at: &Path, root: &Path) -> Result<()> {
    let mark = at.join("unpacked.txt");
    let done = fs::read_to_string(&mark).unwrap_or_default();
    if wanted.iter().all(|name| done.lines().any(|line| line == *name)) {
        return Ok(());
    }
    println!("unpacking Debian packages into {}", root.display());
    let downloads = at.join("downloads");
    fs::create_dir_all(&downloads)?;
    let names = missing(wanted)?;
    let mut download = Command::new("apt-get");
    download.current_dir(&downloads).arg("download").args(&names);
    said_well(&mut download, "download the packages", "`apt-get update` as root once")?;
    for entry in fs::read_dir(&downloads)? {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(entry?.path()).arg(root);
        said_well(&mut unpack, "unpack a package", "dpkg")?;
    }
    fs::remove_dir_all(&downloads)?;
    let all: BTreeSet<&str> = done.lines().chain(wanted.iter().copied()).collect();
    fs::write(mark, all.into_iter().collect::<Vec<_>>().join("\n"))?;
    Ok(())
}

/// The packages, and their dependencies that are not installed. Versions move, so Debian is asked for the names.
fn missing(wanted: &[&str]) -> Result<BTreeSet<String>> {
    let quiet = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];
    let mut ask = Command::new("apt-cache");
    ask.args(["depends", "--recurse"]).args(quiet.map(|kind| format!("--no-{kind}"))).args(wanted);
    let listed = said_well(&mut ask, "list the packages", "Debian 12 with its security archive")?;
    let names: BTreeSet<&str> = listed.lines().filter_map(package_name).collect();
    let installed =
        Command::new("dpkg-query").args(["-W", "-f=${Package} ${Status}\n"]).output()?;
    let installed = String::from_utf8_lossy(&installed.stdout).into_owned();
    let is_installed = |name: &str| {
        installed.lines().any(|line| line.strip_prefix(name) == Some(" install ok installed"))
    };
    Ok(names.into_iter().filter(|name| !is_installed(name)).map(str::to_owned).collect())
}

/// A line that begins with a name is a package; the indented ones are its dependencies, which follow on their own.
fn package_name(line: &str) -> Option<&str> {
    let is_name = line.starts_with(|c: char| c.is_ascii_alphanumeric());
    // Another architecture's packages are named with it.
    (is_name && !line.contains(':')).then(|| line.trim())
}

fn said_well(command: &mut Command, act: &str, needs: &str) -> Result<String> {
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
    fn only_lines_without_indent_name_packages() {
        let listed = "rustc-web\n  Depends: libc6\n |Depends: a\n  Depends: <libgcc>\nlibc6\nlibc6:i386\n<virtual>\n";
        let names: Vec<&str> = listed.lines().filter_map(package_name).collect();
        assert_eq!(names, ["rustc-web", "libc6"]);
    }
}
