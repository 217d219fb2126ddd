//! `cargo xtask platforms`: checks the workspace with its tests for macOS and Windows on a Linux machine, as an
//! ordinary user. A toolchain of rustup that has the target is used as it is; otherwise Debian's compiler with the
//! sources of the standard library is unpacked into `.test-tools`.

mod packages;
mod tools;
mod walk;
mod wine;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use tools::{Compiler, Needs};

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Platform {
    /// The word on the command line.
    system: &'static str,
    target: &'static str,
    needs: Needs,
}

impl Platform {
    fn is_called(&self, word: &str) -> bool {
        word == self.system || word == self.target
    }
}

const PLATFORMS: [Platform; 3] = [
    Platform {
        system: "macos",
        target: "aarch64-apple-darwin",
        needs: Needs::Zig { target: "aarch64-macos" },
    },
    Platform {
        system: "macos",
        target: "x86_64-apple-darwin",
        needs: Needs::Zig { target: "x86_64-macos" },
    },
    Platform { system: "windows", target: "x86_64-pc-windows-gnu", needs: Needs::Mingw },
];

/// Nothing that is compiled here has to be fast, C code in particular.
const QUICK: [&str; 4] = [
    "--config",
    "profile.dev.package.\"*\".opt-level=0",
    "--config",
    "profile.dev.package.insights.opt-level=0",
];

/// With words: only these systems or targets, or `--crate NAME` for some crates. With `--wine` the Windows program is
/// built and used in Wine instead.
pub(crate) fn platforms(root: &Path, words: &[String]) -> Result<bool> {
    if words.iter().any(|word| word == "--wine") {
        return in_wine(root);
    }
    let (wanted, crates) = wanted(words)?;
    let mut rows = Vec::new();
    let mut good = true;
    for platform in wanted {
        let began = Instant::now();
        let compiler = tools::ensure(platform.target, platform.needs)?;
        let prepared = began.elapsed();
        println!("checking {} with {}", platform.target, compiler.name());
        let began = Instant::now();
        let passed = check(root, platform, &compiler, &crates)?;
        good &= passed;
        rows.push((platform.target, prepared, began.elapsed(), passed));
    }
    for (target, prepared, checked, passed) in rows {
        let ending = if passed { "passed" } else { "FAILED" };
        println!("{target}: {ending}; tools {}, check {}", shown(prepared), shown(checked));
    }
    Ok(good)
}

/// Builds the development profile for Windows and walks through it.
fn in_wine(root: &Path) -> Result<bool> {
    let platform = PLATFORMS.iter().find(|platform| platform.needs == Needs::Mingw);
    let platform = platform.context("no target for Windows")?;
    let compiler = tools::ensure(platform.target, platform.needs)?;
    let began = Instant::now();
    let mut build = compiler.cargo();
    build.current_dir(root).args(["build", "--package", "tollgate", "--target", platform.target]);
    let folder = root.join("target/platforms").join(platform.target);
    build.args(compiler.cargo_args()).args(QUICK).env("CARGO_TARGET_DIR", &folder);
    if !build.status().context("cannot start cargo")?.success() {
        bail!("tollgate does not build for {}", platform.target);
    }
    println!("built tollgate.exe in {}", shown(began.elapsed()));
    let program = folder.join(platform.target).join("debug/tollgate.exe");
    walk::walk(crate::tools::ensure()?, &compiler, &program)
}

fn wanted(words: &[String]) -> Result<(Vec<Platform>, Vec<String>)> {
    let (mut systems, mut crates) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--crate" {
            crates.extend(words.next().cloned());
        } else if PLATFORMS.iter().any(|platform| platform.is_called(word)) {
            systems.push(word.clone());
        } else {
            bail!("unknown system `{word}`\nhint: macos or windows, or neither for both");
        }
    }
    let is_wanted = |p: &&Platform| systems.is_empty() || systems.iter().any(|s| p.is_called(s));
    Ok((PLATFORMS.iter().filter(is_wanted).copied().collect(), crates))
}

/// One target folder for each target, because builds of one folder wait for each other.
fn check(root: &Path, platform: Platform, compiler: &Compiler, crates: &[String]) -> Result<bool> {
    let mut command: Command = compiler.cargo();
    command.current_dir(root).args(["check", "--all-targets", "--keep-going"]);
    match crates {
        [] => command.arg("--workspace"),
        crates => command.args(crates.iter().flat_map(|name| ["--package", name])),
    };
    command.args(["--target", platform.target]).args(compiler.cargo_args()).args(QUICK);
    command.env("CARGO_TARGET_DIR", root.join("target/platforms").join(platform.target));
    let status = command.status().context("cannot start cargo")?;
    Ok(status.success())
}

fn shown(time: Duration) -> String {
    format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_select_systems_and_crates() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            wanted(&words).map(|(platforms, crates)| (platforms.len(), crates.len())).ok()
        };
        assert_eq!(of(&[]), Some((3, 0)));
        assert_eq!(of(&["macos"]), Some((2, 0)));
        assert_eq!(of(&["windows", "--crate", "store"]), Some((1, 1)));
        assert_eq!(of(&["plan9"]), None);
    }
}
