//! `policy check`: the loader's own verdict on a policy text, shown like a compiler's.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use policy::{Policy, Problem};
use serde_json::{Value, json};

use super::Source;
use super::frame::{Grade, paragraph};
use crate::failure::Ending;
use crate::output::{Out, count, visible};

pub(super) fn run(files: &[PathBuf], out: &mut Out) -> Result<Ending> {
    let mut all_good = true;
    let mut reports = Vec::new();
    for file in files {
        let source = Source::read(file)?;
        if store::files::is_writable_by_all(file) {
            let shown = visible(&source.name);
            out.warn(format!("anyone on this machine may change `{shown}`; `chmod o-w {shown}`"));
        }
        match Policy::load(&source.text, source.format) {
            Ok(policy) => {
                complain(Grade::Warning, policy.warnings(), &source, out);
                reports.push(report(&source, &[], policy.warnings()));
                if !out.wants_json() {
                    let tests = count(policy.run_tests().len(), "test");
                    out.line(format_args!("{}: ok, {tests} passed", visible(&source.name)))?;
                }
            }
            Err(error) => {
                all_good = false;
                complain(Grade::Error, &error.problems, &source, out);
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

/// Shows problems on stderr with the line they are on; programs get them in the JSON instead.
pub(super) fn complain(grade: Grade, problems: &[Problem], source: &Source, out: &Out) {
    if out.wants_json() {
        return;
    }
    for problem in problems {
        let text = paragraph(grade, problem, &source.name, &source.text, out.talk_paint());
        out.say(text);
    }
}

/// A policy that does not load: shown with its lines to a person, and as the causes of the error to a
/// program.
pub(crate) fn unusable(
    problems: &[Problem],
    source: &Source,
    words: String,
    out: &Out,
) -> anyhow::Error {
    complain(Grade::Error, problems, source, out);
    if !out.wants_json() {
        return anyhow!(words);
    }
    let said = problems.iter().rev().map(|problem| {
        let hint = problem.hint.as_deref().map(|hint| format!("\nhint: {hint}"));
        format!(
            "line {}, column {}: {}{}",
            problem.line,
            problem.column,
            problem.words,
            hint.unwrap_or_default()
        )
    });
    let chain = said.fold(None, |inner: Option<anyhow::Error>, words| {
        Some(match inner {
            None => anyhow!(words),
            Some(inner) => inner.context(words),
        })
    });
    match chain {
        None => anyhow!(words),
        Some(chain) => chain.context(words),
    }
}

fn report(source: &Source, errors: &[Problem], warnings: &[Problem]) -> Value {
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
        "words": problem.words,
        "hint": problem.hint,
    })
}
