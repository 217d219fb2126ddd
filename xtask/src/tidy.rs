//! `cargo xtask tidy`: the rules of the house that no compiler checks, each with its reason.
//! An exception is a line in a table here, with the reason beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

mod doors;
mod places;
mod sources;

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

pub(crate) fn tidy(root: &Path) -> Result<bool> {
    let files = files(root)?;
    let mut findings = doors::check(&files);
    for file in &files {
        sources::check(file, &mut findings);
        places::check(file, &mut findings);
    }
    for finding in &findings {
        println!("{}: {}", finding.place, finding.words);
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    Ok(findings.is_empty())
}

/// Every text file that is committed or about to be; what git ignores is nobody's business here.
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
