//! What a developer runs: `cargo xtask up | test | bench | tidy | docs`. Nothing here is part of the
//! product.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool talks on the terminal"
)]

mod bench;
mod classifier;
mod clients;
mod conformance;
mod docs;
mod fuzz;
mod promises;
mod test;
mod tidy;
mod tools;
mod up;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

const HELP: &str = "\
cargo xtask up [ARGS…]       build tollgate and run `tollgate up --demo`
cargo xtask test [STEP…]     everything that must pass, or only the steps named
cargo xtask promises [P01…]  every promise with its tests and their figures [--full]
cargo xtask fuzz [WORD…]     made-up bytes, guided by coverage, where bytes from outside are read [--seconds N]
cargo xtask direct           the suite and the clients without a gate: is the harness whole?
cargo xtask bench gate       what the gate costs, beside a direct connection [--quick] [--without-audit]
cargo xtask bench catalog    how fast the catalogue is made and asked [--quick]
cargo xtask bench whoop      WHOOP beside the public Python server [--quick]
cargo xtask eval classifier  how tools are classed, beside labels [FILE]
cargo xtask tidy             the rules of the house
cargo xtask docs [--check]   write docs/reference from the program itself, or compare
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((task, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    };
    match run(task, rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(task: &str, rest: &[String]) -> Result<bool> {
    let root = root()?;
    match task {
        "up" => up::up(&root, rest),
        "test" => test::test(&root, rest),
        "promises" => promises::run(&root, rest),
        "fuzz" => fuzz::fuzz(&root, rest),
        "direct" => test::direct(),
        "bench" => measure(&root, rest),
        "eval" => eval(&root, rest),
        "tidy" => tidy::tidy(&root),
        "docs" => docs::docs(&root, rest.iter().any(|a| a == "--check")),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("there is no task `{other}`\n\n{HELP}"),
    }
}

fn measure(root: &Path, rest: &[String]) -> Result<bool> {
    match rest.split_first() {
        Some((what, options)) if what == "gate" => bench::gate(root, options).map(|()| true),
        Some((what, options)) if what == "catalog" => {
            bench::catalog::catalog(root, options).map(|()| true)
        }
        Some((what, options)) if what == "whoop" => {
            bench::whoop::whoop(root, options).map(|()| true)
        }
        _ => anyhow::bail!("bench what?\n\n{HELP}"),
    }
}

fn eval(root: &Path, rest: &[String]) -> Result<bool> {
    match rest.split_first() {
        Some((what, options)) if what == "classifier" => classifier::eval(root, options),
        _ => anyhow::bail!("eval what?\n\n{HELP}"),
    }
}

/// The workspace: cargo sets the folder of this crate, and the workspace is the one above.
fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).context("xtask has no folder above it")
}

/// The cargo that started us, so that a pinned toolchain stays pinned.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
