//! Compilers for other systems, from the package registries alone: Debian's `rustc-web` with the sources of the
//! standard library, `mingw` for C on Windows, `zig cc` from PyPI for C on macOS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::packages;
use crate::tools as test_tools;

/// The compiler, its libraries come as dependencies.
const RUST: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];
const MINGW: [&str; 3] = ["gcc-mingw-w64-x86-64-win32", "mingw-w64-x86-64-dev", "libz-mingw-w64"];
const MINGW_GCC: &str = "x86_64-w64-mingw32-gcc-win32";
const ZIG_REQUIREMENTS: &str = "requirements-zig.txt";
/// `cc` passes target names and options that zig does not take; the name of the script has zig's target.
const ZIG_CC: &str = include_str!("zigcc.sh");
const ZIG_AR: &str = include_str!("zigar.sh");

/// Where Debian's packages have their libraries.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

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
        let libraries = LIBRARIES.map(|folder| root.join(folder).display().to_string());
        command.env("LD_LIBRARY_PATH", libraries.join(":"));
        // The standard library is built with unstable options. For checks only, never for a release.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", bin.join("rustc"));
        // Those of the toolchain that runs this program.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The C compiler for Windows.
    pub(super) fn mingw(&self) -> Command {
        let Compiler::Unpacked { root, .. } = self else {
            return Command::new("x86_64-w64-mingw32-gcc");
        };
        let bin = root.join("usr/bin");
        let mut command = Command::new(bin.join(MINGW_GCC));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path));
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
    packages::unpack(&packages, &at, &root)?;
    let variable = target.replace('-', "_");
    let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
    let mut variables = Vec::new();
    match needs {
        Needs::Mingw => {
            let gcc = root.join("usr/bin").join(MINGW_GCC);
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
