//! Judges `crates/insights`: the comparison with other statistics packages, the people with planted
//! effects, and the time that ten years of data take: each step alone, and each tool through the binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::Tally;

const SCRIPT: &str = "tests/e2e/insights.py";
const SANDBOX_PEOPLE: &str = "tests/e2e/people.py";
const TEN_YEARS: &str = "tests/e2e/ten_years.py";
const PEOPLE: &str = "1000";
/// People who are synced through the sandbox: in a test, and where their shares are judged.
const PEOPLE_TESTED: &str = "6";
const PEOPLE_JUDGED: &str = "200";

/// Compares with SciPy, statsmodels, pymannkendall and ruptures; then a few sandbox people.
pub(crate) fn compare(root: &Path) -> Result<Tally> {
    let python = crate::tools::insights_python()?;
    let evaluate = example(root, "evaluate", "dev")?;
    let script = root.join(SCRIPT);
    let status = Command::new(&python).arg(script).arg(evaluate).status();
    let same = status.context("cannot start Python")?.success();
    let people = judge(root, &python, "dev", PEOPLE_TESTED)?;
    let count = |passed: bool| usize::from(passed);
    let passed = count(same) + count(people);
    Ok(Tally { passed, failed: 2 - passed })
}

/// People of the sandbox, synced and judged by the binary, and recomputed in Python.
fn judge(root: &Path, python: &Path, profile: &str, people: &str) -> Result<bool> {
    let tollgate = built(root, &["build", "--package", "tollgate", "--profile", profile])?;
    let script = root.join(SANDBOX_PEOPLE);
    let status = Command::new(python).arg(script).arg(tollgate).arg(people).status();
    Ok(status.context("cannot start Python")?.success())
}

/// `cargo xtask bench ten-years`: every insight tool, query and report over ten years, through the binary.
pub(crate) fn bench_ten_years(root: &Path) -> Result<bool> {
    let python = crate::tools::insights_python()?;
    let tollgate = built(root, &["build", "--package", "tollgate", "--profile", "release"])?;
    let status = Command::new(python).arg(root.join(TEN_YEARS)).arg(tollgate).status();
    Ok(status.context("cannot start Python")?.success())
}

/// `cargo xtask bench insights`: 1,000 people with planted effects, 200 of them through the sandbox, then the
/// time of each insight.
pub(crate) fn bench(root: &Path) -> Result<bool> {
    let mut people = crate::cargo();
    people.current_dir(root).env("TOLLGATE_PEOPLE", PEOPLE);
    people.args(["test", "--package", "insights", "--release", "--test", "planted"]);
    let found =
        people.args(["--", "--nocapture"]).status().context("cannot start cargo")?.success();
    let ten_years = example(root, "ten_years", "release")?;
    let fast = Command::new(ten_years).status().context("cannot start the benchmark")?.success();
    let python = crate::tools::insights_python()?;
    let tools_fast = bench_ten_years(root)?;
    let judged = judge(root, &python, "release", PEOPLE_JUDGED)?;
    Ok(found && fast && tools_fast && judged)
}

/// Builds an example of the crate and says where it is.
fn example(root: &Path, name: &str, profile: &str) -> Result<PathBuf> {
    built(root, &["build", "--package", "insights", "--example", name, "--profile", profile])
}

/// Builds one program and says where it is.
fn built(root: &Path, arguments: &[&str]) -> Result<PathBuf> {
    let mut command = crate::cargo();
    command.current_dir(root).args(arguments).arg("--message-format=json-render-diagnostics");
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("`cargo {}` failed", arguments.join(" "));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables.next_back().context("cargo did not say where it put the program")
}
