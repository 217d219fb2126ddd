//! `policy check`: the problems that the loader finds in a policy, shown like compiler errors.

use std::path::PathBuf;

use anyhow::Result;
use policy::{Policy, Problem};
use serde_json::{Value, json};

use crate::failure::Ending;
use crate::output::{Out, count, visible};
use crate::policy_file::{PolicySource, Severity, show_problems};

pub(super) fn run(files: &[PathBuf], out: &mut Out) -> Result<Ending> {
    let mut all_good = true;
    let mut reports = Vec::new();
    for file in files {
        let source = PolicySource::read(file)?;
        if let Some(open) = store::files::writable_by_all(file) {
            let (shown, open) = (visible(&source.name), open.display().to_string());
            let open = visible(&open);
            out.warn(format!("anyone on this machine can change `{shown}`; `chmod o-w {open}`"));
        }
        match Policy::load(&source.text, source.format) {
            Ok(policy) => {
                show_problems(Severity::Warning, policy.warnings(), &source, out);
                reports.push(report(&source, &[], policy.warnings()));
                if !out.wants_json() {
                    let tests = count(policy.run_tests().len(), "test");
                    out.line(format_args!("{}: ok, {tests} passed", visible(&source.name)))?;
                }
            }
            Err(error) => {
                all_good = false;
                show_problems(Severity::Error, &error.problems, &source, out);
                reports.push(report(&source, &error.problems, &[]));
                if !out.wants_json() {
                    let problems = count(error.problems.len(), "problem");
                    out.line(format_args!("{}: {problems}", visible(&source.name)))?;
                }
            }
        }
    }
    if out.wants_json() {
        out.json(&reports)?;
    }
    Ok(Ending::of(all_good))
}

fn report(source: &PolicySource, errors: &[Problem], warnings: &[Problem]) -> Value {
    json!({
        "file": source.name,
        "ok": errors.is_empty(),
        "errors": errors.iter().map(problem_json).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(problem_json).collect::<Vec<_>>(),
    })
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "line": problem.line,
        "column": problem.column,
        "pointer": problem.pointer,
        "words": problem.message,
        "hint": problem.hint,
    })
}
