//! `cargo fmt` does not follow modules that a macro declares, as `services!` does. They are checked here.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Finding, SourceFile, services};

/// The folders with one module per service.
const FOLDERS: [&str; 2] = ["crates/connectors/src", "crates/sandbox/src/services"];

pub(super) fn check(root: &Path, files: &[SourceFile]) -> Result<Vec<Finding>> {
    let modules = modules(files);
    let output = Command::new("rustfmt")
        .current_dir(root)
        .args(["--edition", "2024", "--check", "-l"])
        .args(&modules)
        .output()
        .context("cannot start rustfmt")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let reason = format!("not formatted; run `rustfmt --edition 2024 {}`", modules.join(" "));
    Ok(vec![Finding { place: "crates/connectors/src/lib.rs".to_owned(), words: reason }])
}

/// The files of the services; rustfmt follows their own submodules.
fn modules(files: &[SourceFile]) -> Vec<String> {
    let names = services::names(files);
    let paths = FOLDERS
        .iter()
        .flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}.rs")));
    paths.filter(|path| files.iter().any(|file| file.path == *path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_checked_in_both_folders() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file("crates/connectors/src/lib.rs", "\nservices! {\n    demo,\n    whoop,\n}\n"),
            file("crates/connectors/src/demo.rs", ""),
            file("crates/connectors/src/whoop.rs", ""),
            file("crates/sandbox/src/services/whoop.rs", ""),
        ];
        let expected = [
            "crates/connectors/src/demo.rs",
            "crates/connectors/src/whoop.rs",
            "crates/sandbox/src/services/whoop.rs",
        ];
        assert_eq!(modules(&files), expected);
    }
}
