//! A gate without an audit log, to measure what the log costs. tollgate itself has no such option: this
//! copies the sources to a temporary folder, removes the log file from the ledger there, and builds that.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The edits, by file: decisions and limits stay; rows are neither built nor chained nor written, and the
/// file is neither locked nor checked.
const EDITS: [(&str, &str, &str); 5] = [
    (
        "crates/store/src/ledger/journal.rs",
        "let found = self.named.find().map_err(|e| match e.kind() {",
        "if self.cursor.offset > 0 { return Ok(TailCheck::Same); }\n        let found = self.named.find().map_err(|e| match e.kind() {",
    ),
    (
        "crates/store/src/ledger/journal.rs",
        "add_row(&mut self.batch.bytes, &mut self.batch.head, write);\n        self.batch.head.seq\n",
        "drop(write);\n        self.batch.head.seq += 1;\n        self.batch.head.seq\n",
    ),
    (
        "crates/store/src/ledger/journal.rs",
        "if let Err(e) = write_once(&self.file, rows) {",
        "if let Err(e) = Ok::<(), io::Error>(()) {",
    ),
    (
        "crates/store/src/ledger/lock.rs",
        "match self.folder.try_lock() {",
        "match Ok::<(), TryLockError>(()) {",
    ),
    ("crates/store/src/ledger/lock.rs", "let _ = self.folder.unlock();", ""),
];

/// Builds it from the current sources.
pub(super) fn build(root: &Path) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join("tollgate-bench-no-audit");
    let (sources, target) = (folder.join("src"), folder.join("target"));
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
        bail!("`{from}` does not occur exactly once\nhint: the ledger has changed; update `EDITS`");
    }
    Ok(text.replace(from, to))
}

/// Copies the files that git tracks, as they are in the working tree.
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
    fn the_edits_match_the_current_ledger() -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (file, from, to) in EDITS {
            let text = std::fs::read_to_string(root.join(file))?;
            assert!(edited(&text, from, to)? != text, "{file}");
            let new_names = to.split_whitespace().filter(|word| word.contains("TailCheck"));
            assert!(new_names.count() == 0 || text.contains("TailCheck::Same"), "{file}");
        }
        Ok(())
    }
}
