//! `cargo xtask fuzz`: coverage-guided fuzzing of every parser of outside input with libFuzzer. The corpus
//! stays in `fuzz/target/corpus` for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const SECONDS_DEFAULT: &str = "60";
/// Longer inputs find nothing more.
const INPUT_BYTES_MAX: &str = "-max_len=4096";
/// An input that takes longer, in an instrumented build, counts as a hang.
const INPUT_SECONDS_MAX: &str = "-timeout=10";

/// The coverage instrumentation that libFuzzer needs; all of it is in the stable compiler.
const INSTRUMENTS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// `cargo xtask fuzz [--seconds N] [WORD…]`: the surfaces whose names hold one of the words, or all.
pub(crate) fn fuzz(root: &Path, args: &[String]) -> Result<bool> {
    let (seconds, words) = match args {
        [flag, seconds, words @ ..] if flag == "--seconds" => (seconds.as_str(), words),
        words => (SECONDS_DEFAULT, words),
    };
    let seconds: u64 = seconds.parse().context("--seconds N")?;
    let program = build(root)?;
    let asked = Command::new(&program).stderr(Stdio::null()).output()?;
    let all = String::from_utf8_lossy(&asked.stdout);
    let wanted = |name: &&str| words.is_empty() || words.iter().any(|word| name.contains(&**word));
    let names: Vec<&str> = all.lines().filter(wanted).collect();
    if names.is_empty() {
        bail!(
            "unknown surface; the names are in `tests/damage/surfaces.rs` of `mcp` and `gateway`"
        );
    }
    let mut broken = 0;
    for name in &names {
        broken += usize::from(!attack(root, &program, name, seconds)?);
    }
    println!("{} passed, {broken} failed", names.len() - broken);
    Ok(broken == 0)
}

/// Fuzzes one surface for this long; false when something was found.
fn attack(root: &Path, program: &Path, name: &str, seconds: u64) -> Result<bool> {
    let folder = root.join("fuzz/target/corpus").join(name.replace([' ', ',', '.'], "-"));
    fs::create_dir_all(&folder)?;
    let output = Command::new(program)
        .arg(&folder)
        .args([INPUT_BYTES_MAX, INPUT_SECONDS_MAX, "-print_final_stats=1", "-verbosity=1"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/found-", root.join("fuzz/target").display()))
        .env("TOLLGATE_SURFACE", name)
        .env("TOLLGATE_CORPUS", &folder)
        .output()
        .context("cannot run the fuzzer")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
        println!("{}", lines.join("\n"));
    }
    let inputs = said
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .map_or("?", str::trim);
    let reached =
        said.lines().rev().find_map(|line| line.split(" cov: ").nth(1)?.split(' ').next());
    println!(
        "P22: {name}: {inputs} inputs in {seconds} s, {} places in the code reached, {}",
        reached.unwrap_or("?"),
        if output.status.success() { "nothing found" } else { "FOUND SOMETHING" },
    );
    Ok(output.status.success())
}

fn build(root: &Path) -> Result<PathBuf> {
    let version = Command::new("rustc").arg("-vV").output().context("cannot ask rustc")?;
    let version = String::from_utf8_lossy(&version.stdout);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say for which machine it builds")?;
    let folder = root.join("fuzz/target");
    // With a target named, scripts that run while building are not instrumented.
    let built = crate::cargo()
        .current_dir(root)
        .args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target", host, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", INSTRUMENTS.join(" "))
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        bail!("the fuzzer does not build\nhint: it needs a C++ compiler (`apt-get install g++`)");
    }
    Ok(folder.join(host).join("release/surface"))
}
