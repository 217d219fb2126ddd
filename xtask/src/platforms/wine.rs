//! Wine, unpacked from Debian's packages: runs the Windows program on Linux without root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::packages;
use super::tools::Compiler;
use crate::tools as test_tools;

const PACKAGES: [&str; 2] = ["wine64", "libz-mingw-w64"];
const WINE: &str = include_str!("wine.sh");
/// Wine 8 has no `bcryptprimitives.dll`, from which Rust's standard library takes random bytes.
const RANDOM: &str = include_str!("bcryptprimitives.c");
const RANDOM_DLL: &str = "bcryptprimitives.dll";
/// Windows 10: the standard library asks for no older one.
const WINDOWS: [&str; 8] =
    ["add", r"HKCU\Software\Wine", "/v", "Version", "/t", "REG_SZ", "/d", "win10"];
/// Windows counts its boots here; Wine does not.
const BOOTS: [&str; 8] = [
    "add",
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters",
    "/v",
    "BootId",
    "/t",
    "REG_DWORD",
    "/d",
    "1",
];

/// An installed Wine with a prefix, which is Wine's word for a Windows of one's own.
pub(super) struct Wine {
    script: PathBuf,
    prefix: PathBuf,
}

impl Wine {
    /// Unpacks and repairs what is missing; the prefix is below `scratch`.
    pub(super) fn ensure(compiler: &Compiler, scratch: &Path) -> Result<Wine> {
        let (folder, _lock) = test_tools::folder()?;
        let at = folder.join("wine");
        let root = at.join("root");
        fs::create_dir_all(&at)?;
        packages::unpack(&PACKAGES, &at, &root)?;
        let usr = root.join("usr");
        // The packaged one is a script with fixed paths.
        let programs = usr.join("lib/wine");
        fs::copy(programs.join("wineserver64"), programs.join("wineserver"))?;
        let zlib = usr.join("x86_64-w64-mingw32/lib/zlib1.dll");
        fs::copy(&zlib, usr.join("lib/x86_64-linux-gnu/wine/x86_64-windows/zlib1.dll"))?;
        let random = at.join(RANDOM_DLL);
        if !random.is_file() {
            let source = at.join("bcryptprimitives.c");
            fs::write(&source, RANDOM)?;
            let mut gcc = compiler.mingw();
            gcc.args(["-shared", "-O2"]).arg(&source).arg("-o").arg(&random).arg("-ladvapi32");
            done(&mut gcc)?;
        }
        let script = at.join("wine.sh");
        fs::write(&script, WINE.replace("@USR@", &usr.display().to_string()))?;
        platform::private::set_bits(&fs::File::open(&script)?, 0o755)?;
        let wine = Wine { script, prefix: scratch.join("prefix") };
        // Before the first start, which sets up the prefix with programs that need them.
        let system = wine.prefix.join("drive_c/windows/system32");
        fs::create_dir_all(&system)?;
        fs::copy(&zlib, system.join("zlib1.dll"))?;
        fs::copy(&random, system.join(RANDOM_DLL))?;
        for words in [WINDOWS, BOOTS] {
            done(wine.command("reg").args(words).arg("/f"))?;
        }
        Ok(wine)
    }

    /// A program for Windows, given by its path on Linux or by its name in Wine.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(&self.script);
        command.arg(program).env("WINEPREFIX", &self.prefix);
        command
    }

    /// The words that start a program, for a client that starts it.
    pub(super) fn script(&self) -> &Path {
        &self.script
    }

    pub(super) fn prefix(&self) -> &Path {
        &self.prefix
    }
}

/// Ends Wine's server with everything that still runs in the prefix.
impl Drop for Wine {
    fn drop(&mut self) {
        let _ = self.command("wineboot").arg("--kill").output();
    }
}

/// Wine shows the root of Linux as the drive `Z:`.
pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', r"\")
}

pub(super) fn done(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!(
            "{command:?} ended with {}: {said}{}",
            out.status,
            String::from_utf8_lossy(&out.stdout)
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
