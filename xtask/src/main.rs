//! Development commands: `cargo xtask up | test | bench | tidy | docs`. Nothing here is part of the product.
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
mod insights;
mod package;
mod packages;
mod pages;
mod platforms;
mod promises;
mod test;
mod tidy;
mod tools;
mod up;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use bench::cost::Effort;

const HELP: &str = "\
cargo xtask up [ARGS…]       build tollgate and run `tollgate up --demo`
cargo xtask test [STEP…]     everything that must pass, or only these steps
cargo xtask promises [P01…]  every promise with its tests and their figures [--full]
cargo xtask fuzz [WORD…]     fuzz every parser of outside input, guided by coverage [--seconds N]
cargo xtask direct           the conformance suite and the clients without a gate, to check the harness
cargo xtask bench gate       cost of the gate compared with a direct connection [--quick] [--without-audit]
cargo xtask bench cost       latency at 200 calls a second, and of a decision alone [--quick]
cargo xtask bench catalog    speed of catalogue import and search [--quick]
cargo xtask bench whoop      the WHOOP server compared with the public Python server [--quick]
cargo xtask bench scale      a call on Postgres compared with files, and calls a second through several gates [--quick]
cargo xtask bench pages      speed and size of the dashboard's pages with a million audit rows, and what an open one costs calls [--rows N] [--debug]
cargo xtask bench insights   1,000 people with planted effects, and ten years of data
cargo xtask bench ten-years  only the ten years: every insight tool and the report, through the binary
cargo xtask eval classifier  accuracy of the tool classifier on labelled tools [FILE]
cargo xtask platforms        check the workspace for macOS and Windows [macos|windows] [--crate NAME];
                             `--wine` builds tollgate.exe and uses it in Wine
cargo xtask package [KIND…]  archive, wheel, npm, deb, mcpb, sbom of one build [--target T] [--program FILE] [--out DIR];
                             `release`: checksums, installers, manifests of all archives [--downloads URL] [--home URL];
                             `test`: installs and uses each package of a program (--program FILE)
cargo xtask tidy             house rules that no compiler checks
cargo xtask docs [--check]   regenerate docs/reference, or compare it
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
        "package" => package::package(&root, rest),
        "tidy" => tidy::tidy(&root),
        "platforms" => platforms::platforms(&root, rest),
        "docs" => docs::docs(&root, rest.iter().any(|a| a == "--check")),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("unknown task `{other}`\n\n{HELP}"),
    }
}

fn measure(root: &Path, rest: &[String]) -> Result<bool> {
    match rest.split_first() {
        Some((what, options)) if what == "gate" => bench::gate(root, options).map(|()| true),
        Some((what, options)) if what == "cost" => {
            let is_quick = options.iter().any(|option| option == "--quick");
            let effort = if is_quick { Effort::QUICK } else { Effort::FULL };
            bench::cost::cost(root, effort).map(|()| true)
        }
        Some((what, options)) if what == "catalog" => {
            bench::catalog::catalog(root, options).map(|()| true)
        }
        Some((what, options)) if what == "whoop" => {
            bench::whoop::whoop(root, options).map(|()| true)
        }
        Some((what, options)) if what == "scale" => {
            bench::scale::scale(root, options).map(|()| true)
        }
        Some((what, options)) if what == "pages" => {
            bench::pages::pages(root, options).map(|()| true)
        }
        Some((what, _)) if what == "insights" => insights::bench(root),
        Some((what, _)) if what == "ten-years" => insights::bench_ten_years(root),
        _ => anyhow::bail!("`bench` needs the name of a benchmark\n\n{HELP}"),
    }
}

fn eval(root: &Path, rest: &[String]) -> Result<bool> {
    match rest.split_first() {
        Some((what, options)) if what == "classifier" => classifier::eval(root, options),
        _ => anyhow::bail!("`eval` needs the name of an evaluation\n\n{HELP}"),
    }
}

/// The workspace: the folder above this crate's.
fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).context("xtask has no folder above it")
}

/// The cargo that started this program, so that a pinned toolchain stays pinned.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
