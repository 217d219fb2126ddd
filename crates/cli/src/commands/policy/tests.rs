//! `policy test`: the tests in a policy, one line each.

use std::path::Path;

use anyhow::Result;
use policy::{Policy, TestOutcome};
use serde_json::{Value, json};

use crate::failure::Ending;
use crate::output::{Out, visible};
use crate::policy_file::{PolicySource, unusable};

pub(super) fn run(file: &Path, out: &mut Out) -> Result<Ending> {
    let source = PolicySource::read(file)?;
    let policy = Policy::compile(&source.text, source.format).map_err(|error| {
        let message = format!("`{}` does not load, so its tests did not run", source.name);
        unusable(&error.problems, &source, message, out)
    })?;
    let outcomes = policy.run_tests();
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    if out.wants_json() {
        out.json(&json!({
            "file": source.name,
            "passed": outcomes.len() - failed,
            "failed": failed,
            "tests": outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
        }))?;
        return Ok(Ending::of(failed == 0));
    }
    for outcome in &outcomes {
        show(outcome, &source.name, out)?;
    }
    if outcomes.is_empty() {
        out.warn(format_args!("`{}` has no tests; add a `tests` list", visible(&source.name)));
    }
    out.line(format_args!("{} passed, {failed} failed", outcomes.len() - failed))?;
    Ok(Ending::of(failed == 0))
}

fn show(outcome: &TestOutcome, file: &str, out: &mut Out) -> Result<()> {
    let name = visible(&outcome.name);
    if outcome.passed {
        let word = out.paint().good("ok");
        return out.line(format_args!("{word}    {name}"));
    }
    let word = out.paint().bad("FAIL");
    out.line(format_args!("{word}  {name}"))?;
    let wanted = match &outcome.expected_rule {
        Some(rule) => format!("{} by {}", outcome.expected, visible(rule)),
        None => outcome.expected.clone(),
    };
    out.line(format_args!(
        "      expected {wanted}, got {} by {}",
        outcome.got,
        visible(&outcome.rule)
    ))?;
    out.line(format_args!("      at {}:{}:{}", visible(file), outcome.line, outcome.column))
}

fn outcome_json(outcome: &TestOutcome) -> Value {
    json!({
        "name": outcome.name,
        "passed": outcome.passed,
        "expected": outcome.expected,
        "got": outcome.got,
        "expected_rule": outcome.expected_rule,
        "rule": outcome.rule,
        "line": outcome.line,
        "column": outcome.column,
    })
}
