//! A gate that keeps no audit log, to measure what the log costs. It is no way in which tollgate can be
//! run: the sources are copied to a scratch folder, the ledger there loses its file, and that is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What is written differently, in which file: decisions and limits stay, rows are neither made nor
/// chained nor written, and nobody locks or looks at the file.
const EDITS: [(&str, &str, &str); 5] = [
    (
        "crates/store/src/ledger/journal.rs",
        "let found = match rustix::fs::stat(&*self.c_path) {",
        "if self.offset > 0 { return Ok(Look::Same); }\n        let found = match rustix::fs::stat(&*self.c_path) {",
    ),
    (
        "crates/store/src/ledger/journal.rs",
        "add_row(&mut self.batch.bytes, &mut self.batch.head, write);\n        self.batch.head.seq\n",
        "drop(write);\n        self.batch.head.seq += 1;\n        self.batch.head.seq\n",
    ),
    (
        "crates/store/src/ledger/journal.rs",
        "let written = write_once(&self.tail.file, &self.batch.bytes);",
        "let written: io::Result<()> = Ok(());",
    ),
    (
        "crates/store/src/ledger/lock.rs",
        "match self.file.try_lock() {",
        "match Ok::<(), TryLockError>(()) {",
    ),
    ("crates/store/src/ledger/lock.rs", "let _ = self.file.unlock();", ""),
];

/// Builds it from the sources as they are now.
pub(super) fn build(root: &Path) -> Result<PathBuf> {
    let place = std::env::temp_dir().join("tollgate-bench-unrecorded");
    let (sources, target) = (place.join("src"), place.join("target"));
    copy_sources(root, &sources)?;
    for (file, from, to) in EDITS {
        let path = sources.join(file);
        let text = std::fs::read_to_string(&path)?;
        std::fs::write(&path, edited(&text, from, to).with_context(|| file.to_owned())?)?;
    }
    let manifest = sources.join("Cargo.toml");
    let manifest = manifest.to_string_lossy();
    let args = ["build", "--release", "--package", "tollgate", "--manifest-path", &manifest];
    super::cargo(&args, Some(&target))?;
    Ok(target.join("release/tollgate"))
}

fn edited(text: &str, from: &str, to: &str) -> Result<String> {
    if text.matches(from).count() != 1 {
        bail!("`{from}` is not there once\nhint: the ledger has changed; bring `EDITS` after it");
    }
    Ok(text.replace(from, to))
}

/// Copies what git knows of, as it is in the working tree.
fn copy_sources(root: &Path, to: &Path) -> Result<()> {
    let out = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let out = out.context("cannot run git")?;
    if !out.status.success() {
        bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    let _ = std::fs::remove_dir_all(to);
    let names = String::from_utf8(out.stdout)?;
    for name in names.split('\0').filter(|name| root.join(name).is_file()) {
        let copy = to.join(name);
        std::fs::create_dir_all(copy.parent().context("a file is in a folder")?)?;
        std::fs::copy(root.join(name), copy)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edits_fit_the_ledger_as_it_is() -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (file, from, to) in EDITS {
            let text = std::fs::read_to_string(root.join(file))?;
            assert!(edited(&text, from, to)? != text, "{file}");
        }
        Ok(())
    }
}
