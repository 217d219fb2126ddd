//! `cargo xtask test`: everything that must pass before a change goes in, as one table of steps.
//! Every step runs even when an earlier one failed, so that one run shows every problem.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The result of a step. A step with a single check counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn one(passed: bool) -> Tally {
        if passed { Tally { passed: 1, failed: 0 } } else { Tally { passed: 0, failed: 1 } }
    }

    pub(crate) fn add(self, other: Tally) -> Tally {
        Tally { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<Tally>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", run: fmt },
    Step { name: "tidy", run: |root| Ok(Tally::one(crate::tidy::tidy(root)?)) },
    Step { name: "clippy", run: clippy },
    Step { name: "unit", run: unit },
    Step { name: "no-demo", run: no_demo },
    Step { name: "doc", run: doc },
    Step { name: "docs", run: |root| Ok(Tally::one(crate::docs::docs(root, true)?)) },
    Step { name: "conformance", run: conformance },
    Step { name: "clients", run: clients },
    Step { name: "pages", run: pages },
    Step { name: "packages", run: packages },
    Step { name: "deploy", run: deploy },
    Step { name: "insights", run: crate::insights::compare },
];

pub(crate) fn test(root: &Path, only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("unknown step `{unknown}`; the steps are {}", known.join(", "));
    }
    crate::tools::programs::ensure()?;
    let wanted = |step: &&Step| only.is_empty() || only.iter().any(|name| name == step.name);
    let mut total = Tally::default();
    let mut failed_steps = Vec::new();
    for step in STEPS.iter().filter(wanted) {
        let tally = run_step(step, root);
        if tally.failed > 0 {
            failed_steps.push(step.name);
        }
        total = total.add(tally);
    }
    if !failed_steps.is_empty() {
        println!("failed in: {}", failed_steps.join(", "));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn run_step(step: &Step, root: &Path) -> Tally {
    println!("==> {}", step.name);
    let started = Instant::now();
    let tally = (step.run)(root).unwrap_or_else(|error| {
        println!("error: {error:#}");
        Tally::one(false)
    });
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "==> {}: {} passed, {} failed in {seconds:.1} s\n",
        step.name, tally.passed, tally.failed
    );
    tally
}

fn fmt(root: &Path) -> Result<Tally> {
    checked(crate::cargo().current_dir(root).args(["fmt", "--all", "--check"]))
}

fn clippy(root: &Path) -> Result<Tally> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    checked(crate::cargo().current_dir(root).args(arguments))
}

fn checked(command: &mut Command) -> Result<Tally> {
    Ok(Tally::one(command.status().context("cannot start cargo")?.success()))
}

fn unit(root: &Path) -> Result<Tally> {
    let mut command = crate::cargo();
    command.current_dir(root);
    if has_nextest() {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "fail"]);
    } else {
        command.args(["test", "--workspace", "--all-targets", "--no-fail-fast", "--quiet"]);
    }
    counted(&mut command)
}

/// The build of the container image: all of it must compile without warnings; only the tests about the
/// missing demo run, because the others do not depend on the feature.
fn no_demo(root: &Path) -> Result<Tally> {
    const BUILD: [&str; 3] = ["--package", "tollgate", "--no-default-features"];
    let mut lints = crate::cargo();
    lints.current_dir(root).arg("clippy").args(BUILD);
    let lints = checked(lints.args(["--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    let mut tests = crate::cargo();
    tests.current_dir(root).arg("test").args(BUILD);
    let tests = counted(tests.args(["--test", "cli", "--quiet", "--", "no_demo::"]))?;
    Ok(lints.add(tests))
}

fn doc(root: &Path) -> Result<Tally> {
    let mut command = crate::cargo();
    counted(command.current_dir(root).args(["test", "--workspace", "--doc", "--quiet"]))
}

fn conformance(root: &Path) -> Result<Tally> {
    let tollgate = built(root)?;
    Ok(crate::conformance::run(&crate::tools::ensure()?, &tollgate)?.tally)
}

fn clients(root: &Path) -> Result<Tally> {
    let tollgate = built(root)?;
    Ok(crate::clients::run(&crate::tools::ensure()?, &tollgate)?.tally)
}

fn pages(root: &Path) -> Result<Tally> {
    let tollgate = built(root)?;
    crate::pages::run(&crate::tools::ensure()?, &tollgate)
}

fn packages(root: &Path) -> Result<Tally> {
    let tollgate = built(root)?;
    crate::packages::run(root, crate::tools::ensure()?, &tollgate)
}

/// The Helm chart, rendered, and the Compose file, by the schemas of Kubernetes and Compose.
fn deploy(root: &Path) -> Result<Tally> {
    let tollgate = built(root)?;
    let mut check = Command::new(crate::tools::deploy_python()?);
    let status = check.arg(root.join("tests/e2e/deploy.py")).arg(root).arg(tollgate).status();
    Ok(Tally::one(status.context("cannot start Python")?.success()))
}

/// The same peers without a gate.
pub(crate) fn direct() -> Result<bool> {
    let tools = crate::tools::ensure()?;
    let suite = crate::conformance::run_all_direct(&tools)?.tally;
    let total = suite.add(crate::clients::run_all_direct(&tools)?.tally);
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

/// Builds the program as the tests use it. Cargo says where it put it.
fn built(root: &Path) -> Result<PathBuf> {
    let output = crate::cargo()
        .current_dir(root)
        .args(["build", "--package", "tollgate", "--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("tollgate does not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables.next_back().context("cargo did not say where it put tollgate")
}

fn has_nextest() -> bool {
    let asked = Command::new("cargo-nextest")
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Runs a test command, shows its output as it arrives, and counts the results. A command that
/// failed without a failed test (it did not build) is one failure.
fn counted(command: &mut Command) -> Result<Tally> {
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cannot start cargo")?;
    // The command holds the writing ends; the reader would wait forever while they live here.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut tally = Tally::default();
    for line in BufReader::new(reader).lines() {
        let line = line?;
        println!("{line}");
        tally = tally.add(counts_in(&line));
    }
    let passed = child.wait()?.success();
    if !passed && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

/// The counts in a summary line of cargo or of nextest; nothing for any other line.
fn counts_in(line: &str) -> Tally {
    let line = line.trim();
    let is_summary = line.starts_with("test result:") || line.starts_with("Summary [");
    if !is_summary {
        return Tally::default();
    }
    let words: Vec<&str> = line.split([' ', ',', ';', '.']).filter(|w| !w.is_empty()).collect();
    let before = |name: &str| {
        let pairs = words.iter().zip(words.iter().skip(1));
        pairs.filter(|(_, word)| **word == name).find_map(|(n, _)| n.parse().ok()).unwrap_or(0)
    };
    Tally { passed: before("passed"), failed: before("failed") + before("timed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_both_runners_are_counted() {
        let table = [
            (
                "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; finished in 0.1s",
                12,
                0,
            ),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored", 3, 2),
            ("     Summary [   0.412s] 10 tests run: 10 passed, 0 skipped", 10, 0),
            (
                "     Summary [   9.1s] 10 tests run: 7 passed (1 slow), 2 failed, 1 timed out, 0 skipped",
                7,
                3,
            ),
            ("test a_test ... ok", 0, 0),
        ];
        for (line, passed, failed) in table {
            assert_eq!(counts_in(line), Tally { passed, failed }, "{line}");
        }
    }
}
