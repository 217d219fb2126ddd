//! The dashboard in a real browser: Chromium, driven by Playwright, in front of a demo gate with a temporary
//! home. The tests are in `tests/e2e/pages`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::test::Tally;
use crate::tools::process::{Fixture, Scratch};
use crate::tools::{Tools, programs};

const SCRIPT: &str = "pages/run.mjs";

pub(crate) fn run(tools: &Tools, tollgate: &Path) -> Result<Tally> {
    let chromium = programs::chromium()?;
    let scratch = Scratch::new("pages")?;
    let log = scratch.path.join("gate.log");
    let gate = start(tollgate, &scratch, &log)?;
    let mut plan = gate.said.clone();
    if let Some(fields) = plan.as_object_mut() {
        fields.insert("chromium".to_owned(), chromium.display().to_string().into());
        fields.insert("python".to_owned(), tools.python.display().to_string().into());
    }
    let tally = drive(tools, &plan)?;
    if tally.failed > 0 {
        println!("the gate said:\n{}", fs::read_to_string(&log).unwrap_or_default());
    }
    Ok(tally)
}

/// Port 0: the gate says where it listens.
fn start(tollgate: &Path, scratch: &Scratch, log: &Path) -> Result<Fixture> {
    let mut command = Command::new(tollgate);
    command.arg("--home").arg(scratch.path.join("home"));
    command.args(["--json", "up", "--demo", "--listen", "127.0.0.1:0"]);
    Fixture::start(command.stderr(fs::File::create(log)?))
}

/// Runs the tests, shows their output as it arrives, and reads the verdict in the last line.
fn drive(tools: &Tools, plan: &Value) -> Result<Tally> {
    let mut child = tools
        .node_script(SCRIPT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {SCRIPT}"))?;
    let mut stdin = child.stdin.take().context("no input to write to")?;
    stdin.write_all(plan.to_string().as_bytes())?;
    drop(stdin);
    let stdout = child.stdout.take().context("no output to read")?;
    let mut verdict = None;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        match tally_in(&line) {
            Some(tally) => verdict = Some(tally),
            None => println!("{line}"),
        }
    }
    child.wait()?;
    verdict.with_context(|| format!("{SCRIPT} ended without a verdict"))
}

fn tally_in(line: &str) -> Option<Tally> {
    let verdict: Value = serde_json::from_str(line).ok()?;
    let count = |name: &str| usize::try_from(verdict.get(name)?.as_u64()?).ok();
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_verdict_is_counted() {
        let table = [
            (r#"{"passed":3,"failed":1}"#, Some(Tally { passed: 3, failed: 1 })),
            (r#"{"passed":3}"#, None),
            ("ok a sign-in link works once, 0.9 s", None),
        ];
        for (line, expected) in table {
            assert_eq!(tally_in(line), expected, "{line}");
        }
    }
}
