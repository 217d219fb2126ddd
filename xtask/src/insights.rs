//! Judges `crates/insights`: the comparison with other statistics packages, the people with planted
//! effects, and the time that ten years of data take.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::Tally;

const SCRIPT: &str = "tests/e2e/insights.py";
const PEOPLE: &str = "1000";

/// Compares with SciPy, statsmodels, pymannkendall and ruptures.
pub(crate) fn compare(root: &Path) -> Result<Tally> {
    let python = crate::tools::insights_python()?;
    let evaluate = example(root, "evaluate", "dev")?;
    let script = root.join(SCRIPT);
    let status = Command::new(python).arg(script).arg(evaluate).status();
    Ok(Tally::one(status.context("cannot start Python")?.success()))
}

/// `cargo xtask bench insights`: 1,000 people with planted effects, then the time of each insight.
pub(crate) fn bench(root: &Path) -> Result<bool> {
    let mut people = crate::cargo();
    people.current_dir(root).env("TOLLGATE_PEOPLE", PEOPLE);
    people.args(["test", "--package", "insights", "--release", "--test", "planted"]);
    let found =
        people.args(["--", "--nocapture"]).status().context("cannot start cargo")?.success();
    let ten_years = example(root, "ten_years", "release")?;
    let fast = Command::new(ten_years).status().context("cannot start the benchmark")?.success();
    Ok(found && fast)
}

/// Builds an example of the crate and says where it is.
fn example(root: &Path, name: &str, profile: &str) -> Result<PathBuf> {
    let arguments = ["build", "--package", "insights", "--example", name, "--profile", profile];
    let mut command = crate::cargo();
    command.current_dir(root).args(arguments).arg("--message-format=json-render-diagnostics");
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("the example `{name}` of the crate `insights` does not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables.next_back().context("cargo did not say where it put the example")
}
