//! Runs the suite's command against a URL and reads what it wrote, scenario by scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tools::Tools;
use crate::tools::process::Scratch;

const BROKE_OFF: &str =
    r#"[{ "id": "scenario", "name": "ran", "status": "FAILURE", "errorMessage": "it broke off" }]"#;

/// Which part of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Suite {
    /// What a revision requires, frozen at its release, and what runs without being scored.
    Requirements(&'static str),
    /// Every scenario that applies to an older revision, which has no such list.
    Revision(&'static str),
}

/// What became of one scenario.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Check id and name, and how often it succeeded.
    pub(crate) succeeded: BTreeMap<String, usize>,
    pub(crate) failed: usize,
    /// What failures and warnings said.
    pub(crate) complaints: Vec<String>,
}

impl Outcome {
    pub(crate) fn passed(&self) -> bool {
        self.failed == 0
    }
}

pub(crate) type Scenarios = BTreeMap<String, Outcome>;

/// Runs to the end whatever fails; an error means that the suite itself could not run.
pub(crate) fn run(tools: &Tools, url: &str, suite: Suite) -> Result<Scenarios> {
    let results = Scratch::new("conformance")?;
    let selection: &[&str] = match suite {
        Suite::Requirements(revision) => &["--requirements", revision],
        Suite::Revision(revision) => &["--suite", "all", "--spec-version", revision],
    };
    let words = tools.npm_words("conformance", &["server", "--url", url]);
    let (program, arguments) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).args(selection).arg("--output-dir").arg(&results.path);
    // The suite has colours and long JSON for people; the result files have it all.
    let out = command.stdin(Stdio::null()).output().context("cannot start the suite")?;
    let scenarios = read(&results.path)?;
    if scenarios.is_empty() {
        bail!("the suite ran no scenario: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(scenarios)
}

/// One folder per scenario, named `server-<scenario>-<time>`, holds its `checks.json`.
fn read(results: &Path) -> Result<Scenarios> {
    let mut scenarios = Scenarios::new();
    for entry in fs::read_dir(results)? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(scenario) = scenario_of(&name) else { continue };
        // A scenario that broke off leaves a folder without checks: it counts as one that passed nothing.
        let text =
            fs::read_to_string(folder.join("checks.json")).unwrap_or_else(|_| BROKE_OFF.to_owned());
        let checks: Vec<Value> = serde_json::from_str(&text)?;
        scenarios.insert(scenario.to_owned(), outcome_of(&checks));
    }
    Ok(scenarios)
}

/// The outcome of a run of one client scenario, whose folder may be nested.
pub(crate) fn read_single(results: &Path) -> Result<Option<Outcome>> {
    for entry in fs::read_dir(results)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == "checks.json") {
            let checks: Vec<Value> = serde_json::from_str(&fs::read_to_string(&path)?)?;
            return Ok(Some(outcome_of(&checks)));
        }
        if path.is_dir()
            && let Some(outcome) = read_single(&path)?
        {
            return Ok(Some(outcome));
        }
    }
    Ok(None)
}

fn scenario_of(folder: &str) -> Option<&str> {
    let rest = folder.strip_prefix("server-")?;
    // …-2026-11-15T22-43-43-925Z
    let end = rest.len().checked_sub("-2026-11-15T22-43-43-925Z".len())?;
    rest.get(..end)
}

fn outcome_of(checks: &[Value]) -> Outcome {
    let mut outcome = Outcome::default();
    for check in checks {
        let word = |key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{} {}", word("id"), word("name"));
        match word("status") {
            "SUCCESS" => *outcome.succeeded.entry(name).or_default() += 1,
            "FAILURE" => {
                outcome.failed += 1;
                outcome.complaints.push(format!("{name}: {}", word("errorMessage")));
            }
            "WARNING" => outcome.complaints.push(format!("{name}: {}", word("errorMessage"))),
            _ => {}
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_read_from_its_folder() {
        let folder = "server-tools-call-error-2026-11-15T22-43-43-925Z";
        assert_eq!(scenario_of(folder), Some("tools-call-error"));
        assert_eq!(scenario_of("notes"), None);
    }

    #[test]
    fn checks_are_counted_by_status() {
        let checks = serde_json::json!([
            { "id": "a", "name": "A", "status": "SUCCESS" },
            { "id": "a", "name": "A", "status": "SUCCESS" },
            { "id": "b", "name": "B", "status": "FAILURE", "errorMessage": "why" },
            { "id": "c", "name": "C", "status": "INFO" },
        ]);
        let outcome = outcome_of(checks.as_array().map_or(&[], Vec::as_slice));
        assert_eq!(outcome.succeeded.get("a A"), Some(&2));
        assert_eq!((outcome.failed, outcome.complaints.len()), (1, 1));
    }
}
