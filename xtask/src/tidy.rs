//! `cargo xtask tidy`: house rules that no compiler checks, each with its reason.
//! An exception is a line in a table of its rule, with a reason.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

mod call_path;
mod commands;
mod doors;
mod format;
mod front_door;
mod functions;
mod glossary;
mod links;
mod machine_paths;
mod rooms;
mod rust;
mod services;
mod sources;
mod systems;
mod type_names;
mod workflows;

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Where, from the root of the workspace, with a line number when there is one.
    pub(crate) place: String,
    pub(crate) words: String,
}

/// A file of the workspace as git knows it, or as it will once it is added.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

pub(crate) fn tidy(root: &Path) -> Result<bool> {
    let files = files(root)?;
    let mut findings = doors::check(&files);
    findings.extend(links::check(&files, &|path| root.join(path).exists()));
    findings.extend(glossary::check(&files));
    findings.extend(commands::check(&files));
    findings.extend(rooms::check(&files));
    findings.extend(services::check(&files));
    findings.extend(front_door::check(&files));
    findings.extend(functions::check(&files));
    findings.extend(type_names::check(&files));
    findings.extend(systems::check(&files));
    findings.extend(call_path::check(&files));
    findings.extend(workflows::check(&files));
    findings.extend(format::check(root, &files)?);
    for file in &files {
        sources::check(file, &mut findings);
        machine_paths::check(file, &mut findings);
    }
    for finding in &findings {
        println!("{}: {}", finding.place, finding.words);
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Every text file that is committed or about to be; ignored files are not checked.
fn files(root: &Path) -> Result<Vec<SourceFile>> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("cannot start git")?;
    anyhow::ensure!(listed.status.success(), "git cannot list the files of the workspace");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut files = Vec::new();
    for path in names.split('\0').filter(|name| !name.is_empty()) {
        // A file that was removed but not committed is still listed; a binary file is not text.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            files.push(SourceFile { path: path.to_owned(), text });
        }
    }
    Ok(files)
}
