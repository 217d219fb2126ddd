//! `cargo xtask eval classifier [FILE]`: the accuracy of the classifier on labelled tools. An example
//! of the `catalog` crate does the work, so this crate does not depend on it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The labelled tools, in a folder next to a checkout of this repository. They are not part of it: the
/// descriptions belong to the servers' authors.
const LABELLED: &str = "../shared/data/tools_dev.jsonl";

pub(crate) fn eval(root: &Path, args: &[String]) -> Result<bool> {
    let file = args.first().map_or_else(|| root.join(LABELLED), PathBuf::from);
    anyhow::ensure!(
        file.is_file(),
        "there are no labelled tools at `{}`; give another file: cargo xtask eval classifier FILE \
         (what was measured when the table was trained is in crates/catalog/train/figures.json)",
        file.display()
    );
    let file = file.canonicalize().context("cannot resolve the path of the labelled tools")?;
    let status = super::cargo()
        .current_dir(root)
        .args(["run", "-q", "-p", "catalog", "--example", "classifier", "--", "eval"])
        .arg(&file)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}
